"""Changes to a cluster for a what-if: fields that are set, objects that are removed, nodes that are cloned or cordoned.

Each function returns other objects and leaves the given ones as they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TypeVar

from msgspec import Struct, structs

from muster.cluster.manifests import Manifests, read
from muster.config.names import suggest
from muster.engine.core.state import Objects
from muster.model.core import Node, Pod, PodStatus
from muster.model.field_assignment import UnknownField, assign
from muster.model.finding import Finding, InputError
from muster.model.groups import NodeGroup
from muster.model.kinds import plain
from muster.model.meta import Object, controller
from muster.model.pod_states import is_finished
from muster.model.shape import Problem
from muster.model.storage import CSINode
from muster.model.topology import ExactMatch, HyperNode, HyperNodeMember, MemberSelector

__all__ = ["Changes", "changed", "cloned_node", "removed", "with_field"]

T = TypeVar("T", bound=Object)
Tables = dict[str, dict[str, Object]]
HOSTNAME = "kubernetes.io/hostname"
# Their pods belong to the node: DaemonSets create one for each node, the kubelet creates static pods.
_OF_THE_NODE = ("DaemonSet", "Node")


class Changes(Struct, frozen=True):
    """What to change, in this order: clones, fields, cordons, removals."""

    clones: tuple[str, ...] = ()  # nodes
    times: int = 1  # clones of each
    fields: tuple[str, ...] = ()  # KIND/[NAMESPACE/]NAME.PATH=VALUE
    cordons: tuple[str, ...] = ()  # nodes
    removals: tuple[str, ...] = ()  # KIND/[NAMESPACE/]NAME

    def __bool__(self) -> bool:
        return bool(self.clones or self.fields or self.cordons or self.removals)

    def __str__(self) -> str:
        """As they are typed."""
        times = f" --times {self.times}" if self.times != 1 else ""
        parts = [*(f"--clone-node {name}{times}" for name in self.clones), *(f"--set {text}" for text in self.fields)]
        parts += [*(f"--cordon {name}" for name in self.cordons), *(f"--remove {name}" for name in self.removals)]
        return " ".join(parts)


def changed(manifests: Manifests, changes: Changes) -> Manifests:
    """Returns the manifests with all changes. Raises InputError that names the option and the nearest name."""
    if not changes:
        return manifests
    objects: Objects = manifests.objects
    findings: list[Finding] = []
    for name in changes.clones:
        objects = cloned_node(objects, name, changes.times)
    for text in changes.fields:
        objects, found = with_field(objects, text)
        findings += found
    for name in changes.cordons:
        objects = cordoned(objects, name)
    for name in changes.removals:
        objects = removed(objects, name)
    tables = {kind: dict(of_kind) for kind, of_kind in objects.items()}
    return replace(manifests, objects=tables, findings=[*manifests.findings, *findings])


def with_field(objects: Objects, text: str) -> tuple[Tables, list[Finding]]:
    """Sets a field (`queue/x.spec.weight=4`); returns the objects and what the object's checks find."""
    option = f"--set {text}"
    target, equals, given = text.partition("=")
    if not equals:
        raise InputError(f"{option}: there is no value (write KIND/NAME.FIELD=VALUE, such as queue/x.spec.weight=4)")
    kind, key, path = _target(objects, target, option)
    if not path:
        raise InputError(f"{option}: there is no field (write KIND/NAME.FIELD=VALUE, such as queue/x.spec.weight=4)")
    obj = objects[kind][key]
    value = plain(obj)
    try:
        assign(type(obj), value, path, given)
    except UnknownField as fault:
        raise InputError(f"{option}: {fault.message}: {suggest(fault.name, fault.known)}") from None
    except Problem as fault:
        raise InputError(f"{option}: {fault}") from None
    found = read([(option, value)])
    made = found.objects.get(kind, {}).get(key)
    if found.errors:
        first = found.errors[0]
        raise InputError(f"{option}: {first.message}" + (f" ({first.fix})" if first.fix else ""))
    if made is None:
        raise InputError(f"{option}: the name and the kind of an object cannot be changed")
    return _with(objects, kind, {key: made}), found.findings


def removed(objects: Objects, target: str) -> Tables:
    """Removes an object and what it owns.

    The pods of a removed node wait for another one, as if their owners had created them again; pods of DaemonSets and
    static pods are removed with it.
    """
    kind, key, _ = _target(objects, target, f"--remove {target}", whole=True)
    tables = _without(objects, kind, [key])
    if kind == Node.__name__:
        pods = {name: pod for name, pod in _of(tables, Pod).items() if pod.spec.node_name == key}
        own = [name for name, pod in pods.items() if _owner_kind(pod) in _OF_THE_NODE]
        waiting = {name: _unbound(pod) for name, pod in pods.items() if name not in own and not is_finished(pod)}
        return _without(_with(tables, Pod.__name__, waiting), Pod.__name__, own)
    gone = {(objects[kind][key].kind, key)}
    while gone:  # as the garbage collector of Kubernetes does
        owned = [(name, inner, obj.kind) for name, inner, obj in _all(tables) if _owned_by(obj, gone)]
        for name in {name for name, _, _ in owned}:
            tables = _without(tables, name, [inner for table, inner, _ in owned if table == name])
        gone = {(kind, inner) for _, inner, kind in owned}
    return tables


def cordoned(objects: Objects, name: str) -> Tables:
    """Marks a node as unschedulable, as `kubectl cordon` does."""
    node = _node(objects, name, f"--cordon {name}")
    spec = structs.replace(node.spec, unschedulable=True)
    return _with(objects, Node.__name__, {name: structs.replace(node, spec=spec)})


def cloned_node(objects: Objects, name: str, times: int = 1) -> Tables:
    """Adds nodes like the given one: NAME-clone-1 and so on.

    They are members of the NodeGroups and HyperNodes that list the node by name, and have no pods.
    """
    node = _node(objects, name, f"--clone-node {name}")
    nodes = objects[Node.__name__]
    free = (made for i in range(1, len(nodes) + times + 1) if (made := f"{name}-clone-{i}") not in nodes)
    names = [made for made, _ in zip(free, range(times), strict=False)]
    tables = _with(objects, Node.__name__, {made: _renamed(node, made) for made in names})
    csi = _of(objects, CSINode).get(name)
    if csi is not None:
        tables = _with(tables, CSINode.__name__, {made: _renamed(csi, made) for made in names})
    groups = {
        key: structs.replace(group, spec=structs.replace(group.spec, nodes=[*group.spec.nodes, *names]))
        for key, group in _of(objects, NodeGroup).items() if name in group.spec.nodes
    }  # fmt: skip
    members = [_member(made) for made in names]
    domains = {
        key: structs.replace(domain, spec=structs.replace(domain.spec, members=[*domain.spec.members, *members]))
        for key, domain in _of(objects, HyperNode).items() if _member(name) in domain.spec.members
    }  # fmt: skip
    return _with(_with(tables, NodeGroup.__name__, groups), HyperNode.__name__, domains)


# --- objects by their names


def _target(objects: Objects, text: str, option: str, *, whole: bool = False) -> tuple[str, str, str]:
    """Returns the kind, the key and the path after it of KIND/[NAMESPACE/]NAME[.PATH]; a name may have dots."""
    word, slash, rest = text.partition("/")
    spelled = {kind.lower(): kind for kind, of_kind in objects.items() if of_kind}
    kind = spelled.get(word.lower()) or spelled.get(word.lower().removesuffix("s"))
    if not slash or not rest:
        raise InputError(f"{option}: there is no name (write KIND/NAME or KIND/NAMESPACE/NAME)")
    if kind is None:
        raise InputError(f"{option}: the input has no object of the kind {word}: {suggest(word, spelled)}")
    named = {shown: key for key in objects[kind] for shown in _spellings(key)}
    parts = rest.split(".")
    for end in range(len(parts), 0, -1):
        name = ".".join(parts[:end])
        if name in named and (end == len(parts) or not whole):
            return kind, named[name], ".".join(parts[end:])
    name = rest if whole else next((before for before, _ in _splits(rest)), rest)
    raise InputError(f"{option}: there is no {kind} {name}: {suggest(name, named)}")


def _splits(text: str) -> Iterator[tuple[str, str]]:
    """Yields where a name ends if a field of an object follows."""
    for field in (".spec", ".status", ".metadata"):
        before, found, after = text.partition(field)
        if found:
            yield before, field + after


def _spellings(key: str) -> Iterable[str]:
    """Returns how an object may be called: a name without a namespace is in `default`."""
    namespace, slash, name = key.partition("/")
    return (key, name) if slash and namespace == "default" else (key,)


def _node(objects: Objects, name: str, option: str) -> Node:
    nodes = _of(objects, Node)
    if name not in nodes:
        raise InputError(f"{option}: there is no node {name}: {suggest(name, nodes)}")
    return nodes[name]


def _of(objects: Objects, cls: type[T]) -> dict[str, T]:
    return {key: obj for key, obj in objects.get(cls.__name__, {}).items() if isinstance(obj, cls)}


def _all(objects: Objects) -> Iterator[tuple[str, str, Object]]:
    return ((kind, key, obj) for kind, of_kind in objects.items() for key, obj in of_kind.items())


# --- changed copies


def _with(objects: Objects, kind: str, new: Mapping[str, Object]) -> Tables:
    tables = {name: dict(of_kind) for name, of_kind in objects.items()}
    if new:
        tables[kind] = dict(sorted({**tables.get(kind, {}), **new}.items()))
    return tables


def _without(objects: Objects, kind: str, keys: Iterable[str]) -> Tables:
    gone = set(keys)
    return {
        name: {key: obj for key, obj in of_kind.items() if name != kind or key not in gone}
        for name, of_kind in objects.items()
    }


def _owned_by(obj: Object, owners: set[tuple[str, str]]) -> bool:
    owner = controller(obj.metadata)
    return owner is not None and (owner.kind, f"{obj.metadata.namespace}/{owner.name}") in owners


def _owner_kind(pod: Pod) -> str:
    owner = controller(pod.metadata)
    return "" if owner is None else owner.kind


def _unbound(pod: Pod) -> Pod:
    return structs.replace(pod, spec=structs.replace(pod.spec, node_name=""), status=PodStatus(phase="Pending"))


def _renamed(obj: T, name: str) -> T:
    meta = obj.metadata
    labels = {**meta.labels, **({HOSTNAME: name} if HOSTNAME in meta.labels else {})}
    return structs.replace(obj, metadata=structs.replace(meta, name=name, uid=name, labels=labels, resource_version=""))


def _member(name: str) -> HyperNodeMember:
    return HyperNodeMember(type="Node", selector=MemberSelector(exact_match=ExactMatch(name=name)))
