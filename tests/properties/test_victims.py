"""Nobody is evicted without need: without any one of the evictions the claim would not be granted.

This is about Volcano's rules, pod by pod. By muster's own rules victims go in units; test_evictions asks the same of
each unit ("P2 superfluous victim").
"""

from __future__ import annotations

from hypothesis import given

from muster.config.types import Config
from muster.cycle.scheduler import Scheduler
from muster.engine.core.jobs import Task
from muster.engine.core.nodes import MoveKind
from muster.engine.core.session import Session
from muster.engine.core.statement import Move, perform, revert
from strategies.clusters import NOW, Cluster, clusters
from strategies.configurations import EVERY_PLUGIN, configurations
from strategies.profiles import examples

ONE_NODE = tuple(p for p in EVERY_PLUGIN if p not in ("nodegroup", "topology"))  # without those that divide nodes
ALONE = (("preempt",), ("reclaim",), ("allocate", "preempt"), ("allocate", "reclaim", "preempt"))


def has_room(session: Session, claimer: Task, node: int, rule: str) -> bool:
    """Would the claim be granted as things stand, by the rules of the action that made it?"""
    if not session.placement.fits_future(claimer, node):
        return False
    if rule == "reclaim":
        return not any(p.wants(claimer) for p in session.pickers) or session.placement.passes(claimer, node)
    assert claimer.job is not None and claimer.job.queue is not None
    return session.admits(claimer.job.queue, claimer) > 0 and session.placement.passes(claimer, node)


def needed(session: Session, eviction: Move, claims: dict[str, str]) -> bool:
    """Go back to the moment of the claim it was made for, take the eviction back, and ask the claim again."""
    moves = session.committed
    promise = next(i for i, m in enumerate(moves) if m.kind == MoveKind.PIPELINE and m.task is eviction.by)
    later = moves[promise:]
    for move in reversed(later):
        revert(session, move)
    revert(session, eviction)
    claimer, node = moves[promise].task, moves[promise].nodes[0]
    granted = has_room(session, claimer, node, claims[claimer.key])
    perform(session, eviction)
    for move in later:
        perform(session, move)
    return not granted


@given(
    clusters(crowded=True),
    configurations(
        ONE_NODE, first=("priority", "gang", "conformance"), actions=ALONE, compatibility="volcano"
    ),
)
@examples(250)
def test_every_victim_is_needed(cluster: Cluster, config: Config) -> None:
    scheduler = Scheduler(config)
    session = scheduler.session(cluster.state(), NOW)
    claims: dict[str, str] = {}
    for name, run in scheduler.actions:
        start = len(session.committed)
        run(session)
        claims |= {m.task.key: name for m in session.committed[start:] if m.kind == MoveKind.PIPELINE}
    for eviction in [m for m in session.committed if m.kind == MoveKind.EVICT]:
        assert needed(session, eviction, claims), f"{eviction.task.key} need not have gone"
    session.close()
