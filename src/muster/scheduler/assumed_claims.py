"""Claims that an assumed pod will bind: until the watch shows them bound, the next cycles see them as bound."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from muster.engine.core.state import State
from muster.engine.volumes.volume_claims import BIND_COMPLETED, SELECTED_NODE, is_bound
from muster.model.meta import Object
from muster.model.storage import ObjectReference, PersistentVolume, PersistentVolumeClaim

CLAIM, VOLUME = "PersistentVolumeClaim", "PersistentVolume"


class AssumedClaims:
    """The claims and volumes as assumed pods will change them, on top of the observed objects."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._claims: dict[str, dict[str, Mapping[str, str]]] = {}  # claim → pod → what it will write
        self._volumes: dict[str, str] = {}  # volume → claim
        self._observed: dict[tuple[str, str], Object] = {}  # the objects without the assumption

    def assume(self, pod: str, claim: str, values: Mapping[str, str]) -> None:
        self._claims.setdefault(claim, {})[pod] = values
        volume = values.get("volumeName", "")
        if volume:
            self._volumes[volume] = claim
            self._show(VOLUME, volume)
        self._show(CLAIM, claim)

    def forget(self, pod: str) -> None:
        """Restores the observed objects: the pod is bound, or will not be."""
        for claim in [c for c, pods in self._claims.items() if pod in pods]:
            values = self._claims[claim].pop(pod)
            if self._claims[claim]:
                continue  # another pod shares the claim
            del self._claims[claim]
            self._restore(CLAIM, claim)
            volume = values.get("volumeName", "")
            if self._volumes.pop(volume, ""):
                self._restore(VOLUME, volume)

    def apply(self, kind: str, key: str, new: Object | None) -> Object | None:
        """Returns the object as the next cycles see it."""
        if kind not in (CLAIM, VOLUME) or not (key in self._claims if kind == CLAIM else key in self._volumes):
            return new
        if new is None:
            self._observed.pop((kind, key), None)
            return None
        self._observed[kind, key] = new
        return self._changed(key, new)

    def _show(self, kind: str, key: str) -> None:
        observed = self._observed.get((kind, key)) or self._state.objects[kind].get(key)
        if observed is not None:
            self._observed[kind, key] = observed
            self._state.upsert(kind, key, self._changed(key, observed))

    def _restore(self, kind: str, key: str) -> None:
        observed = self._observed.pop((kind, key), None)
        if observed is not None:
            self._state.upsert(kind, key, observed)

    def _changed(self, key: str, observed: Object) -> Object:
        meta = observed.metadata
        if isinstance(observed, PersistentVolume):
            namespace, _, name = self._volumes[key].partition("/")
            owner = ObjectReference(kind=CLAIM, namespace=namespace, name=name)
            if observed.spec.claim_ref:
                return observed
            return replace(observed, spec=replace(observed.spec, claim_ref=owner))
        if not isinstance(observed, PersistentVolumeClaim) or is_bound(observed):
            return observed
        values = next(iter(self._claims[key].values()))
        if "volumeName" in values:
            annotations = {**meta.annotations, BIND_COMPLETED: "yes"}
            spec = replace(observed.spec, volume_name=values["volumeName"])
            return replace(observed, metadata=replace(meta, annotations=annotations), spec=spec)
        annotations = {**meta.annotations, SELECTED_NODE: values["selectedNode"]}
        return replace(observed, metadata=replace(meta, annotations=annotations))
