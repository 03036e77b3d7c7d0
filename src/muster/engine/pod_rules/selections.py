"""Interned pod selectors of affinity terms and spread constraints, and which of them match a given pod.

A selection is a label selector and its namespaces. Many pods are matched against many selections, so a selection that
requires a certain label value is only tried for pods that have it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from muster.model.meta import LabelSelector, LabelSelectorRequirement
from muster.model.selectors import matches

_encode = msgspec.msgpack.Encoder(order="deterministic").encode


class Selection:
    """Selects pods by labels and namespace. With `parts` it matches the pods that all parts match."""

    __slots__ = ("id", "live_only", "namespace_selector", "namespaces", "parts", "selector")

    def __init__(
        self,
        id: int,
        namespaces: frozenset[str],
        namespace_selector: LabelSelector | None,
        selector: LabelSelector | None,
        live_only: bool,
        parts: tuple[Selection, ...] = (),
    ) -> None:
        self.id = id
        self.namespaces = namespaces
        self.namespace_selector = namespace_selector
        self.selector = selector
        self.live_only = live_only  # kube-scheduler: pods that are being deleted are not counted for spreading
        self.parts = parts

    def matches(self, namespace: str, namespace_labels: Mapping[str, str], labels: Mapping[str, str]) -> bool:
        if namespace not in self.namespaces and not matches(self.namespace_selector, namespace_labels):
            return False
        return matches(self.selector, labels)


class Selections:
    def __init__(self) -> None:
        self.keys: set[str] = set()  # the pod labels that any selection reads
        self._known: dict[object, Selection] = {}
        self._by_label: dict[tuple[str, str], list[Selection]] = {}
        self._without_label: list[Selection] = []  # those that require no certain label value
        self._joint: list[Selection] = []

    def of(
        self,
        selector: LabelSelector | None,
        namespaces: Iterable[str],
        namespace_selector: LabelSelector | None = None,
        *,
        live_only: bool = False,
    ) -> Selection:
        names = frozenset(namespaces)
        key = (names, _encode(namespace_selector), _encode(selector), live_only)
        found = self._known.get(key)
        if found is None:
            found = Selection(len(self._known), names, namespace_selector, selector, live_only)
            self._known[key] = found
            self._enter(found)
        return found

    def joint(self, parts: Iterable[Selection]) -> Selection:
        """Returns the selection of the pods that all of these match."""
        distinct = tuple(sorted(set(parts), key=lambda s: s.id))
        if len(distinct) == 1:
            return distinct[0]
        key = tuple(s.id for s in distinct)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = Selection(len(self._known), frozenset(), None, None, False, distinct)
            self._joint.append(found)
        return found

    def _enter(self, selection: Selection) -> None:
        selector = selection.selector
        if selector is None:
            return  # selects nothing
        self.keys.update(selector.match_labels)
        self.keys.update(e.key for e in selector.match_expressions)
        pairs = list(selector.match_labels.items())[:1]
        if not pairs:
            listed = next((e for e in selector.match_expressions if e.operator == "In"), None)
            if listed is None:
                self._without_label.append(selection)
                return
            pairs = [(listed.key, value) for value in dict.fromkeys(listed.values)]
        for pair in pairs:
            self._by_label.setdefault(pair, []).append(selection)

    def matching_ids(
        self, namespace: str, namespace_labels: Mapping[str, str], labels: Mapping[str, str], *, terminating: bool
    ) -> frozenset[int]:
        """Returns the ids of the selections that match a pod."""
        found = {
            s.id
            for candidates in (self._without_label, *(self._by_label.get(pair, ()) for pair in labels.items()))
            for s in candidates
            if not (s.live_only and terminating) and s.matches(namespace, namespace_labels, labels)
        }
        found.update(s.id for s in self._joint if all(part.id in found for part in s.parts))
        return frozenset(found)


def with_label_keys(
    selector: LabelSelector | None, labels: Mapping[str, str], match: Iterable[str], mismatch: Iterable[str] = ()
) -> LabelSelector | None:
    """The selector with matchLabelKeys and mismatchLabelKeys written out for a pod of these labels.

    Kubernetes: the API server does this when a pod is made; a manifest may not have been through one. Keys that the pod
    does not have are passed over, and a selector that is absent stays so.
    """
    if selector is None:
        return None
    extra = [LabelSelectorRequirement(key=k, operator="In", values=[labels[k]]) for k in match if k in labels]
    extra += [LabelSelectorRequirement(key=k, operator="NotIn", values=[labels[k]]) for k in mismatch if k in labels]
    if not extra:
        return selector
    return LabelSelector(match_labels=selector.match_labels, match_expressions=[*selector.match_expressions, *extra])
