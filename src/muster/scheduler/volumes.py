"""Claims of a pod that is placed: chosen first, waited for, and only then is the pod bound.

For a claim that a driver will serve, the chosen node is written on the claim; for one that an existing volume will
serve, the claim is written on the volume. The cluster's volume controller does the rest. If it does not in time, or the
driver gives the claim back, what we wrote is taken away again and the pod is placed anew.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from muster.engine.volumes.volume_claims import SELECTED_NODE, is_bound
from muster.model.storage import PersistentVolume, PersistentVolumeClaim
from muster.scheduler.api import SchedulerApi
from muster.scheduler.commits import PodBinding
from muster.store import errors

BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"


class VolumesNotBound(Exception):
    """The claims of a pod were not met; the text says which and why."""


class VolumeBinder:
    def __init__(self, calls: SchedulerApi, patience: float = 600.0, look_every: float = 1.0) -> None:
        self._calls = calls
        self._patience = patience
        self._look_every = look_every
        self._ending = False

    def give_up(self) -> None:
        """Wait for no claim any longer: who decides next may choose another node."""
        self._ending = True

    async def provide(self, bind: PodBinding) -> None:
        """Have the pod's claims bound; VolumesNotBound (and nothing left behind) if they are not."""
        written: list[tuple[str, Mapping[str, str]]] = []
        try:
            for key, values in bind.claims:
                if await self._write(key, values):
                    written.append((key, values))
            await self._bound([key for key, _ in bind.claims], {key for key, v in written if "selectedNode" in v})
        except (VolumesNotBound, errors.ApiError) as why:
            await self._undo(written)
            raise VolumesNotBound(str(why)) from None

    async def _write(self, key: str, values: Mapping[str, str]) -> bool:
        claim = await self._calls.get(PersistentVolumeClaim, key)
        if is_bound(claim) and claim.spec.volume_name:
            return False
        volume = values.get("volumeName", "")
        if not volume:
            await self._calls.annotate(
                PersistentVolumeClaim, key, {SELECTED_NODE: values["selectedNode"]}, uid=claim.metadata.uid
            )
            return True
        found = await self._calls.get(PersistentVolume, volume)
        held = found.spec.claim_ref
        namespace, _, name = key.partition("/")
        if held is not None and (held.namespace, held.name) != (namespace, name):
            raise VolumesNotBound(f"volume {volume} was taken by another claim")
        reference = {
            "apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "namespace": namespace, "name": name, "uid": claim.metadata.uid,
        }  # fmt: skip
        merge = {
            "metadata": {
                "uid": found.metadata.uid,
                "resourceVersion": found.metadata.resource_version,
                "annotations": {BY_CONTROLLER: "yes"},
            },
            "spec": {"claimRef": reference},
        }
        await self._calls.patch(PersistentVolume, volume, merge)
        return True

    async def _bound(self, keys: list[str], selected: set[str]) -> None:
        waiting = dict.fromkeys(keys)
        loop = asyncio.get_running_loop()
        end = loop.time() + self._patience
        while waiting:
            for key in list(waiting):
                claim = await self._calls.get(PersistentVolumeClaim, key)
                if is_bound(claim):
                    del waiting[key]
                elif key in selected and SELECTED_NODE not in claim.metadata.annotations:
                    # A driver that cannot serve the node takes the annotation away.
                    raise VolumesNotBound(f"claim {key} cannot be served on that node, says its driver")
            if not waiting:
                return
            if self._ending:
                raise VolumesNotBound("the scheduler ends")
            if loop.time() > end:
                raise VolumesNotBound(f"claim {next(iter(waiting))} was not bound within {self._patience:g} s")
            await asyncio.sleep(self._look_every)

    async def _undo(self, written: list[tuple[str, Mapping[str, str]]]) -> None:
        for key, values in written:
            volume = values.get("volumeName", "")
            try:
                if is_bound(await self._calls.get(PersistentVolumeClaim, key)):
                    continue
                if volume:
                    merge = {"metadata": {"annotations": {BY_CONTROLLER: None}}, "spec": {"claimRef": None}}
                    await self._calls.patch(PersistentVolume, volume, merge)
                else:
                    await self._calls.annotate(PersistentVolumeClaim, key, {SELECTED_NODE: None})
            except errors.ApiError:
                continue  # the next attempt writes over it
