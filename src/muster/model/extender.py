"""The messages between kube-scheduler and an extender (k8s.io/kube-scheduler/extender/v1).

The Go types have no JSON tags, so the keys are Go's field names; Go reads keys whatever their case, and older
schedulers sent them in lower case. Pods and nodes in a request are decoded only as far as needed: whole nodes are sent
back unchanged.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal, TypeVar

import msgspec
from msgspec import Raw, Struct, field

from muster.model import shape
from muster.model.core import Pod
from muster.model.meta import ObjectMeta, Partial

__all__ = ["ExtenderArgs", "FilterResult", "KnownNames", "MetaPod", "MetaVictims", "PreemptionArgs", "PreemptionResult",
           "Score", "WireError", "has_whole_objects", "read_args", "read_preemption"]  # fmt: skip

T = TypeVar("T")
Body = bytes | memoryview
# Each object and list of a pod takes up to a kilobyte once it is decoded, however short it is in JSON.
MAX_VALUES = 50_000


class WireError(ValueError):
    """The body does not follow the protocol."""


class _WithMetadata(Partial, kw_only=True):
    """The fields of a pod or node that are used here; apiVersion and kind are not sent."""

    metadata: ObjectMeta = field(default_factory=ObjectMeta)


class _NodeMeta(Partial, kw_only=True):
    name: str = ""
    labels: dict[str, str] = {}


class _Node(Partial, kw_only=True):
    metadata: _NodeMeta = field(default_factory=_NodeMeta)


class ExtenderArgs(Struct):
    """A pod and the nodes it could go to: by name (nodeCacheCapable), or whole."""

    pod: Pod
    names: list[str]
    nodes: list[Raw] | None = None  # aligned with names
    labels: list[dict[str, str]] | None = None


class FilterResult(Struct, rename="pascal"):
    """The nodes that pass, in the requested form, and why the others do not."""

    nodes: dict[str, Any] | None = None
    node_names: list[str] | None = None
    failed_nodes: dict[str, Raw] = {}
    failed_and_unresolvable_nodes: dict[str, Raw] = {}
    error: str = ""


class Score(Struct, rename="pascal", gc=False):
    """The score of a node, 0 to 10."""

    host: str
    score: int


class MetaPod(Struct, gc=False):
    """A victim by its uid."""

    uid: str = field(name="UID")


class MetaVictims(Struct):
    """The pods to be evicted from a node."""

    pods: list[MetaPod] = field(name="Pods", default_factory=list)
    violations: int = field(name="NumPDBViolations", default=0)


class PreemptionArgs(Struct):
    """A pod, and for each node the victims whose eviction would free enough capacity."""

    pod: Pod
    victims: dict[str, MetaVictims]


class PreemptionResult(Struct):
    """The nodes that remain."""

    victims: dict[str, MetaVictims] = field(name="NodeNameToMetaVictims")


class KnownNames:
    """Reads the usual request, with names of nodes, into strings that exist already.

    Thousands of new strings are spread over all of the memory, and whatever is done with them next takes longer. The
    names need not be current: a request with another name is read in the general way, with the same result.
    """

    def __init__(self, names: Iterable[str]) -> None:
        literal: Any = Literal[""]
        name: Any = literal.copy_with(("", *names))  # not Literal[names]: typing keeps the last 128 of those
        fields: Any = [("Pod", Raw), ("NodeNames", list[name]), ("Nodes", None, None)]
        self._decoder = msgspec.json.Decoder(msgspec.defstruct("Usual", fields, forbid_unknown_fields=True))

    def read(self, body: Body) -> tuple[Raw, list[str]] | None:
        """Returns the pod and the names of the nodes; None if this is not the usual request, or has other names."""
        try:
            usual: Any = self._decoder.decode(body)
        except (msgspec.DecodeError, RecursionError):
            return None
        return usual.Pod, usual.NodeNames


def has_whole_objects(body: Body) -> bool:
    """Returns whether the request has whole nodes, or whole victims, rather than their names."""
    parts = _parts(body)
    return any(name in parts and bytes(parts[name]) != b"null" for name in ("nodes", "nodenametovictims"))


def read_args(body: Body, known: KnownNames | None = None) -> ExtenderArgs:
    """The request of filter and prioritize. `known`: the names that it probably has."""
    usual = known.read(body) if known is not None else None
    if usual is not None:
        return ExtenderArgs(_pod({"pod": usual[0]}), usual[1])
    parts = _parts(body)
    pod = _pod(parts)
    names = _given(parts, "nodenames", list[str])
    if names is not None:
        return ExtenderArgs(pod, names)
    listed = _given(parts, "nodes", dict[str, Raw])
    if listed is None:
        raise WireError("neither Nodes nor NodeNames is given")
    items = _given(_lower(listed), "items", list[Raw]) or []
    metas = []
    for item in items:
        metas.append(_typed(_Node, item, "Nodes.items").metadata)
        if not metas[-1].name:
            raise WireError("Nodes.items: a node without a name")
    return ExtenderArgs(pod, [meta.name for meta in metas], items, [meta.labels for meta in metas])


def read_preemption(body: Body) -> PreemptionArgs:
    """The request of preempt, in either of its forms."""
    parts = _parts(body)
    pod = _pod(parts)
    found: dict[str, MetaVictims] = {}
    for whole, name in ((True, "nodenametovictims"), (False, "nodenametometavictims")):
        for node, raw in (_given(parts, name, dict[str, Raw]) or {}).items():
            victims = _lower(_typed(dict[str, Raw], raw, name))
            pods = _given(victims, "pods", list[Raw]) or []
            uids = [_typed(_WithMetadata, p, name).metadata.uid if whole else _uid(p) for p in pods]
            count = _given(victims, "numpdbviolations", int) or 0
            found.setdefault(node, MetaVictims([MetaPod(uid) for uid in uids], count))
    return PreemptionArgs(pod, found)


def _uid(raw: Raw) -> str:
    return _given(_lower(_typed(dict[str, Raw], raw, "NodeNameToMetaVictims")), "uid", str) or ""


def _pod(parts: dict[str, Raw]) -> Pod:
    text = bytes(parts.get("pod", b""))
    if text.count(b"{") + text.count(b"[") > MAX_VALUES:
        raise WireError(f"the Pod has more than {MAX_VALUES} objects and lists")
    asked = _given(parts, "pod", _WithMetadata)
    if asked is None:
        raise WireError("no Pod is given")
    try:
        return _typed(Pod, parts["pod"], "pod")
    except WireError:
        return Pod(metadata=asked.metadata)  # policies need no more


def _parts(body: Body) -> dict[str, Raw]:
    try:
        return _lower(msgspec.json.decode(body, type=dict[str, Raw]))
    except (msgspec.DecodeError, RecursionError) as fault:
        raise WireError(f"the body is not what kube-scheduler sends: {fault}") from None


def _lower(parts: dict[str, Raw]) -> dict[str, Raw]:
    return {name.lower(): part for name, part in parts.items()}


def _given(parts: dict[str, Raw], name: str, kind: type[T]) -> T | None:
    raw = parts.get(name)
    return None if raw is None or bytes(raw) == b"null" else _typed(kind, raw, name)


def _typed(kind: type[T], raw: Raw, name: str) -> T:
    try:
        return msgspec.json.decode(raw, type=kind)
    except msgspec.ValidationError as fault:
        try:
            # To Go a null is an absent field.
            return msgspec.convert(shape.without_nulls(kind, msgspec.json.decode(raw)), kind)
        except msgspec.ValidationError:
            raise WireError(f"{name}: {fault}") from None
    except (msgspec.DecodeError, RecursionError) as fault:
        raise WireError(f"{name}: {fault}") from None
