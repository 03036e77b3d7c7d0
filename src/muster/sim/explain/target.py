"""Reads the name that `muster explain` was given: a pod, or the owner or gang of pods."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from muster.config.names import nearest
from muster.engine.core.jobs import Status, Task
from muster.engine.core.state import State
from muster.groups.applications import owner_ref
from muster.model.finding import InputError

# kubectl's short names of kinds, and Volcano's.
_SHORT = {
    "cj": "cronjob", "deploy": "deployment", "ds": "daemonset", "lws": "leaderworkerset", "pg": "podgroup",
    "po": "pod", "rc": "replicationcontroller", "rs": "replicaset", "sts": "statefulset", "vcjob": "job",
    "vj": "job",
}  # fmt: skip


@dataclass(slots=True)
class Target:
    """The possible readings of a name: a pod, and an owner or gang."""

    pod: str  # ns/name; empty: the name cannot be that of a pod
    kind: str = ""  # of the owner, as it is compared; empty: the name cannot be that of an owner
    owner: str = ""  # ns/name
    _known: dict[str, bool] = field(default_factory=dict)  # uid → whether the pod belongs to the owner

    @staticmethod
    def parse(name: str, namespace: str | None) -> Target:
        """Reads `pod`, `ns/pod`, `kind/name` (with the namespace, by default `default`) or `ns/kind/name`."""
        parts = name.split("/")
        within = namespace or "default"
        if not all(parts) or len(parts) > 3:
            raise InputError(f"{name!r} names no pod: write POD, NS/POD, KIND/NAME or NS/KIND/NAME")
        if len(parts) == 1:
            return Target(f"{within}/{name}")
        if len(parts) == 2:
            kind = _kind(parts[0])
            if kind == "pod":
                return Target(f"{within}/{parts[1]}")
            return Target(name, kind, f"{within}/{parts[1]}")
        kind, owner = _kind(parts[1]), f"{parts[0]}/{parts[2]}"
        return Target(owner) if kind == "pod" else Target("", kind, owner)

    def __str__(self) -> str:
        return f"{self.kind} {self.owner}"

    def matches(self, task: Task, state: State) -> bool:
        return task.key == self.pod or (bool(self.kind) and self.owns(task, state))

    def owns(self, task: Task, state: State) -> bool:
        """Returns whether the pod belongs to the owner or gang."""
        if not self.owner.startswith(f"{task.namespace}/"):
            return False
        known = self._known.get(task.uid)
        if known is None:
            known = any(key == self.owner and _same(self.kind, table) for table, key in _owners(task, state))
            self._known[task.uid] = known
        return known

    def unknown(self, state: State) -> InputError:
        """Returns the error that nothing has this name."""
        near = nearest(self.pod, state.tasks) if self.pod else None
        if self.pod:
            elsewhere = sorted(k for k in state.tasks if k.partition("/")[2] == self.pod.partition("/")[2])
            near = elsewhere[0] if elsewhere else near
        kinds = {*_SHORT.values(), *(table.partition(".")[0].lower() for table in state.objects)}
        is_kind = self.kind.partition(".")[0] in kinds
        what = " and ".join([f"no pod {self.pod}"] * bool(self.pod) + [f"no {self}"] * (is_kind or not self.pod))
        return InputError(f"there is {what}" + (f": did you mean {near}?" if near else " in the input"))


def _kind(written: str) -> str:
    """Returns a kind in the form in which kinds are compared: lower case and singular."""
    name = written.lower()
    if name in _SHORT:
        return _SHORT[name]
    plural, dot, group = name.partition(".")
    singular = plural[:-1] if plural.endswith("s") and not plural.endswith("ss") else plural
    return _SHORT.get(singular, singular) + dot + group


def _same(kind: str, table: str) -> bool:
    """Whether a kind is that of an object table, whose name has the API group if muster does not define the kind."""
    written, _, group = kind.partition(".")
    name, _, known = table.lower().partition(".")
    return written == name and (not group or not known or group == known)


def _owners(task: Task, state: State) -> Iterator[tuple[str, str]]:
    """Yields kind and key of the owners of a pod, of its group, and of the workload that describes its group."""
    seen = set()
    above = owner_ref(task.pod)
    while above is not None and above not in seen:
        seen.add(above)
        yield above
        owner = state.lookup(*above)
        above = owner_ref(owner) if owner is not None else None
    if task.job is not None:
        for group in (state.group_object(task.job), state.described_owner(task.job)):
            if group is not None:
                yield group


def refuse_placed(state: State, task: Task) -> None:
    """Raises InputError if the scheduler has nothing to decide about the pod."""
    if task.pod.spec.node_name:
        raise InputError(f"pod {task.key} has its node already: {task.pod.spec.node_name}")
    if task.status != Status.PENDING:
        raise InputError(f"pod {task.key} does not wait for a node: it is {task.status.name.lower()}")
    if not state.needs_node(task):
        name = task.pod.spec.scheduler_name
        raise InputError(f"pod {task.key} is for the scheduler {name}: give --scheduler-name {name} to take it in")


def find(state: State, target: Target) -> Task:
    """Returns the pending pod of that name, or the first pending pod of the owner of that name."""
    task = state.tasks.get(target.pod)
    if task is None and target.kind:
        mine = [task for _, task in sorted(state.tasks.items()) if target.owns(task, state)]
        task = next((t for t in mine if state.needs_node(t)), mine[0] if mine else None)
    if task is None:
        raise target.unknown(state)
    refuse_placed(state, task)
    return task
