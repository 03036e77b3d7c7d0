"""What becomes of pods after `muster webhook` gave them a group: no place there, Jobs, and a webhook that was away."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from live.accounts import account_in
from live.api import Api, Plain, place, until
from live.conftest import MakeNodes
from live.controlplane import ControlPlane
from live.node_groups import template
from live.part_process import Part, free_port
from live.webhook_site import (
    ASSIGNED,
    BOUND,
    DIVIDED,
    by_city,
    deployment,
    editions,
    groups,
    made,
    pods,
    ranges,
    running,
    two_cities,
    unregister,
    webhook_part,
    weights,
)

pytestmark = pytest.mark.usefixtures("crds")

READMIT_AFTER_S = 5


@pytest.fixture
def webhook(control_plane: ControlPlane, api: Api, namespace: str) -> Iterator[Part]:
    quick = ("--no-leader-elect", "--readmit-after", f"{READMIT_AFTER_S}")
    with webhook_part(account_in(control_plane, namespace, "webhook"), namespace, free_port(), *quick) as part:
        yield part
    unregister(api)


@pytest.fixture
def cities(api: Api, namespace: str, make_nodes: MakeNodes) -> Iterator[str]:
    with two_cities(api, namespace, make_nodes, hangzhou=2, beijing=1) as there:
        yield there


def cordon(api: Api, city: str, closed: bool) -> None:
    for node in api.list("/api/v1/nodes"):
        name = node["metadata"]["name"]
        if name.startswith(f"{city}-"):
            api.merge(f"/api/v1/nodes/{name}", {"spec": {"unschedulable": closed}})


def uids(found: list[Plain]) -> set[str]:
    return {pod["metadata"]["uid"] for pod in found}


def test_pods_without_a_place_in_their_group_are_made_anew_for_another_that_takes_them(
    webhook: Part, cities: str, api: Api
) -> None:
    """Ranges leave a choice: each city may have all of them."""
    api.create(ranges(cities, (0, 4), (0, 4)))
    cordon(api, "beijing", True)
    time.sleep(0.3)
    api.create(deployment(cities, 4, DIVIDED))
    before = made(api, cities, 4)
    assert groups(before) == {"beijing": 2, "hangzhou": 2}
    placed = uids([pod for pod in before if pod["metadata"]["labels"][ASSIGNED] == "hangzhou"])
    found = running(api, cities, 4)
    assert by_city(found) == {"hangzhou": 4} and groups(found) == {"hangzhou": 4}
    assert placed < uids(found), "pods that had a place were touched"
    assert webhook.metric("muster_webhook_readmitted_total") == 2


def test_where_no_other_group_takes_them_they_come_again_ever_more_seldom(
    webhook: Part, cities: str, api: Api
) -> None:
    api.create(weights(cities, 1, 1))
    cordon(api, "beijing", True)
    time.sleep(0.3)
    api.create(deployment(cities, 2, DIVIDED))
    first = uids(made(api, cities, 2))
    until("one to be made anew", lambda: webhook.metric("muster_webhook_readmitted_total") == 1)
    began = time.monotonic()
    until("another pod", lambda: len(found := uids(pods(api, cities))) == 2 and found != first)
    assert groups(pods(api, cities)) == {"beijing": 1, "hangzhou": 1}
    second = uids(pods(api, cities))
    # Without the pause the next one would be gone by now; with it, it goes after twice that time at the earliest.
    time.sleep(max(began + 1.4 * READMIT_AFTER_S - time.monotonic(), 0))
    assert uids(pods(api, cities)) == second
    cordon(api, "beijing", False)
    assert by_city(running(api, cities, 2)) == {"beijing": 1, "hangzhou": 1}
    assert uids(pods(api, cities)) == second


def test_a_jobs_pods_are_made_when_it_is_bound_and_none_counts_as_failed(webhook: Part, cities: str, api: Api) -> None:
    """More pods than a Job may lose, in editions that differ in their arguments."""
    api.create(weights(cities, 1, 1))
    api.create(editions(cities))
    time.sleep(0.3)
    required = {label: value for label, value in BOUND.items() if "required" in label}
    train = template("train", restartPolicy="Never")
    top = api.create({
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": {"name": "train", "namespace": cities, "labels": required},
        "spec": {"parallelism": 10, "completions": 10, "backoffLimit": 0, "template": train},
    })  # fmt: skip
    time.sleep(1)
    assert pods(api, cities) == []
    api.merge(place(top), {"metadata": {"labels": BOUND}})  # what the controllers do
    found = until("10 pods", lambda: reported if len(reported := pods(api, cities)) == 10 else None, 30)
    assert groups(found) == {"beijing": 5, "hangzhou": 5}
    for pod in found:
        assert pod["spec"]["containers"][0]["args"] == [f"--city={pod['metadata']['labels'][ASSIGNED]}"]
    assert not api.get(place(top))["status"].get("failed")
