"""The random clusters of `muster.plugin_checks`, as hypothesis draws (and shrinks) them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec
from hypothesis import strategies as st

from muster.engine.core.podgroups import QUEUE_NAME as QUEUE
from muster.engine.core.state import State
from muster.groups.applications import PolicyLabels
from muster.model import kinds
from muster.model.meta import Object, key
from muster.plugin_checks.choices import SeededChoices
from muster.plugin_checks.pod_features import PLAIN_POD_RULES, POD_RULES, REQUESTS
from muster.plugin_checks.random_clusters import GPU, GROUP, NOW, cluster, state_of

__all__ = ["GPU", "GROUP", "NOW", "Cluster", "Drawn", "clusters", "crowds", "state_of"]

T = TypeVar("T")


class Drawn:
    """Choices that hypothesis makes."""

    def __init__(self, draw: st.DrawFn) -> None:
        self._draw = draw

    def one_of(self, options: Sequence[T]) -> T:
        return self._draw(st.sampled_from(options))

    def integer(self, least: int, most: int) -> int:
        return self._draw(st.integers(least, most))

    def flip(self) -> bool:
        return self._draw(st.booleans())

    def subset(self, options: Sequence[T]) -> list[T]:
        return self._draw(st.lists(st.sampled_from(options), unique=True, max_size=len(options)))


@dataclass(frozen=True)
class Cluster:
    """The objects of a cluster, in the order they were drawn."""

    objects: tuple[Object, ...]

    def state(self) -> State:
        return state_of(self.objects)

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """An example as one line of JSON per object."""
        printer.text("\n".join(["Cluster", *(msgspec.json.encode(o).decode() for o in self.objects), ""]))


@st.composite
def clusters(draw: st.DrawFn, *, plain: bool = False, crowded: bool = False, most_jobs: int = 5) -> Cluster:
    """`crowded`: old jobs use most of the capacity."""
    return Cluster(cluster(Drawn(draw), plain=plain, crowded=crowded, most_jobs=most_jobs))


_QUEUES = ("default", "q0", "q1")


@st.composite
def crowds(draw: st.DrawFn, *, crowded: bool = False) -> Cluster:
    """Clusters with many jobs of one pod that come in a few kinds, besides the other jobs: plain pods, some of them
    terminating, and groups of one pod. Queues have limits, so that a quota may end between equal pods.

    A drawn seed makes the choices: hypothesis itself prefers small clusters without runs.
    """
    choices = SeededChoices(draw(st.integers(0, 2**32)))
    objects = list(cluster(choices, crowded=crowded, most_jobs=2))
    if not crowded and choices.flip():
        objects = [one for one in objects if type(one).__name__ not in ("Pod", "PodGroup")]
    queues = _QUEUES if choices.flip() else _QUEUES[:1]
    for name in queues if choices.flip() else ():
        spec = {
            "capability": choices.one_of([{}, {"cpu": 3}, {"cpu": 5, "memory": "6Gi"}]),
            "weight": choices.integer(1, 3),
            "dequeueStrategy": choices.one_of(["", "", "fifo"]),
        }
        queue = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": name}}
        objects = [o for o in objects if key(o) != name or type(o).__name__ != "Queue"]
        objects.append(kinds.decode(queue | {"spec": spec}))
    number, places = 0, [key(o) for o in objects if type(o).__name__ == "Node"]
    for _ in range(choices.integer(1, 3)):
        spec = dict(choices.one_of(POD_RULES if choices.flip() else PLAIN_POD_RULES))
        request = choices.one_of(REQUESTS) if choices.integer(0, 3) else {}
        image, ports = spec.pop("image", "app"), spec.pop("ports", [])
        spec["containers"] = [{"name": "c", "image": image, "ports": ports, "resources": {"requests": request}}]
        spec |= choices.one_of([{}, {}, {"priorityClassName": "high"}, {"schedulingGates": [{"name": "wait"}]}])
        notes = {QUEUE: choices.one_of(queues)} | choices.one_of([{}, {}, {"sla-waiting-time": "45s"}])
        labels, grouped = choices.one_of([{}, {"app": "x"}]), choices.integer(0, 4) == 4
        # A label of which the pods may have different values.
        own = choices.one_of([*[""] * 8, "own", "own", "own", "app", PolicyLabels.PROPAGATION.required])
        for _ in range(choices.integer(2, 6)):
            number += 1
            created = choices.one_of(["2026-01-01T00:00:00Z", "2026-01-01T00:01:00Z"])
            meta = {"name": f"p{number}", "namespace": "d", "creationTimestamp": created}
            different = {own: choices.one_of([f"p{number}", "x"])} if own else {}
            given = notes | ({GROUP: f"p{number}"} if grouped else {})
            mine = meta | {"labels": labels | different, "annotations": given}
            place = {}
            if not choices.integer(0, 4):
                mine |= {"deletionTimestamp": "2026-01-01T00:02:00Z"}
                place = {"nodeName": choices.one_of(places)} if places and choices.flip() else {}
            objects.append(kinds.decode({"apiVersion": "v1", "kind": "Pod", "metadata": mine, "spec": spec | place}))
            if grouped:
                made = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup", "metadata": meta}
                objects.append(kinds.decode(made | {"spec": {"minMember": 1, "queue": notes[QUEUE]}}))
    return Cluster(tuple(objects))
