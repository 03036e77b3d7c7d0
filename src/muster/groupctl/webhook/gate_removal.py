"""Removes the scheduling gate of pods that were created before their application was bound.

Such a pod never ran. What may change while a pod is gated (images, labels, tighter affinity) is patched together with
the removal of the gate. If its edition differs in more, it is evicted, so that its owner creates it again.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from copy import deepcopy
from typing import Any

import msgspec

from muster.groupctl.owners import OwnerResolver
from muster.groupctl.webhook.mutator import Mutator
from muster.groupctl.webhook.review import AdmissionResponse
from muster.groups.applications import OwnerLoop, hold_reason
from muster.groups.assignment import UNBOUND, is_job_pod, without_gate
from muster.groups.override.json_patch import patch_between
from muster.kube.client import Client
from muster.kube.informer import Delta
from muster.kube.resources import resource_of
from muster.kube.writes import Writes
from muster.model.core import Pod
from muster.model.meta import controller
from muster.model.pod_states import is_terminating
from muster.store import errors

JSON_PATCH = "application/json-patch+json"
RETRY_DELAY_S = 5.0  # seconds, after the API server refused or did not answer
CONTESTED_RETRY_S = 1.0
_POD = resource_of(Pod)
_IMAGES = ("containers", "initContainers")


class GateRemover:
    """Removes scheduling gates. Call `observe` for every change; `run` does the work."""

    def __init__(self, client: Client, owners: OwnerResolver, mutator: Mutator, report: Callable[[str], None]) -> None:
        """Takes a client that writes only while this replica leads."""
        self.waiting: dict[str, Pod] = {}
        self._since: dict[str, float] = {}  # by uid: when the pod was first seen
        self._client = client
        self._writes = Writes(client)
        self._owners = owners
        self._mutator = mutator
        self._report = report
        self._news = asyncio.Event()

    def observe(self, delta: Delta) -> None:
        if delta.kind != "Pod":
            if self.waiting and delta.kind != "Node":
                self._news.set()
            return
        pod = delta.new
        if isinstance(pod, Pod) and _is_gated(pod):
            self.waiting[delta.key] = pod
            self._since.setdefault(pod.metadata.uid, time.monotonic())
            self._news.set()
        else:
            self.waiting.pop(delta.key, None)
            if isinstance(delta.old, Pod):
                self._since.pop(delta.old.metadata.uid, None)

    def check_again(self) -> None:
        """Checks the gated pods again."""
        self._news.set()

    async def run(self) -> None:
        """Runs until cancelled."""
        self.check_again()
        while True:
            await self._news.wait()
            self._news.clear()
            gate = self._client.gate
            while gate is not None and not gate():
                await asyncio.sleep(1.0)  # the replica that was active before may still write
            for key, pod in sorted(self.waiting.items()):
                try:
                    await self._remove_gate(key, pod)
                except (errors.Conflict, errors.NotFound):
                    continue  # it was changed or deleted: the watch shows it
                except (errors.ApiError, OwnerLoop) as fault:
                    self._report(f"pod {key} keeps its gate for now: {fault}")
                    asyncio.get_running_loop().call_later(RETRY_DELAY_S, self._news.set)

    async def _remove_gate(self, key: str, pod: Pod) -> None:
        application = await self._owners.application_of(pod)
        if hold_reason(application.labels) is not None or self.waiting.get(key) is not pod:
            return
        whole: dict[str, Any] = msgspec.json.decode(await self._client.request("GET", _POD.path(key)))
        meta = whole["metadata"]
        if meta["uid"] != pod.metadata.uid or meta.get("deletionTimestamp"):
            return
        before = {"metadata": meta, "spec": whole["spec"]}
        response, since = AdmissionResponse(), self._since.get(meta["uid"], time.monotonic())
        after = await self._mutator.made(before, meta["namespace"], meta["uid"], response, reserve=True, since=since)
        if _gates(after) == _gates(before):
            # Gated again, until the pods that were answered before it have appeared or expired.
            asyncio.get_running_loop().call_later(CONTESTED_RETRY_S, self._news.set)
            return
        self.waiting.pop(key, None)
        try:
            await self._write(key, pod, before, after)
        except errors.ApiError:
            self._mutator.forget(meta["uid"])
            raise

    async def _write(self, key: str, pod: Pod, before: dict[str, Any], after: dict[str, Any]) -> None:
        uid = pod.metadata.uid
        if (controller(pod.metadata) is None or is_job_pod(pod)) and not _is_patchable(before, after):
            after = without_gate(before)  # nobody would create it again, or a Job's limit of retries would count it
        if _is_patchable(before, after):
            patch = [{"op": "test", "path": "/metadata/uid", "value": uid}, *patch_between(before, after)]
            await self._client.request("PATCH", _POD.path(key), body=patch, content_type=JSON_PATCH)
        else:
            self._mutator.forget(uid)  # its replacement takes the slot
            # Budgets do not apply to a pod that never ran, and an eviction needs no right to delete pods.
            await self._writes.evict(key, uid=uid, grace=0)


def _is_gated(pod: Pod) -> bool:
    gated = any(gate.name == UNBOUND for gate in pod.spec.scheduling_gates)
    return gated and not is_terminating(pod)


def _gates(pod: dict[str, Any]) -> object:
    return pod["spec"].get("schedulingGates") or []


def _is_patchable(before: dict[str, Any], after: dict[str, Any]) -> bool:
    """Returns whether the pods differ only in fields that may change while a pod is gated."""
    return _fixed(before) == _fixed(after)


def _fixed(pod: dict[str, Any]) -> dict[str, Any]:
    spec: dict[str, Any] = deepcopy(pod["spec"])
    for field in ("schedulingGates", "affinity"):
        spec.pop(field, None)
    for field in _IMAGES:
        for container in spec.get(field) or ():
            container.pop("image", None)
    return spec
