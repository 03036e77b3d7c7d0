"""Nominations of plans without reasons, as a replay applies them."""

from __future__ import annotations

from builders.manifests import pod, typed
from muster.cluster.embedded import PlanExecutor
from muster.cluster.memory import MemoryStore, VirtualClock
from muster.engine.core.plan import Plan
from muster.model.core import Pod


def test_a_plan_without_reasons_writes_and_clears_nominations() -> None:
    known = pod("known") | {"status": {"phase": "Pending", "nominatedNodeName": "n9"}}
    store = MemoryStore(VirtualClock(0), [typed(known), typed(pod("new"))])
    executor = PlanExecutor(store)

    def nominated() -> dict[str, str]:
        return {name: one.status.nominated_node_name for name, one in store.of(Pod).items()}

    executor.execute(Plan(nominated={"default/new": "n1"}))
    assert nominated() == {"default/known": "", "default/new": "n1"}
    executor.execute(Plan())
    assert nominated() == {"default/known": "", "default/new": ""}
