"""Claims that a placed pod will bind: until the cluster shows it, later decisions see them as if they were bound."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from muster.engine.core.state import State
from muster.engine.volumes.volume_claims import BIND_COMPLETED, SELECTED_NODE, is_bound
from muster.model.meta import Object
from muster.model.storage import ObjectReference, PersistentVolume, PersistentVolumeClaim

CLAIM, VOLUME = "PersistentVolumeClaim", "PersistentVolume"


class AssumedClaims:
    """What pods on their way to a node will write on claims and volumes, laid over the objects as they were seen."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._laid: dict[str, dict[str, Mapping[str, str]]] = {}  # claim → pod → what it will write
        self._volumes: dict[str, str] = {}  # volume → claim
        self._seen: dict[tuple[str, str], Object] = {}  # what is hidden under an overlay

    def lay(self, pod: str, claim: str, values: Mapping[str, str]) -> None:
        self._laid.setdefault(claim, {})[pod] = values
        volume = values.get("volumeName", "")
        if volume:
            self._volumes[volume] = claim
            self._show(VOLUME, volume)
        self._show(CLAIM, claim)

    def lift(self, pod: str) -> None:
        """The pod is bound, or will not be: the objects speak for themselves again."""
        for claim in [c for c, pods in self._laid.items() if pod in pods]:
            values = self._laid[claim].pop(pod)
            if self._laid[claim]:
                continue  # another pod shares the claim
            del self._laid[claim]
            self._restore(CLAIM, claim)
            volume = values.get("volumeName", "")
            if self._volumes.pop(volume, ""):
                self._restore(VOLUME, volume)

    def over(self, kind: str, key: str, new: Object | None) -> Object | None:
        """The object as decisions should see it."""
        if kind not in (CLAIM, VOLUME) or not (key in self._laid if kind == CLAIM else key in self._volumes):
            return new
        if new is None:
            self._seen.pop((kind, key), None)
            return None
        self._seen[kind, key] = new
        return self._covered(key, new)

    def _show(self, kind: str, key: str) -> None:
        seen = self._seen.get((kind, key)) or self._state.objects[kind].get(key)
        if seen is not None:
            self._seen[kind, key] = seen
            self._state.upsert(kind, key, self._covered(key, seen))

    def _restore(self, kind: str, key: str) -> None:
        seen = self._seen.pop((kind, key), None)
        if seen is not None:
            self._state.upsert(kind, key, seen)

    def _covered(self, key: str, seen: Object) -> Object:
        meta = seen.metadata
        if isinstance(seen, PersistentVolume):
            namespace, _, name = self._volumes[key].partition("/")
            owner = ObjectReference(kind=CLAIM, namespace=namespace, name=name)
            return seen if seen.spec.claim_ref else replace(seen, spec=replace(seen.spec, claim_ref=owner))
        if not isinstance(seen, PersistentVolumeClaim) or is_bound(seen):
            return seen
        values = next(iter(self._laid[key].values()))
        if "volumeName" in values:
            notes = {**meta.annotations, BIND_COMPLETED: "yes"}
            spec = replace(seen.spec, volume_name=values["volumeName"])
            return replace(seen, metadata=replace(meta, annotations=notes), spec=spec)
        notes = {**meta.annotations, SELECTED_NODE: values["selectedNode"]}
        return replace(seen, metadata=replace(meta, annotations=notes))
