"""The dashboard of a live cluster, without a cluster: what it observes, keeps, and may do."""

from __future__ import annotations

import pytest

from builders.manifests import manifest, node, pod, state_of, typed
from muster.cli.install import PARTS
from muster.cli.install.rights import READ
from muster.engine.core.plan import Eviction
from muster.kube.informer import Delta
from muster.model.meta import Object, key
from muster.model.pod_states import eviction_annotations
from muster.sim.dashboard import answers
from muster.sim.dashboard.display import VIEWS
from muster.sim.dashboard.inputs import COMPUTED, observed
from muster.sim.dashboard.live import DashboardService, History, _is_visible
from muster.sim.inputs import default_config, load_config
from muster.store import Change

CONFIG = load_config(default_config())


def waiting(message: str) -> dict[str, object]:
    made = pod("p", cpu=99)
    made["status"]["conditions"] = [{"type": "PodScheduled", "status": "False", "message": message, "reason": "X"}]
    return made


def test_a_pod_waits_for_the_reason_that_its_scheduler_wrote() -> None:
    result = observed(CONFIG, state_of(node(), waiting("no luck")), 0.0, written=True)
    assert result.pending == {"default/p": "no luck"}


def test_without_a_written_reason_it_is_computed_and_says_so() -> None:
    result = observed(CONFIG, state_of(node(), pod("p", nodeSelector={"a": "b"}), pod("q")), 0.0, written=True)
    assert result.pending["default/p"].startswith("0/1 nodes are available: 1 node(s) didn't match")
    assert result.pending["default/p"].endswith(COMPUTED)
    assert result.pending["default/q"] == f"the next cycle binds it to n1 {COMPUTED}"


def test_node_groups_and_policies_of_the_cluster_are_shown() -> None:
    version = "groupmanagement.kubeedge.io/v1alpha1"
    group = manifest(version, "NodeGroup", "east", status={"containedNodes": ["n1"], "readyNodes": 1})
    share = {"name": "east", "desired": 3, "current": 2, "ready": 1}
    app = {"kind": "Deployment", "name": "web", "replicas": 3, "groups": [share]}
    policy = manifest(version, "PropagationPolicy", "pp", status={"applications": [app]})
    result = observed(CONFIG, state_of(node(), group, policy), 0.0)
    assert answers.groups(result).groups == [answers.GroupAnswer("east", ["n1"], 1)]
    (found,) = answers.policies(result).policies
    assert found.applications[0].groups == [answers.Share("east", 3, 2, 1)]
    assert "Deployment web" in VIEWS["policies"](result)
    assert "east" in VIEWS["groups"](result)


def test_a_computed_cycle_changes_nothing() -> None:
    state = state_of(node(), pod("q"))
    first, second = (observed(CONFIG, state, 0.0) for _ in range(2))
    assert first.pending == second.pending
    assert state.tasks["default/q"].node == -1
    assert (first.summary.pods, first.summary.pending) == (1, 1)


def delta(old: dict[str, object] | None, new: dict[str, object] | None) -> Delta:
    before, after = (None if one is None else typed(one) for one in (old, new))
    known = after or before
    assert known is not None
    return Delta(Change.MODIFIED, type(known).__name__, key(known), before, after)


def test_earlier_states_are_the_changes_undone() -> None:
    history = History()
    tables: dict[str, dict[str, Object]] = {"Pod": {}, "Node": {}}

    def change(old: dict[str, object] | None, new: dict[str, object] | None) -> None:
        found = delta(old, new)
        history.note(found)
        if found.new is None:
            del tables[found.kind][found.key]
        else:
            tables[found.kind][found.key] = found.new

    def names(number: int) -> list[str]:
        then = history.objects_at(tables, number)
        return [f"{k}@{o.spec.node_name}" for k, o in sorted(then["Pod"].items())]

    change(None, pod("a"))
    history.close(1.0, 1, 0.0)
    change(pod("a"), pod("a", on="n1"))
    change(None, pod("b"))
    history.close(2.0, 1, 0.0)
    history.close(2.5, 1, 0.0)  # nothing happened: no record
    evicted = pod("a", on="n1", meta={"deletionTimestamp": "2026-01-01T00:00:00Z"})
    evicted["status"]["conditions"] = [
        {"type": "DisruptionTarget", "status": "True", "reason": "Preempted", "message": "for b"}
    ]
    change(pod("a", on="n1"), evicted)
    history.close(3.0, 1, 0.0)
    change(evicted, None)
    assert [record.number for record in history.records] == [1, 2, 3]
    assert history.records[1].binds == {"default/a": "n1"}
    assert history.records[2].evictions[0].by == "for b"
    assert names(1) == ["default/a@"]
    assert names(2) == ["default/a@n1", "default/b@"]
    assert names(3) == ["default/a@n1", "default/b@"]
    assert sorted(tables["Pod"]) == ["default/b"]
    with pytest.raises(LookupError, match="no cycle 9"):
        names(9)


def test_evictions_by_muster_have_their_rule_and_deleted_pods_are_none() -> None:
    history = History()
    victim = pod("v", on="n1", annotations=eviction_annotations("default/boss", "preempt"))
    history.note(delta(victim, None))
    history.note(delta(pod("gone", on="n1"), None))
    history.close(1.0, 0, 0.0)
    assert history.records[0].evictions == [Eviction("default/v", "n1", "default/boss", "preempt")]


def test_heartbeats_are_not_shown_and_written_reasons_are() -> None:
    beat = node(ready=True)
    later = node(ready=True)
    later["status"]["conditions"][0]["lastHeartbeatTime"] = "2026-01-01T00:00:00Z"
    assert not _is_visible(typed(beat), typed(later))
    assert _is_visible(typed(waiting("a")), typed(waiting("b")))


def test_its_account_only_reads_and_never_secrets() -> None:
    for right in (*PARTS["dashboard"].rights, *PARTS["dashboard"].at_home):
        assert set(right.verbs) <= set(READ)
        assert "secrets" not in right.resources
        assert "*" not in (*right.resources, *right.verbs)
    assert "Secret" not in {kind.__name__ for kind in DashboardService.kinds}
