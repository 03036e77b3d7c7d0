"""By Volcano's rules a group that is refused admission evicts nobody."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from muster.config.types import Config
from muster.cycle.scheduler import Scheduler
from muster.engine.core.nodes import MoveKind
from strategies.clusters import NOW, Cluster, clusters
from strategies.configurations import configurations

ACTIONS = (("enqueue", "allocate", "preempt"), ("enqueue", "reclaim", "allocate"), ("reclaim", "preempt", "enqueue"))
PLUGINS = ("proportion", "capacity", "overcommit", "predicates", "nodeorder", "drf")


@given(
    clusters(crowded=True, plain=True),
    configurations(PLUGINS, first=("priority", "gang"), actions=ACTIONS, compatibility="volcano"),
    st.data(),
)
def test_a_group_that_is_refused_admission_evicts_nobody(cluster: Cluster, config: Config, data: st.DataObject) -> None:
    state = cluster.state()
    for job in state.jobs.values():
        if job.phase == "Inqueue" and data.draw(st.booleans(), label=f"{job.key} is not admitted yet"):
            job.phase = "Pending"
            job.min_resources = {"cpu": 1000 * data.draw(st.integers(1, 20), label="its cores")}
            job.mark_changed()
    scheduler = Scheduler(config)
    session = scheduler.session(state, NOW)
    for name, run in scheduler.actions:
        before = len(session.committed)
        pending = {key for key, job in session.jobs.items() if job.is_pending}
        run(session)
        for move in session.committed[before:]:
            if move.kind == MoveKind.EVICT:
                assert move.by is not None and move.by.job is not None
                assert move.by.job.key not in pending, f"{name}: {move.by.job.key} is not admitted"
    session.close()
