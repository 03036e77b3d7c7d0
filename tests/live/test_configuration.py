"""The configuration of a running scheduler: followed in a file and a ConfigMap; refusals are reported to users."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from builders.manifests import pod
from live.api import Api, Plain, place, until
from live.conftest import HOME, MakeNodes
from live.controlplane import ControlPlane
from live.muster_process import Scheduler, all_placed, condition, muster_pod, placed, stays_unplaced
from live.node_groups import BINDING, REQUIRED, thing, weights, workload
from live.test_scheduler import EVICTS
from muster.process.config_watcher import CONDITION

pytestmark = pytest.mark.usefixtures("crds")

ONLY_ENQUEUE = EVICTS.replace("enqueue, allocate, reclaim, preempt, backfill", "enqueue")
ONLY_BEST_EFFORT = EVICTS.replace("enqueue, allocate, reclaim, preempt, backfill", "enqueue, backfill")
BAD = {
    "no YAML": "actions: [",
    "an unknown plugin": EVICTS.replace("{name: drf}", "{name: dfr}"),
    "a wrong type": "actions: allocate\ntiers: 3\n",
}


def config_map(text: str, name: str = "muster-scheduler") -> Plain:
    meta = {"name": name, "namespace": HOME}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {"volcano-scheduler.conf": text}}


@pytest.fixture
def own_pod(api: Api, rights: None) -> Iterator[Plain]:
    """The pod that the scheduler runs in, by its environment."""
    until("its ServiceAccount", lambda: not api.gone(f"/api/v1/namespaces/{HOME}/serviceaccounts/default"))
    secure = {"allowPrivilegeEscalation": False, "runAsNonRoot": True, "capabilities": {"drop": ["ALL"]},
              "seccompProfile": {"type": "RuntimeDefault"}}  # fmt: skip
    container = {"image": "muster:test", "securityContext": secure}
    made = api.create(pod("muster-scheduler-0", namespace=HOME, container=container, schedulerName="nobody"))
    yield made
    api.delete(place(made), {"gracePeriodSeconds": 0})


def valid(api: Api, own: Plain) -> tuple[str, str]:
    """Status and message of the condition."""
    found = api.get(place(own))["status"].get("conditions", ())
    return next(((c["status"], c["message"]) for c in found if c["type"] == CONDITION), ("", ""))


def reported(api: Api, own: Plain, kind: str) -> list[tuple[str, str]]:
    found = [e for e in api.list(f"/api/v1/namespaces/{HOME}/events") if e["involvedObject"]["kind"] == kind]
    return [(e["reason"], e["message"]) for e in found if e["involvedObject"].get("uid") == own["metadata"]["uid"]]


def environment(own: Plain) -> dict[str, str]:
    return {"POD_NAME": own["metadata"]["name"], "POD_NAMESPACE": HOME}


def versions(muster: Scheduler) -> list[str]:
    """Of the cycles, in turn."""
    found = [entry["configuration"] for entry in muster.log() if entry["msg"] == "cycle"]
    return [one for i, one in enumerate(found) if i == 0 or found[i - 1] != one]


def test_a_configmap_is_watched_and_a_bad_one_refused(
    api: Api, namespace: str, make_nodes: MakeNodes, scheduler_kubeconfig: Path, own_pod: Plain,
    control_plane: ControlPlane,
) -> None:  # fmt: skip
    make_nodes(1)
    given = api.apply(config_map(ONLY_BEST_EFFORT))
    map_option = ("-c", f"configmap:{HOME}/muster-scheduler")
    with Scheduler(scheduler_kubeconfig, *map_option, environment=environment(own_pod)) as muster:
        until("the condition", lambda: valid(api, own_pod)[0] == "True")
        api.create(muster_pod(namespace, "waits"))
        until("a reason", lambda: "no allocate action" in condition(api, namespace, "waits").get("message", ""))
        for what, text in BAD.items():
            refused = muster.metric("muster_configuration_reloads_total")
            api.apply(config_map(text))
            until(what, lambda: muster.metric("muster_configuration_reloads_total") > refused)  # noqa: B023
            assert muster.metric("muster_configuration_valid") == 0
        until("the report", lambda: "tiers" in valid(api, own_pod)[1])
        assert valid(api, own_pod)[0] == "False"
        until("the events", lambda: len(reported(api, given, "ConfigMap")) == len(BAD))
        assert {reason for reason, _ in reported(api, given, "ConfigMap")} == {"ConfigurationRefused"}
        assert any("dfr" in text and "stays in use" in text for _, text in reported(api, given, "ConfigMap"))
        # As a user would see it.
        wanted = ("wait", f"--for=condition={CONDITION}=false", "pod/muster-scheduler-0", "-n", HOME, "--timeout=5s")
        assert control_plane.kubectl(*wanted).returncode == 0
        assert "ConfigurationRefused" in control_plane.kubectl("describe", "cm/muster-scheduler", "-n", HOME).stdout
        # The last good one decides on.
        api.create(muster_pod(namespace, "later"))
        until("a reason", lambda: "no allocate action" in condition(api, namespace, "later").get("message", ""))
        stays_unplaced(api, namespace, ["waits", "later"], 0.5)
        api.delete(place(given))
        until("the deletion", lambda: "no such ConfigMap" in valid(api, own_pod)[1])
        api.apply(config_map(EVICTS))
        all_placed(api, namespace, ["waits", "later"])
        until("the condition", lambda: valid(api, own_pod)[0] == "True")
        assert muster.metric("muster_configuration_valid") == 1
        assert len(versions(muster)) == 2 and versions(muster)[1] in valid(api, own_pod)[1]
        binds = [entry["configuration"] for entry in muster.log() if entry["msg"] == "bind"]
        assert binds == [versions(muster)[1]] * 2
        assert [line for line in muster.log() if "forbidden" in str(line).lower()] == []
    api.delete(place(given))


def test_a_file_is_followed_and_a_bad_one_refused(
    api: Api, namespace: str, make_nodes: MakeNodes, scheduler_kubeconfig: Path, own_pod: Plain
) -> None:
    make_nodes(1)
    with Scheduler(scheduler_kubeconfig, config=ONLY_BEST_EFFORT, environment=environment(own_pod)) as muster:
        api.create(muster_pod(namespace, "waits"))
        until("a reason", lambda: "no allocate action" in condition(api, namespace, "waits").get("message", ""))
        for text in BAD.values():
            refused = muster.metric("muster_configuration_reloads_total")
            muster.config.write_text(text, encoding="utf-8")
            until("a refusal", lambda: muster.metric("muster_configuration_reloads_total") > refused)  # noqa: B023
        assert muster.metric("muster_configuration_valid") == 0
        stays_unplaced(api, namespace, ["waits"], 0.5)
        until("the condition", lambda: valid(api, own_pod)[0] == "False")
        until("the events", lambda: len(reported(api, own_pod, "Pod")) == len(BAD))
        muster.config.write_text(EVICTS, encoding="utf-8")
        all_placed(api, namespace, ["waits"])
        until("the condition", lambda: valid(api, own_pod)[0] == "True")
        assert muster.metric("muster_configuration_valid") == 1
        assert len(versions(muster)) == 2


def test_one_that_is_bad_from_the_start_ends_the_scheduler_and_is_reported(
    api: Api, scheduler_kubeconfig: Path, own_pod: Plain
) -> None:
    given = api.apply(config_map("actions: alocate\n"))
    map_option = ("-c", f"configmap:{HOME}/muster-scheduler")
    muster = Scheduler(scheduler_kubeconfig, *map_option, environment=environment(own_pod))
    muster.start(wait=False)
    until("its end", lambda: not muster.running)
    message = muster.log_file.read_text(encoding="utf-8")
    assert muster.stop() == 2
    assert f"configmap:{HOME}/muster-scheduler:1" in message and "Traceback" not in message
    assert valid(api, own_pod)[0] == "False"
    assert reported(api, given, "ConfigMap")[0][0] == "ConfigurationRefused"
    api.delete(place(given))


@pytest.mark.parametrize(("name", "says"), [("another", "forbidden"), ("muster-scheduler", "no such ConfigMap")])
def test_one_that_cannot_be_read_is_reported(name: str, says: str, scheduler_kubeconfig: Path) -> None:
    muster = Scheduler(scheduler_kubeconfig, "-c", f"configmap:{HOME}/{name}")
    muster.start(wait=False)
    until("its end", lambda: not muster.running)
    message = muster.log_file.read_text(encoding="utf-8")
    assert muster.stop() == 2 and says in message and "Traceback" not in message


def test_a_plugin_that_is_added_sees_the_owners_it_needs(
    api: Api, namespace: str, make_nodes: MakeNodes, scheduler_kubeconfig: Path
) -> None:
    make_nodes(3)
    make_nodes(1, prefix="edge", labels={"city": namespace})
    city = thing("NodeGroup", namespace, spec={"matchLabels": {"city": namespace}})
    api.create(city)
    api.create(weights(namespace, **{namespace: 1}))
    owner = workload("Deployment", namespace, 6, {**REQUIRED, BINDING: "pp"})
    owner["spec"]["template"]["spec"]["schedulerName"] = "muster"
    with Scheduler(scheduler_kubeconfig, config=ONLY_ENQUEUE) as muster:
        api.create(owner)
        until("its pods", lambda: len(api.list(f"/api/v1/namespaces/{namespace}/pods")) == 6)
        muster.config.write_text(EVICTS.replace("{name: drf}", "{name: drf}, {name: propagation}"), encoding="utf-8")
        until("all placed", lambda: len(placed(api, namespace)) == 6)
        assert set(placed(api, namespace).values()) == {"edge4"}
    api.delete(place(owner))
    api.delete(place(city))
