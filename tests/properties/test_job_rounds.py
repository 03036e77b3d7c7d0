"""Jobs that take turns are served together as one at a time: plan, order, reasons, accounts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar
from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import asdict

from muster.actions import allocate
from muster.config.types import Config
from muster.cycle.scheduler import Scheduler
from muster.engine.core.session import Session
from muster.model import kinds
from muster.plugin_checks.choices import SeededChoices
from muster.plugin_checks.ledgers import Answers, all_answers
from muster.plugin_checks.pod_features import POD_RULES, REQUESTS
from muster.plugin_checks.random_clusters import cluster
from strategies.clusters import GROUP, NOW, Cluster
from strategies.configurations import EVICTING, configurations
from strategies.profiles import examples

T = TypeVar("T")
VOLCANO = "scheduling.volcano.sh/v1beta1"
TURNS = st.one_of(configurations(), configurations(first=("priority", "gang", "drf")))


def _differing(choices: SeededChoices, usual: T, others: Sequence[T]) -> T:
    """Mostly the usual value: jobs that differ take no turns."""
    return choices.one_of(others) if choices.integer(0, 7) == 7 else usual


@st.composite
def elastic_jobs(draw: st.DrawFn) -> Cluster:
    """Clusters with jobs of equal pods whose minimum is small, besides a few others; a drawn seed makes the choices."""
    choices = SeededChoices(draw(st.integers(0, 2**32)))
    objects = list(cluster(choices, plain=choices.flip(), most_jobs=2))
    if choices.flip():
        objects = [one for one in objects if type(one).__name__ not in ("Pod", "PodGroup")]
    limit = choices.one_of([{}, {}, {"cpu": 5, "memory": "6Gi"}])
    queue = {"apiVersion": VOLCANO, "kind": "Queue", "metadata": {"name": "e"}}
    objects.append(kinds.decode(queue | {"spec": {"capability": limit, "weight": choices.integer(1, 3)}}))
    offered = {"cpu": choices.integer(3, 9), "memory": "16Gi", "pods": 110}
    for i in range(choices.integer(1, 2)):
        node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": f"e{i}"}, "status": {"allocatable": offered}}
        objects.append(kinds.decode(node))
    spec = dict(_differing(choices, {}, POD_RULES))
    image, ports = spec.pop("image", "app"), spec.pop("ports", [])
    usual, least = choices.one_of(REQUESTS), choices.one_of([0, 1, 1])
    for j in range(choices.integer(2, 6)):
        meta: dict[str, Any] = {"name": f"e{j}", "namespace": "d"}
        meta["creationTimestamp"] = choices.one_of([None, "2026-01-01T00:00:00Z"])
        group: dict[str, Any] = {
            "minMember": _differing(choices, least, (0, 1, 2)),
            "queue": _differing(choices, "e", ("q0",)),
            "priorityClassName": _differing(choices, "", ("high", "low")),
            "minTaskMember": _differing(choices, {}, ({"main": 1},)),
        }
        made = {"apiVersion": VOLCANO, "kind": "PodGroup", "metadata": meta, "spec": group}
        objects.append(kinds.decode(made | {"status": {"phase": _differing(choices, "Inqueue", ("Pending",))}}))
        role, labels = _differing(choices, {}, ({"volcano.sh/task-spec": "main"},)), choices.one_of([{}, {"app": "x"}])
        request = {"requests": _differing(choices, usual, REQUESTS)}
        main = {"name": "main", "image": image, "ports": ports, "resources": request}
        for i in range(choices.integer(1, 5)):
            mine = {"name": f"e{j}-{i}", "namespace": "d", "labels": labels, "annotations": {GROUP: f"e{j}"} | role}
            pod = {"apiVersion": "v1", "kind": "Pod", "metadata": mine, "spec": {"containers": [main], **spec}}
            status = {"nominatedNodeName": "n0"} if choices.integer(0, 30) == 30 else {}
            objects.append(kinds.decode(pod | {"status": status}))
    return Cluster(tuple(objects))


def decided(drawn: Cluster, config: Config, *, together: bool) -> tuple[dict[str, Any], list[list[str]], Answers, bool]:
    """The plan, the order of its binds, what the plugins answer then, and whether pods of several jobs were moved
    together.
    """
    seen: list[tuple[Answers, bool]] = []

    def look(session: Session) -> None:
        seen.append((all_answers(session), any(m.several_jobs and not m.task.best_effort for m in session.committed)))

    serve = allocate.serve_round if together else lambda *of: False
    with patch.object(allocate, "serve_round", serve):
        plan = Scheduler(config).cycle(drawn.state(), NOW, look=look)
    return asdict(plan), [list(plan.binds), list(plan.pipelined)], *seen[0]


@given(elastic_jobs(), TURNS)
@examples(400)
def test_one_at_a_time(drawn: Cluster, config: Config) -> None:
    assert decided(drawn, config, together=True)[:3] == decided(drawn, config, together=False)[:3]


@given(elastic_jobs(), configurations(first=("priority", "gang", "conformance"), actions=EVICTING))
@examples(100)
def test_with_evictions(drawn: Cluster, config: Config) -> None:
    assert decided(drawn, config, together=True)[:3] == decided(drawn, config, together=False)[:3]


def test_rounds_are_drawn() -> None:
    together: list[bool] = []

    @given(elastic_jobs(), TURNS)
    @examples(400)
    def run(drawn: Cluster, config: Config) -> None:
        with patch("muster.engine.core.session.classify_single_jobs", lambda *of: None):
            together.append(decided(drawn, config, together=True)[3])

    run()
    assert sum(together) >= 2
