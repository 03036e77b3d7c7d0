"""Sends the bindings of commits: many at a time, a gang's journal with the first of them, a pod's volumes before it.

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
from typing import Any, TypeVar

from muster.cycle import plan_effects
from muster.engine.volumes.volume_claims import SELECTED_NODE, is_bound
from muster.kube.backoff import Backoff
from muster.kube.writes import FENCE
from muster.model.core import Pod
from muster.model.meta import Object
from muster.model.storage import PersistentVolume, PersistentVolumeClaim
from muster.scheduler.api import RecordEvent, SchedulerApi
from muster.scheduler.commits import BindCommit, Commits, PodBinding
from muster.scheduler.evictor import Evictor
from muster.scheduler.inbox import BindRefused, CallResult, CommitFinished, Message, Observed
from muster.scheduler.journal import JOURNAL, JournalCarrier, removal
from muster.scheduler.metrics import Metrics
from muster.store import errors

Put = Callable[[Message], None]
T = TypeVar("T")
# The other bindings of a gang keep their places for so long while the first is answered, then other pods are bound.
SLOT_WAIT_S = 1.0
BOUND_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"


class Binder:
    """Runs commits as tasks of the event loop."""

    def __init__(
        self, api: SchedulerApi, put: Put, record: RecordEvent, metrics: Metrics, *,
        observe: Callable[[Object], None], volume_timeout_s: float = 600.0, at_once: int = 64,
    ) -> None:  # fmt: skip
        """`observe` gets an object as it was just written, before the watch shows it. `at_once`: so many bindings."""
        self._observe = observe
        self._api = api
        self._put = put
        self._record = record
        self._metrics = metrics
        self._volumes = VolumePreBinder(api, volume_timeout_s)
        self._evictor = Evictor(api, put, record, metrics)
        self._running: set[asyncio.Task[object]] = set()
        self._slots = asyncio.Semaphore(at_once)
        self.sending = 0  # bindings that the API server has not answered

    @property
    def in_flight(self) -> int:
        return len(self._running)

    def start(self, commits: Commits) -> None:
        """Starts the commits and returns at once."""
        for commit in commits.bindings:
            self._spawn(self._commit(commit))
        for evictions in commits.evictions:
            self._spawn(self._evictor.evict(evictions))

    def remove_journal(self, carrier: JournalCarrier) -> None:
        self._spawn(self._remove_journal(carrier))

    def poll(self, pods: dict[str, str]) -> None:
        """Reads pods from the API server that the watch should have shown by now."""
        for key, uid in pods.items():
            self._spawn(self._read(key, uid))

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
        begin = time.monotonic()
        partial = True  # unless it is known to have bound all of its pods or none
        try:
            done = await self._bind_all(commit, begin) if await self._bind_volumes(commit) else []
            bound = [binding for binding, is_bound in zip(commit.bindings, done, strict=False) if is_bound is True]
            unknown = [result for result in done if isinstance(result, BaseException)]
            for binding, result in zip(commit.bindings, done, strict=False):
                if isinstance(result, BaseException):
                    # It may be bound: if the watch does not show it, the pod is read.
                    self._put(CallResult(binding.key, binding.uid, binding.node, True))
            complete = len(bound) == len(commit.bindings)
            partial = bool(unknown or bound) and not complete
            self._report(commit, bound)
            if commit.group and complete:
                self._metrics.gang_commits.inc()
            if unknown:
                raise unknown[0]
        finally:
            if commit.group:
                self._put(CommitFinished(commit.group, commit.journal if partial else ""))

    async def _bind_all(self, commit: BindCommit, begin: float) -> list[bool | BaseException]:
        """Returns which bindings were accepted, or the errors that nobody expected."""
        if len(commit.bindings) == 1:
            try:
                return [await self._alone(commit.bindings[0], begin)]
            except Exception as error:
                return [error]
        # The first binding writes the journal. All of them queue up at once: no other binding comes between those of a
        # gang, which is partial until the last of them.
        first = _FirstBinding()
        calls = [
            self._other(one, begin, first) if number else self._first(one, begin, commit.journal, first)
            for number, one in enumerate(commit.bindings)
        ]
        return await asyncio.gather(*calls, return_exceptions=True)

    async def _remove_journal(self, carrier: JournalCarrier) -> None:
        try:
            # Observed at once: a cycle that still sees the journal would remove it again.
            self._observe(await self._api.patch(Pod, carrier.key, removal(carrier), sub="status"))
        except errors.ApiError:
            await self._read(carrier.key, carrier.uid)  # if it still has the journal, the next cycle removes it

    # --- one binding

    async def _bind_volumes(self, commit: BindCommit) -> bool:
        """Binds the claims of all pods. If those of one are not bound, no pod of the commit is."""
        if not any(binding.claims for binding in commit.bindings):
            return True
        done = await asyncio.gather(*(self._bind_claims(binding) for binding in commit.bindings))
        for binding, is_ready in zip(commit.bindings, done, strict=True):
            if is_ready and not all(done):
                self._put(CallResult(binding.key, binding.uid, binding.node, False, urgent=False))
        return all(done)

    async def _bind_claims(self, binding: PodBinding) -> bool:
        try:
            if binding.claims:
                await self._volumes.bind(binding)
        except VolumesNotBound as why:
            return self._failed(binding, str(why))
        return True

    async def _alone(self, binding: PodBinding, begin: float) -> bool:
        async with self._slots:
            error = await self._send(binding)
        return await self._result(binding, begin, error) is not None

    async def _first(self, binding: PodBinding, begin: float, journal: str, first: _FirstBinding) -> bool:
        """Binds the first pod of a gang, and writes the journal with it."""
        accepted = False
        try:
            async with self._slots:
                first.sent()
                error = await self._send(binding, journal)
            pod = await self._result(binding, begin, error)
            # A pod that was read may have been bound by somebody else, without the journal.
            accepted = pod is not None and (error is None or pod.metadata.annotations.get(JOURNAL) == journal)
            return pod is not None
        finally:
            first.answered(accepted)  # also after an unexpected error: the others wait for it

    async def _other(self, binding: PodBinding, begin: float, first: _FirstBinding) -> bool:
        """Binds a pod of a gang after the first one; without the journal it must not be bound."""
        error = None
        async with self._slots:
            await first.soon
            is_answered = first.answer.done()
            if is_answered and first.answer.result():
                error = await self._send(binding)
        if not is_answered and await first.answer:
            async with self._slots:
                error = await self._send(binding)
        if first.answer.result():
            return await self._result(binding, begin, error) is not None
        self._put(CallResult(binding.key, binding.uid, binding.node, False, urgent=False))
        return False

    async def _send(self, binding: PodBinding, journal: str = "") -> errors.ApiError | None:
        """Sends the binding; returns the error if it was not accepted."""
        annotations = {**binding.annotations, JOURNAL: journal} if journal else binding.annotations
        self.sending += 1
        try:
            version, fence = binding.pod.metadata.resource_version, binding.pod.metadata.annotations.get(FENCE, "")
            await self._api.bind(binding.key, binding.node, annotations, uid=binding.uid, version=version, fence=fence)
        except errors.ApiError as error:
            return error
        finally:
            self.sending -= 1
        return None

    async def _result(self, binding: PodBinding, begin: float, error: errors.ApiError | None) -> Pod | None:
        """Reports whether the pod is bound, and returns it if it is. `begin` is when the commit began."""
        pod = binding.pod
        if error is not None:
            # A conflict can be with our own binding, the answer to which was lost.
            changed = isinstance(error, (errors.Conflict, errors.NotFound))
            found = await self._read(binding.key, binding.uid) if changed or error.maybe_done else None
            if found is None or found.metadata.uid != binding.uid or found.spec.node_name != binding.node:
                self._failed(binding, str(error), changed)
                return None
            pod = found
        self._put(CallResult(binding.key, binding.uid, binding.node, True))
        self._metrics.bound(time.monotonic() - begin, binding.pod)
        return pod

    def _report(self, commit: BindCommit, bound: list[PodBinding]) -> None:
        for event in plan_effects.binding_events([(one.pod, one.node) for one in bound], commit.pod_group):
            self._record(*event)

    def _failed(self, binding: PodBinding, why: str, changed: bool = False) -> bool:
        """The pod is not bound. Unless it has `changed`, the same request would be refused again. Returns False."""
        if not changed:
            self._put(BindRefused(binding.key, binding.uid, f"could not be bound to {binding.node}: {why}"))
        self._put(CallResult(binding.key, binding.uid, binding.node, False, urgent=changed))
        self._metrics.bind_failures.inc()
        self._record(*plan_effects.binding_failed(binding.pod, why))
        return False

    async def _read(self, key: str, uid: str) -> Pod | None:
        """Returns the pod as the API server has it, and passes it to the cache. Retries until there is an answer."""
        backoff = Backoff(0.2, 10.0)
        while True:
            try:
                pod = await self._api.get(Pod, key)
            except errors.NotFound:
                self._put(Observed("Pod", key, None, polled=True, uid=uid))
                return None
            except errors.ApiError as error:
                await asyncio.sleep(backoff.next(error.retry_after))
                continue
            self._put(Observed("Pod", key, pod, polled=True, uid=uid))
            return pod


class _FirstBinding:
    """The answer to the first binding of a gang, for which the others wait."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self.answer: asyncio.Future[bool] = self._loop.create_future()  # whether the journal is written
        self.soon: asyncio.Future[None] = self._loop.create_future()  # answered, or not for SLOT_WAIT_S

    def sent(self) -> None:
        self._timer = self._loop.call_later(SLOT_WAIT_S, self._end, self.soon, None)

    def answered(self, accepted: bool) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._end(self.answer, accepted)
        self._end(self.soon, None)

    @staticmethod
    def _end(future: asyncio.Future[T], result: T) -> None:
        if not future.done():  # it may have been cancelled with those that wait for it
            future.set_result(result)


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
