"""A pod that is assigned to a node group: its label, and a node affinity that every term of it demands."""

from __future__ import annotations

from typing import Any

from muster.groups.assignment import ASSIGNED, assign

LABEL = "nodegroup.groupmanagement.kubeedge.io/beijing"
WANTED = {"key": LABEL, "operator": "Exists"}


def terms(*given: dict[str, Any]) -> list[dict[str, Any]]:
    """The terms of a pod that had these, once it is assigned."""
    required = {"nodeSelectorTerms": list(given)}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}} if given else {}
    pod: dict[str, Any] = {"metadata": {}, "spec": {"affinity": affinity}}
    assign(pod, "beijing", LABEL)
    assert pod["metadata"]["labels"] == {ASSIGNED: "beijing"}
    found = pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    return list(found["nodeSelectorTerms"])


def test_a_pod_without_affinity_gets_one_for_the_group() -> None:
    assert terms() == [{"matchExpressions": [WANTED]}]


def test_every_term_asks_for_the_group_and_keeps_what_it_asked_for() -> None:
    disk = {"key": "disk", "operator": "In", "values": ["ssd"]}
    field = {"key": "metadata.name", "operator": "In", "values": ["n"]}
    assert terms({"matchExpressions": [disk]}, {"matchFields": [field]}, {"matchExpressions": [WANTED]}) == [
        {"matchExpressions": [disk, WANTED]},
        {"matchFields": [field], "matchExpressions": [WANTED]},
        {"matchExpressions": [WANTED]},
    ]


def test_an_empty_term_selects_no_node_and_does_not_begin_to() -> None:
    assert terms({}) == [{}]


def test_without_a_node_label_only_the_pod_is_labelled() -> None:
    pod: dict[str, Any] = {}
    assign(pod, "beijing", None)
    assert pod == {"metadata": {"labels": {ASSIGNED: "beijing"}}}
