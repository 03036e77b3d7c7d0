"""The node groups of a DaemonSet, written as required node affinity into its pod template.

Otherwise the DaemonSet controller also creates pods for nodes outside the groups. They stay pending for ever and use up
`maxUnavailable`, so that no roll-out completes.

The terms of a required node affinity are ORed and are one field to server-side apply: whoever applies it owns all of
it. So muster applies the user's own terms, each ANDed with each group, and keeps the user's terms in an annotation.
They are restored when the application requires no policy any more.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from muster.groupctl.controllers.object_cache import Ref
from muster.groups.applications import DOMAIN
from muster.groups.assignment import member_label
from muster.model.affinity import NodeSelectorTerm
from muster.model.batch import DaemonSet
from muster.model.meta import key as key_of
from muster.model.meta import timestamp
from muster.store import Store

MANAGER = "muster-daemonset-affinity"
"""The field manager of the node affinity and the annotation."""
MARK = f"{DOMAIN}/daemonset-affinity"
"""The annotation with the user's own terms and the groups that were added to them."""
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
# Every write is a roll-out: if somebody reverts it repeatedly, it is repeated with a growing delay.
_FIRST_REPEAT_S, _LONGEST_REPEAT_S = 10.0, 3600.0

Terms = list[dict[str, Any]]


class DaemonSetAffinity:
    """Writes the node affinity of DaemonSets. `only_report`: why templates are not changed; empty: they are."""

    def __init__(self, store: Store, only_report: str = "") -> None:
        self._store = store
        self._only_report = only_report
        self._repeats: dict[str, tuple[float, float]] = {}  # DaemonSet → when it may be written again, and the delay
        self._waiting: dict[str, float] = {}  # DaemonSet → when it is written again

    def due_times(self) -> Iterator[tuple[Ref, float]]:
        """The DaemonSets to reconcile again, and when."""
        return ((("DaemonSet", key), at) for key, at in self._waiting.items())

    def write(self, app: DaemonSet, groups: Sequence[str], unlabelled: str = "") -> tuple[bool, list[str], str]:
        """Writes the groups into the template. Returns whether it wrote, the groups in the template, and a message.

        `unlabelled`: a node of the groups that does not have the label yet, and would lose its pod.
        """
        self._waiting.pop(key_of(app), None)
        if self._only_report:
            # An affinity that was written before stays: removing it would roll out pods that stay pending.
            named = [] if MARK not in app.metadata.annotations else _annotated(app)[1]
            return False, named, f"node affinity is not written: {self._only_report}"
        labels = {group: member_label(group) for group in groups}
        usable = [group for group, label in labels.items() if label is not None]
        left = [f"node group {group} has a name that no label can hold" for group in groups if group not in usable]
        if not usable:
            return False, [], "; ".join(["node affinity is not written: there is no node group", *left])
        if unlabelled and MARK not in app.metadata.annotations:
            return False, [], f"node affinity is not written yet: node {unlabelled} has no label of its node group"
        own, live = _own_terms(app), _live_terms(app)
        if own is not None and not any(own):
            return False, [], "node affinity is not written: the required node affinity of the template matches no node"
        wanted = _joined(own, usable)
        note = "; ".join([*left, "the terms of the template's own required node affinity are kept"] if own else left)
        mark = msgspec.json.encode({"terms": own, "groups": usable}).decode()
        if live == wanted and app.metadata.annotations.get(MARK) == mark:
            return False, usable, note
        key, now = key_of(app), self._store.clock.now()
        undone = MARK in app.metadata.annotations and _annotated(app)[1] == usable
        if undone:
            at, wait = self._repeats.get(key, (0.0, 0.0))
            if now < at:
                self._waiting[key] = at
                again = f"it is written again at {timestamp(int(at))}"
                return False, [], f"somebody else took the node affinity of the node groups away; {again}"
            wait = min(max(2 * wait, _FIRST_REPEAT_S), _LONGEST_REPEAT_S)
            self._repeats[key] = (now + wait, wait)
        self._store.apply(DaemonSet, key, _fields(app, mark, wanted), manager=MANAGER)
        return True, usable, note

    def restore(self, app: DaemonSet) -> bool:
        """Restores the user's terms in the template; whether anything was written."""
        if MARK not in app.metadata.annotations:
            return False
        key, own = key_of(app), _own_terms(app)
        self._repeats.pop(key, None)
        self._waiting.pop(key, None)
        if own is not None and own != _live_terms(app):
            # As an update it takes the field over, so that it stays when our field manager releases it.
            affinity = {"nodeAffinity": {_REQUIRED: {"nodeSelectorTerms": own}}}
            self._store.patch(DaemonSet, key, {"spec": {"template": {"spec": {"affinity": affinity}}}})
        self._store.apply(DaemonSet, key, {"metadata": {"uid": app.metadata.uid}}, manager=MANAGER)
        return True


def _fields(app: DaemonSet, mark: str, terms: Terms) -> dict[str, Any]:
    affinity = {"nodeAffinity": {_REQUIRED: {"nodeSelectorTerms": terms}}}
    meta = {"uid": app.metadata.uid, "annotations": {MARK: mark}}
    return {"metadata": meta, "spec": {"template": {"spec": {"affinity": affinity}}}}


def _joined(own: Terms | None, groups: Sequence[str]) -> Terms:
    """The user's terms ANDed with each group: one term for each pair. An empty term matches no node."""
    wishes = [{"key": member_label(group), "operator": "Exists"} for group in groups]
    terms: Terms = [{}] if own is None else [term for term in own if term]
    return [{**term, "matchExpressions": [*term.get("matchExpressions", []), w]} for term in terms for w in wishes]


def _live_terms(app: DaemonSet) -> Terms | None:
    affinity = app.spec.template.spec.affinity
    on_nodes = affinity.node_affinity if affinity is not None else None
    required = on_nodes.required if on_nodes is not None else None
    return None if required is None else [msgspec.to_builtins(term) for term in required.node_selector_terms]


class _Mark(msgspec.Struct):
    terms: list[NodeSelectorTerm] | None
    groups: list[str]


def _annotated(app: DaemonSet) -> tuple[Terms | None, list[str]]:
    """The user's terms and the groups, as the annotation has them."""
    try:
        found = msgspec.json.decode(app.metadata.annotations[MARK], type=_Mark)
    except (msgspec.DecodeError, RecursionError):
        return None, []
    return None if found.terms is None else [msgspec.to_builtins(term) for term in found.terms], found.groups


def _own_terms(app: DaemonSet) -> Terms | None:
    """The user's terms: those in the annotation, unless somebody has changed the template since."""
    live = _live_terms(app)
    if MARK not in app.metadata.annotations:
        return live
    own, groups = _annotated(app)
    if live is None:
        return None
    if groups and live == _joined(own, groups):
        return own
    ours = {member_label(group) for group in groups}
    found: Terms = []
    for term in live:
        rest = [wish for wish in term.get("matchExpressions", []) if wish.get("key") not in ours]
        bare = {name: value for name, value in {**term, "matchExpressions": rest}.items() if value}
        if term and not bare:
            return None  # only a group: the user's affinity allows any node
        if bare not in found:
            found.append(bare)
    return found
