"""Filters and scores pods for kube-scheduler with muster's plugins (`--plugins scheduler.yaml`).

The engine's state follows the cluster. Each request opens a session on it, as a scheduling cycle does, calls the
filters and scorers of the configured plugins for the pod, and closes it. kube-scheduler itself checks resources,
taints and volumes.
"""

from __future__ import annotations

import numpy as np
from msgspec.structs import replace

from muster.cycle.scheduler import Scheduler
from muster.engine.core.hooks import Batch
from muster.engine.core.state import State
from muster.engine.placement.trace import verdicts
from muster.groups.quota_usage import TOP_SCORE
from muster.model.core import Namespace, Node, Pod, PriorityClass
from muster.model.meta import Object, key
from muster.model.scheduling import PodGroup, Queue
from muster.store import Change, Store

KINDS: tuple[type[Object], ...] = (Node, Pod, Namespace, PriorityClass, Queue, PodGroup)
OURS = "muster"

Refusals = dict[str, tuple[str, bool]]
"""Node → the reason, and whether an eviction can resolve it."""


class PluginScores:
    """Follows a store. Serves one request at a time."""

    def __init__(self, store: Store, scheduler: Scheduler) -> None:
        self._store = store
        self._scheduler = scheduler
        self._state = State((OURS,))
        self._watch = store.watch("", KINDS)
        self._state.load({kind.__name__: {key(obj): obj for obj in store.list(kind).items} for kind in KINDS})

    def ask(self, pod: Pod) -> tuple[Refusals, dict[str, float]]:
        """Returns the refusals and the scores of the plugins by node."""
        self._follow()
        name = key(pod)
        task = self._state.tasks.get(name)
        known = None if task is None else task.pod
        # The pod is decided as if it were muster's, and a pod of a request has no node.
        spec = replace(pod.spec, node_name="", scheduler_name=OURS)
        self._state.upsert("Pod", name, replace(pod, spec=spec))
        try:
            return self._answer(name)
        finally:
            if known is None:
                self._state.remove("Pod", name)
            else:
                self._state.upsert("Pod", name, known)

    def _answer(self, name: str) -> tuple[Refusals, dict[str, float]]:
        state = self._state
        session = self._scheduler.session(state, self._store.clock.now())
        try:
            task = state.tasks.get(name)
            names = state.nodes.names
            if task is None or not len(names):
                return {}, {}
            view = state.nodes.everything()
            refused: Refusals = {}
            for plugin, verdict in verdicts(session, task, with_fit=False):
                for i in np.flatnonzero(verdict.code):
                    reason = verdict.reasons[int(verdict.code[i]) - 1]
                    refused.setdefault(names[i], (f"{reason.message(int(i))} ({plugin})", reason.resolvable))
            fits = np.array([node not in refused for node in names], np.bool_)
            total = np.zeros(len(names))
            for _, scorer in session.placement.scorers:
                if scorer.batch(task) == Batch.SKIP:
                    continue
                part = scorer.raw(task, view)
                if scorer.normalised:
                    part = scorer.normalise(task, part, fits if fits.any() else np.ones(len(names), np.bool_))
                total += part
            return refused, dict(zip(names, total.tolist(), strict=True))
        finally:
            session.close()

    def _follow(self) -> None:
        for event in self._watch.take():
            if event.change == Change.DELETED:
                self._state.remove(event.kind, event.key)
            else:
                self._state.upsert(event.kind, event.key, event.object)


def scaled(scores: dict[str, float], names: list[str]) -> dict[str, int]:
    """Scales the scores from 0 (worst node) to 10 (best node); all are 0 if they are equal."""
    asked = [scores[name] for name in names if name in scores]
    least, most = min(asked, default=0.0), max(asked, default=0.0)
    if most <= least:
        return {}
    return {n: int(TOP_SCORE * (scores[n] - least) / (most - least)) for n in names if n in scores}
