"""A cluster whose state follows its objects as they change."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from msgspec.structs import replace

from builders.manifests import state_of, typed
from muster.engine.core.plan import Plan
from muster.engine.core.state import State
from muster.model.core import Pod
from muster.model.meta import key


class FollowedCluster:
    def __init__(self) -> None:
        self.state = State()
        self.state.load({})
        self.objects: dict[tuple[str, str], Any] = {}

    def put(self, item: Any) -> None:
        obj = typed(item)
        self.objects[type(obj).__name__, key(obj)] = obj
        self.state.upsert(type(obj).__name__, key(obj), obj)

    def remove(self, kind: str, name: str) -> None:
        del self.objects[kind, name]
        self.state.remove(kind, name)

    def cold_state(self) -> State:
        """The cluster read afresh, with the admissions and promises that no object keeps."""
        self.state.refresh()
        cold = state_of(*self.objects.values())
        for name, job in cold.jobs.items():
            if cold.group_object(job) is None:
                job.phase = self.state.jobs[name].phase
        cold.promises = deepcopy(self.state.promises)
        return cold

    def apply(self, plan: Plan) -> None:
        for name, at in plan.binds.items():
            one: Pod = self.objects["Pod", name]
            self.put(replace(one, spec=replace(one.spec, node_name=at), status=replace(one.status, phase="Running")))
        for name, phase in plan.phases.items():
            of = self.objects.get(("PodGroup", name))
            if of is not None:
                self.put(replace(of, status=replace(of.status, phase=phase)))
        for eviction in plan.evictions:
            self.remove("Pod", eviction.pod)
