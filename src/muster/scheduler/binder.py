"""Sends the bindings of commits: many at a time, with a gang's journal around them and a pod's volumes before it.

Every binding ends with a message to the cache: it was accepted (the watch will show it), or it certainly does not exist
(its capacity is free again). If there was no answer, the pod is read until there is one; until then it stays assumed.

For a claim that a driver provisions, the chosen node is written on the claim; for a claim that an existing volume
serves, the claim is written on the volume. The cluster's volume controller does the rest. If it does not do so in time,
or the driver rejects the node, what was written is removed and the pod is scheduled again.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import replace
from enum import Enum
from typing import Any

from muster.cycle import plan_effects
from muster.engine.volumes.volume_claims import SELECTED_NODE, is_bound
from muster.kube.backoff import Backoff
from muster.kube.writes import FENCE
from muster.model.core import Pod
from muster.model.meta import Object
from muster.model.scheduling import PodGroup
from muster.model.storage import PersistentVolume, PersistentVolumeClaim
from muster.scheduler.api import RecordEvent, SchedulerApi
from muster.scheduler.commits import BindCommit, Commits, PodBinding
from muster.scheduler.evictor import Evictor
from muster.scheduler.inbox import BindRefused, CallResult, CommitFinished, Message, Observed
from muster.scheduler.journal import JOURNAL, JournalCarrier, annotation_patch
from muster.scheduler.metrics import Metrics
from muster.store import errors

Put = Callable[[Message], None]
BOUND_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"


class BindResult(Enum):
    BOUND = "bound"
    CHANGED = "changed"  # not bound because the pod has changed; it may be tried again at once
    REFUSED = "refused"  # not bound, and the same request would be refused again


class Binder:
    """Runs commits as tasks of the event loop."""

    def __init__(
        self, api: SchedulerApi, put: Put, record: RecordEvent, metrics: Metrics, *,
        observe: Callable[[Object], None], volume_timeout_s: float = 600.0,
    ) -> None:  # fmt: skip
        """`observe` gets an object as it was just written, before the watch shows it."""
        self._observe = observe
        self._api = api
        self._put = put
        self._record = record
        self._metrics = metrics
        self._volumes = VolumePreBinder(api, volume_timeout_s)
        self._evictor = Evictor(api, put, record, metrics)
        self._running: set[asyncio.Task[object]] = set()

    @property
    def in_flight(self) -> int:
        return len(self._running)

    def start(self, commits: Commits) -> None:
        """Starts the commits and returns at once."""
        for commit in commits.bindings:
            self._spawn(self._commit(commit))
        for evictions in commits.evictions:
            self._spawn(self._evictor.evict(evictions))

    def close_journal(self, carrier: JournalCarrier) -> None:
        self._spawn(self._close(carrier))

    def poll(self, pods: dict[str, str]) -> None:
        """Reads pods from the API server that the watch should have shown by now."""
        for key in pods:
            self._spawn(self._read(key))

    async def finished(self, seconds: float) -> bool:
        """Stops waiting for volumes, and waits until nothing is in flight; False if that takes too long."""
        self._volumes.stop()
        if self._running:
            await asyncio.wait(list(self._running), timeout=seconds)
        return not self._running

    def _spawn(self, work: Coroutine[Any, Any, object]) -> None:
        task = asyncio.create_task(work)
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    # --- commits

    async def _commit(self, commit: BindCommit) -> None:
        if commit.carrier is None:
            if await self._bind(commit.bindings[0]) is BindResult.BOUND:
                self._report(commit, list(commit.bindings))
            return
        try:
            carrier = await self._write_journal(commit.carrier, commit.journal)
        except errors.ApiError as error:
            for binding in commit.bindings:
                self._failed(binding, f"the group's journal could not be written: {error}", BindResult.REFUSED)
        else:
            results = await asyncio.gather(*(self._bind(_as_written(one, carrier)) for one in commit.bindings))
            pairs = zip(commit.bindings, results, strict=True)
            self._report(commit, [binding for binding, result in pairs if result is BindResult.BOUND])
            if all(result is BindResult.BOUND for result in results):
                await self._close(commit.carrier)
        self._put(CommitFinished(commit.group))

    async def _write_journal(self, carrier: JournalCarrier, text: str | None) -> PodGroup | Pod:
        if carrier.kind is PodGroup:
            return await self._api.annotate(PodGroup, carrier.key, {JOURNAL: text})
        # Through the status, which the scheduler may write; with the uid, because a pod can be recreated by its name.
        return await self._api.patch(Pod, carrier.key, annotation_patch(text, carrier.uid), sub="status")

    async def _close(self, carrier: JournalCarrier) -> None:
        try:
            # Observed at once: a cycle that still sees the journal would close it again.
            self._observe(await self._write_journal(carrier, None))
        except errors.ApiError:
            return  # a later cycle finds the journal and closes it
        self._metrics.journals_closed.inc()

    # --- one binding

    async def _bind(self, binding: PodBinding) -> BindResult:
        begin = time.monotonic()
        try:
            if binding.claims:
                await self._volumes.bind(binding)
            version, fence = binding.pod.metadata.resource_version, _fence(binding.pod)
            await self._api.bind(
                binding.key, binding.node, binding.annotations, uid=binding.uid, version=version, fence=fence
            )
        except VolumesNotBound as why:
            return self._failed(binding, str(why), BindResult.REFUSED)
        except (errors.Conflict, errors.NotFound) as error:
            await self._read(binding.key)
            return self._failed(binding, str(error), BindResult.CHANGED)
        except errors.ApiError as error:
            if not error.maybe_done:
                return self._failed(binding, str(error), BindResult.REFUSED)
            pod = await self._read(binding.key)
            if pod is None or pod.metadata.uid != binding.uid or pod.spec.node_name != binding.node:
                return self._failed(binding, str(error), BindResult.REFUSED)
        self._put(CallResult(binding.key, binding.uid, binding.node, True))
        self._metrics.bound(time.monotonic() - begin, binding.pod)
        return BindResult.BOUND

    def _report(self, commit: BindCommit, bound: list[PodBinding]) -> None:
        for event in plan_effects.binding_events([(one.pod, one.node) for one in bound], commit.pod_group):
            self._record(*event)

    def _failed(self, binding: PodBinding, why: str, result: BindResult) -> BindResult:
        if result is BindResult.REFUSED:
            self._put(BindRefused(binding.key, binding.uid, f"could not be bound to {binding.node}: {why}"))
        self._put(CallResult(binding.key, binding.uid, binding.node, False))
        self._metrics.bind_failures.inc()
        self._record(*plan_effects.binding_failed(binding.pod, why))
        return result

    async def _read(self, key: str) -> Pod | None:
        """Returns the pod as the API server has it, and passes it to the cache. Retries until there is an answer."""
        backoff = Backoff(0.2, 10.0)
        while True:
            try:
                pod = await self._api.get(Pod, key)
            except errors.NotFound:
                self._put(Observed("Pod", key, None, polled=True))
                return None
            except errors.ApiError as error:
                await asyncio.sleep(backoff.next(error.retry_after))
                continue
            self._put(Observed("Pod", key, pod, polled=True))
            return pod


def _as_written(binding: PodBinding, carrier: PodGroup | Pod) -> PodBinding:
    """Returns the binding with the version that the pod got by the journal, unless another leader has fenced it."""
    if not isinstance(carrier, Pod) or carrier.metadata.uid != binding.uid or _fence(carrier) != _fence(binding.pod):
        return binding
    return replace(binding, pod=carrier)


def _fence(pod: Pod) -> str:
    return pod.metadata.annotations.get(FENCE, "")


# --- volumes


class VolumesNotBound(Exception):
    """Raised if claims of a pod were not bound; the text names them and the reason."""


class VolumePreBinder:
    """Binds the claims of a pod before the pod."""

    def __init__(self, api: SchedulerApi, timeout_s: float = 600.0, poll_interval_s: float = 1.0) -> None:
        self._api = api
        self._timeout_s = timeout_s
        self._poll_interval_s = poll_interval_s
        self._stopping = False

    def stop(self) -> None:
        """Ends all waiting: the next leader may choose another node."""
        self._stopping = True

    async def bind(self, binding: PodBinding) -> None:
        """Binds the pod's claims. If that fails, everything written is removed, and VolumesNotBound is raised."""
        written: list[tuple[str, Mapping[str, str]]] = []
        try:
            for key, values in binding.claims:
                if await self._write(key, values):
                    written.append((key, values))
            await self._wait([key for key, _ in binding.claims], {key for key, v in written if "selectedNode" in v})
        except (VolumesNotBound, errors.ApiError) as why:
            await self._undo(written)
            raise VolumesNotBound(str(why)) from None

    async def _write(self, key: str, values: Mapping[str, str]) -> bool:
        claim = await self._api.get(PersistentVolumeClaim, key)
        if is_bound(claim) and claim.spec.volume_name:
            return False
        volume = values.get("volumeName", "")
        if not volume:
            await self._api.annotate(
                PersistentVolumeClaim, key, {SELECTED_NODE: values["selectedNode"]}, uid=claim.metadata.uid
            )
            return True
        found = await self._api.get(PersistentVolume, volume)
        owner = found.spec.claim_ref
        namespace, _, name = key.partition("/")
        if owner is not None and (owner.namespace, owner.name) != (namespace, name):
            raise VolumesNotBound(f"volume {volume} was taken by another claim")
        reference = {
            "apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "namespace": namespace, "name": name, "uid": claim.metadata.uid,
        }  # fmt: skip
        merge = {
            "metadata": {
                "uid": found.metadata.uid,
                "resourceVersion": found.metadata.resource_version,
                "annotations": {BOUND_BY_CONTROLLER: "yes"},
            },
            "spec": {"claimRef": reference},
        }
        await self._api.patch(PersistentVolume, volume, merge)
        return True

    async def _wait(self, keys: list[str], selected: set[str]) -> None:
        waiting = dict.fromkeys(keys)
        loop = asyncio.get_running_loop()
        end = loop.time() + self._timeout_s
        while waiting:
            for key in list(waiting):
                claim = await self._api.get(PersistentVolumeClaim, key)
                if is_bound(claim):
                    del waiting[key]
                elif key in selected and SELECTED_NODE not in claim.metadata.annotations:
                    # A driver that cannot serve the node removes the annotation.
                    raise VolumesNotBound(f"claim {key} cannot be served on that node, as its driver reports")
            if not waiting:
                return
            if self._stopping:
                raise VolumesNotBound("the scheduler ends")
            if loop.time() > end:
                raise VolumesNotBound(f"claim {next(iter(waiting))} was not bound within {self._timeout_s:g} s")
            await asyncio.sleep(self._poll_interval_s)

    async def _undo(self, written: list[tuple[str, Mapping[str, str]]]) -> None:
        for key, values in written:
            volume = values.get("volumeName", "")
            try:
                if is_bound(await self._api.get(PersistentVolumeClaim, key)):
                    continue
                if volume:
                    merge = {"metadata": {"annotations": {BOUND_BY_CONTROLLER: None}}, "spec": {"claimRef": None}}
                    await self._api.patch(PersistentVolume, volume, merge)
                else:
                    await self._api.annotate(PersistentVolumeClaim, key, {SELECTED_NODE: None})
            except errors.ApiError:
                continue  # the next attempt overwrites it
