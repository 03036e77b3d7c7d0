"""The CustomResourceDefinitions as the real API server understands them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from live.api import Api, Plain, Refused, collection, place, until
from live.conftest import served
from live.controlplane import ControlPlane
from muster.cli import main
from muster.model.crd import OURS, PEERS

HERE = Path(__file__).parent
DEFINITIONS = {definition.cls.__name__: definition for definition in reversed((*OURS, *PEERS))}


def cases(file: str) -> list[Any]:
    entries = yaml.safe_load((HERE / file).read_text(encoding="utf-8"))
    return [pytest.param(entry, id=f"{entry['kind']}: {entry['why']}") for entry in entries]


def as_object(entry: Plain, name: str, namespace: str) -> Plain:
    definition = DEFINITIONS[entry["kind"]]
    meta = {"name": name, "namespace": namespace} if definition.cls.namespaced else {"name": name}
    version = entry.get("version", "kueue.x-k8s.io/v1alpha1" if entry["kind"] == "Topology" else definition.api_version)
    obj = {"apiVersion": version, "kind": entry["kind"], "metadata": meta}
    return {**obj, "spec": entry["spec"]} if "spec" in entry else obj


def strictly(api: Api, obj: Plain) -> Plain:
    """As kubectl sends it: unknown fields are mistakes."""
    return api.call("POST", collection(obj) + "?fieldValidation=Strict&dryRun=All", obj)


@pytest.mark.parametrize("entry", cases("refused.yaml"))
def test_the_api_server_refuses(entry: Plain, api: Api, crds: None) -> None:
    with pytest.raises(Refused) as refused:
        strictly(api, as_object(entry, "bad", "default"))
    named = " ".join([*refused.value.fields, refused.value.message])
    assert refused.value.status in (400, 422)
    assert entry["field"] in named


@pytest.mark.parametrize("entry", cases("accepted.yaml"))
def test_the_api_server_takes(entry: Plain, api: Api, crds: None) -> None:
    taken = strictly(api, as_object(entry, "good", "default"))
    assert_within(entry.get("spec", {}), taken.get("spec"))
    assert_within(entry.get("filled", {}), taken)


def assert_within(wanted: Any, there: Any, place: str = "") -> None:
    """Everything wanted is there; null says that nothing may be there."""
    if isinstance(wanted, dict):
        for name, value in wanted.items():
            if value is None and place.count("any") == 0:
                assert name not in there, f"{place}.{name}"
            else:
                assert_within(value, there[name], f"{place}.{name}")
    elif isinstance(wanted, list):
        assert len(wanted) == len(there), place
        for i, value in enumerate(wanted):
            assert_within(value, there[i], f"{place}[{i}]")
    else:
        assert wanted == there, place


def test_a_topology_cannot_be_changed(api: Api, crds: None) -> None:
    made = api.create(as_object({"kind": "Topology", "spec": {"levels": [{"nodeLabel": "rack"}]}}, "fixed", ""))
    with pytest.raises(Refused) as refused:
        api.merge(place(made), {"spec": {"levels": [{"nodeLabel": "block"}]}})
    assert refused.value.fields == ["spec.levels"]
    api.delete(place(made))


def test_status_is_a_subresource(api: Api, crds: None) -> None:
    group = as_object({"kind": "NodeGroup", "spec": {"nodes": ["n1"]}}, "standing", "")
    made = api.create({**group, "status": {"nodes": 7}})
    assert "status" not in made
    seen = {"status": {"containedNodes": ["n1"], "nodes": 1, "readyNodes": 1, "observedGeneration": 1}}
    api.merge(place(made) + "/status", seen)
    assert api.get(place(made))["status"] == seen["status"]
    api.delete(place(made))


def test_null_is_a_value_that_an_override_may_write(api: Api, crds: None) -> None:
    rule = {"plaintext": [{"path": "/spec/hostname", "operator": "replace", "value": None}]}
    policy = as_object({"kind": "OverridePolicy", "spec": {"overrideRules": [rule]}}, "nothing", "default")
    assert strictly(api, policy)["spec"]["overrideRules"][0]["plaintext"][0]["value"] is None


def test_a_policy_may_have_a_weight_and_a_rule_for_each_of_five_hundred_groups(api: Api, crds: None) -> None:
    names = [f"g{i}" for i in range(500)]
    weights = [{"nodeGroupNames": [name], "weight": i + 1} for i, name in enumerate(names)]
    strictly(api, as_object({"kind": "PropagationPolicy", "spec": {"staticWeightList": weights}}, "many", "default"))
    image = {"component": "Registry", "operator": "replace", "value": "r.io"}
    rules = [{"targetNodeGroup": [name], "imageOverrider": [image]} for name in names]
    strictly(api, as_object({"kind": "OverridePolicy", "spec": {"overrideRules": rules}}, "many", "default"))


def test_kubectl_shows_columns_and_knows_the_short_names(control_plane: ControlPlane, api: Api, crds: None) -> None:
    made = api.create(as_object({"kind": "Queue", "spec": {"parent": "root"}}, "shown", ""))
    lines = control_plane.kubectl("get", "q", "shown").stdout.splitlines()
    assert lines[0].split() == ["NAME", "PARENT", "WEIGHT", "STATE", "RUNNING", "PENDING", "INQUEUE", "AGE"]
    assert lines[1].split()[:3] == ["shown", "root", "1"]
    for short in ("pg", "hn", "ng", "pp", "op"):
        assert control_plane.kubectl("get", short).returncode == 0
    api.delete(place(made))
    policy = api.create(as_object({"kind": "OverridePolicy", "spec": {"overrideRules": []}}, "shown", "default"))
    shown = control_plane.kubectl("get", "op", "shown", "-n", "default").stdout
    assert shown.splitlines()[0].split() == ["NAME", "RESOLVED", "SATISFIED", "REASON", "AGE"]
    api.delete(place(policy))


EMPTY = {"apiVersion": "v1", "kind": "List", "items": []}


def test_missing_prints_only_what_the_cluster_lacks(control_plane: ControlPlane, api: Api, crds: None) -> None:
    asked = ["crds", "--with-peers", "--missing", "-o", "json", "--kubeconfig", str(control_plane.kubeconfig)]
    assert yaml.safe_load(CliRunner().invoke(main, asked).stdout) == EMPTY
    assert yaml.safe_load(CliRunner().invoke(main, [*asked[:3], *asked[5:]]).stdout) == EMPTY
    name = "topologies.kai.scheduler"
    path = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}"
    kept = api.get(path)
    api.delete(path)
    until("the kind to be gone", lambda: api.gone("/apis/kai.scheduler"))
    lacking = yaml.safe_load(CliRunner().invoke(main, asked).stdout)
    assert [item["metadata"]["name"] for item in lacking["items"]] == [name]
    api.create({**lacking["items"][0]})
    until("the kind to be back", lambda: served(api, "/apis/kai.scheduler/v1alpha1/topologies"))
    assert api.get(path)["spec"] == kept["spec"]
