"""Interrupted commits are finished on the intended nodes, left to the next cycles, or undone."""

from __future__ import annotations

import asyncio
import base64
import itertools
import random
import tracemalloc
import zlib
from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from builders.manifests import node, queue, typed
from builders.scheduler_objects import EVICTS, bound, cluster_of, waiting
from builders.small_cluster import pod_group
from fakes.stepped_scheduler import Faults, Leader, assert_gangs_whole
from muster.cluster.embedded import EmbeddedCluster
from muster.model.core import Pod, Volume
from muster.model.meta import ObjectMeta
from muster.model.pod import PersistentVolumeClaimSource, PodResourceClaim
from muster.model.scheduling import PodGroup
from muster.model.storage import PersistentVolumeClaim, PersistentVolumeClaimStatus
from muster.scheduler import journal as journals
from muster.scheduler.backoffs import EVICTION_RETRY_S
from muster.scheduler.inbox import CallResult, Observed
from muster.scheduler.journal import (
    JOURNAL,
    RECOVERY_GRACE_S,
    Attempts,
    Entry,
    Journal,
    RecoveryAction,
    TooLarge,
    decode,
    encode,
    journal_of,
    recover,
)
from muster.store import errors


def begun(*, bound_pods: int, free: str = "8", at: float = 990.0, others: Sequence[Pod] = ()) -> EmbeddedCluster:
    """A gang of three of which some were bound when the leader died; n2 has that much cpu by now.

    The first pod has the journal, also if it is not bound. `others`: more pods of the gang.
    """
    names = [f"gang-x-{i}" for i in range(3)]
    entries = {name: Entry("n1" if i < 1 else "n2", f"uid-{name}"[:8]) for i, name in enumerate(names)}
    group = pod_group("gang", members=3)
    pods = [waiting(name, "gang", entries[name].node if i < bound_pods else "") for i, name in enumerate(names)]
    pods[0].metadata.annotations[JOURNAL] = encode(Journal(holder="dead", at=at, pods=entries))
    return cluster_of(queue("default"), node("n1", cpu="1"), node("n2", cpu=free), group, *pods, *others)


def test_the_remaining_pods_are_bound_to_the_intended_nodes() -> None:
    async def run() -> None:
        cluster = begun(bound_pods=1)
        leader = Leader(cluster, holder="new")
        await leader.settle(3)
        assert bound(cluster) == {"gang-x-0": "n1", "gang-x-1": "n2", "gang-x-2": "n2"}
        assert_gangs_whole(cluster)
        leader.assert_exact()

    asyncio.run(run())


def test_the_annotation_of_a_pending_pod_is_not_a_journal() -> None:
    """The scheduler writes a journal with the binding of its pod, so somebody else has written this one."""

    async def run() -> None:
        cluster = begun(bound_pods=0)
        leader = Leader(cluster, holder="new")
        assert leader.cache.carriers == {}
        assert len(leader.decide().commits.bindings[0].bindings) == 3

    asyncio.run(run())


def ended(reason: str = "") -> Pod:
    pod = waiting("gang-old", "gang", "n2")
    pod.status = replace(pod.status, phase="Failed", reason=reason)
    return pod


@pytest.mark.parametrize("others", [[], [ended()], [ended("OutOfcpu")]], ids=["none", "one failed", "one was rejected"])
@pytest.mark.parametrize("at", [990.0, 1000.0 + 3600.0, 1e300], ids=["past", "the clock of that leader", "far"])
def test_a_pod_that_ended_before_or_a_time_in_the_future_does_not_keep_a_gang_partial(
    others: list[Pod], at: float
) -> None:
    async def run() -> None:
        cluster = begun(bound_pods=1, free="0", at=at, others=others)
        leader = Leader(cluster, EVICTS, holder="new")
        await leader.turn()
        cluster.advance(1000.0 + RECOVERY_GRACE_S + 1)
        await leader.settle(4)
        assert set(bound(cluster)) == {pod.metadata.name for pod in others}

    asyncio.run(run())


@pytest.mark.parametrize("reason", ["", "OutOfcpu"])
def test_a_gang_of_which_a_pod_ended_has_started_but_not_if_a_kubelet_rejected_it(reason: str) -> None:
    cluster = begun(bound_pods=2, free="0")
    pod = cluster.store.get(Pod, "d/gang-x-1")
    cluster.store.write(replace(pod, status=replace(pod.status, phase="Failed", reason=reason)))
    leader = Leader(cluster)
    attempts = Attempts(since=1000.0 - RECOVERY_GRACE_S, carried=leader.cache.carriers)
    action = recover(leader.cache.state, "d/gang", attempts, 1000.0).action
    assert action is (RecoveryAction.UNDO if reason else RecoveryAction.CLOSE)


class EvictsNothing(Faults):
    def before(self, number: int, verb: str, key: str) -> Exception | None:
        return errors.BudgetRefused(verb, "a budget", code=429) if verb.startswith("evict") else None


def test_an_eviction_of_an_incomplete_gang_that_was_refused_is_tried_again_after_a_while() -> None:
    async def run() -> None:
        cluster = begun(bound_pods=2, free="0", at=900.0)
        leader = Leader(cluster, EVICTS, EvictsNothing(), holder="new")
        await leader.turn()
        cluster.advance(1000.0 + RECOVERY_GRACE_S + 1)
        for _ in range(10):
            await leader.turn()
        assert [key for verb, key in leader.calls.made if verb.startswith("evict")] == ["d/gang-x-1"]
        cluster.advance(cluster.clock.now() + EVICTION_RETRY_S + 1)
        await leader.turn()
        assert [key for verb, key in leader.calls.made if verb.startswith("evict")] == ["d/gang-x-1"] * 2

    asyncio.run(run())


class FirstPatchFails(Faults):
    def __init__(self) -> None:
        self.failed = False

    def before(self, number: int, verb: str, key: str) -> Exception | None:
        if verb != "patch" or self.failed:
            return None
        self.failed = True
        return errors.ServerFault("patch", "busy", code=500)


@pytest.mark.parametrize("faults", [Faults(), FirstPatchFails()], ids=["removed", "not at first"])
def test_the_journal_of_a_gang_that_has_its_minimum_is_removed_while_a_pod_of_it_waits(faults: Faults) -> None:
    """Later, when the gang has lost a pod, it would be taken for a commit that was interrupted."""

    async def run() -> None:
        cluster = begun(bound_pods=2, free="0")
        group = cluster.store.get(PodGroup, "d/gang")
        cluster.store.write(replace(group, spec=replace(group.spec, min_member=2)))
        leader = Leader(cluster, faults=faults, holder="new")
        await leader.settle(3)
        assert JOURNAL not in cluster.store.get(Pod, "d/gang-x-0").metadata.annotations
        assert bound(cluster) == {"gang-x-0": "n1", "gang-x-1": "n2"}

    asyncio.run(run())


def with_second_journal(cluster: EmbeddedCluster, *nodes: str) -> None:
    """The second pod has a journal of a later leader."""
    second = cluster.store.get(Pod, "d/gang-x-1")
    entries = {f"gang-x-{i}": Entry(on, f"uid-gang-x-{i}"[:8]) for i, on in enumerate(nodes)}
    text = encode(Journal(holder="next", at=990.0, pods=entries))
    meta = replace(second.metadata, annotations={**second.metadata.annotations, JOURNAL: text})
    cluster.store.write(replace(second, metadata=meta))


def test_all_open_journals_of_a_gang_that_has_its_minimum_are_removed() -> None:
    async def run() -> None:
        cluster = begun(bound_pods=2, free="0", at=980.0)
        with_second_journal(cluster, "n1", "n2", "n2")
        group = cluster.store.get(PodGroup, "d/gang")
        cluster.store.write(replace(group, spec=replace(group.spec, min_member=2)))
        leader = Leader(cluster, holder="new")
        await leader.settle(3)
        assert [p.metadata.name for p in cluster.store.of(Pod).values() if JOURNAL in p.metadata.annotations] == []
        assert leader.cache.carriers == {}

    asyncio.run(run())


def test_of_two_open_journals_the_later_one_counts() -> None:
    async def run() -> None:
        cluster = begun(bound_pods=2, at=980.0)
        cluster.store.create(typed(node("n3", cpu="4")))
        with_second_journal(cluster, "n1", "n2", "n3")
        leader = Leader(cluster, holder="new")
        await leader.settle(3)
        assert bound(cluster) == {"gang-x-0": "n1", "gang-x-1": "n2", "gang-x-2": "n3"}
        assert_gangs_whole(cluster)

    asyncio.run(run())


def test_the_remaining_pods_get_other_nodes_if_the_intended_ones_are_full() -> None:
    async def run() -> None:
        cluster = begun(bound_pods=1, free="0")
        cluster.store.create(typed(node("n3", cpu="4")))
        leader = Leader(cluster, holder="new")
        await leader.settle(4)
        assert bound(cluster) == {"gang-x-0": "n1", "gang-x-1": "n3", "gang-x-2": "n3"}
        assert_gangs_whole(cluster)

    asyncio.run(run())


def test_a_gang_that_cannot_be_completed_is_undone_after_a_grace_period() -> None:
    async def run() -> None:
        cluster = begun(bound_pods=1, free="0", at=1000.0)
        leader = Leader(cluster, EVICTS, holder="new")
        await leader.turn()
        assert bound(cluster) == {"gang-x-0": "n1"}
        cluster.advance(1000.0 + RECOVERY_GRACE_S + 1)
        await leader.settle(4)
        assert bound(cluster) == {}
        assert_gangs_whole(cluster)
        evicted = [message for _, reason, message in leader.events if reason == "Evict"]
        assert evicted[0] == "1 pod evicted because its gang could not be completed: d/gang-x-0"

    asyncio.run(run())


def test_the_pod_with_the_journal_is_evicted_when_the_other_evictions_are_confirmed() -> None:
    async def run() -> None:
        cluster = begun(bound_pods=2, free="0", at=900.0)
        leader = Leader(cluster, holder="new")
        leader.decide()
        cluster.advance(1000.0 + RECOVERY_GRACE_S + 1)
        assert [e.pod for e, _ in leader.decide().commits.evictions[0].victims] == ["d/gang-x-1"]
        for _ in range(2):
            decision = leader.decide()
            assert decision.commits.evictions == [] and decision.closed_journals == []
        cluster.store.evict("d/gang-x-1", by="", rule="")
        leader.watch()
        assert [e.pod for e, _ in leader.decide().commits.evictions[0].victims] == ["d/gang-x-0"]
        decision = leader.decide()  # the eviction can still be refused
        assert decision.closed_journals == [] and leader.cache.open_journals() == {"d/gang"}

    asyncio.run(run())


def test_a_gang_whose_undoing_had_begun_is_not_bound_any_further() -> None:
    cluster = begun(bound_pods=2, at=900.0)
    cluster.store.evict("d/gang-x-1", by="", rule="")
    leader = Leader(cluster, holder="new")
    assert leader.decide().commits.bindings == []
    cluster.advance(1000.0 + RECOVERY_GRACE_S + 1)
    leader.watch()
    assert [e.pod for e, _ in leader.decide().commits.evictions[0].victims] == ["d/gang-x-0"]


def test_a_pod_whose_claims_are_not_bound_is_left_to_the_cycles() -> None:
    cluster = begun(bound_pods=1)
    pod = cluster.store.get(Pod, "d/gang-x-2")
    source = PersistentVolumeClaimSource(claim_name="data")
    volumes = [Volume(name="data", persistent_volume_claim=source)]
    cluster.store.write(replace(pod, spec=replace(pod.spec, volumes=volumes)))
    attempts = Attempts(since=1000.0, carried=Leader(cluster).cache.carriers)
    claim = PersistentVolumeClaim(
        metadata=ObjectMeta(name="data", namespace="d"), status=PersistentVolumeClaimStatus(phase="Pending")
    )
    for _ in range(2):  # a claim that does not exist, and one that is not bound
        leader = Leader(cluster)
        assert recover(leader.cache.state, "d/gang", attempts, 1000.0).action is RecoveryAction.WAIT
        claim = cluster.store.create(claim) if not cluster.store.of(PersistentVolumeClaim) else claim
    status = PersistentVolumeClaimStatus(phase="Bound")
    cluster.store.write(replace(claim, spec=replace(claim.spec, volume_name="v"), status=status))
    assert recover(Leader(cluster).cache.state, "d/gang", attempts, 1000.0).action is RecoveryAction.FINISH


def test_a_pod_that_recovery_cannot_bind_at_all_is_not_assumed_to_be_bound() -> None:
    cluster = begun(bound_pods=1)
    pod = cluster.store.get(Pod, "d/gang-x-2")
    claims = [PodResourceClaim(name="gpu")]
    cluster.store.write(replace(pod, spec=replace(pod.spec, resource_claims=claims)))
    leader = Leader(cluster)
    assert leader.decide().commits.bindings == []
    assert leader.cache.assumed == {} and leader.cache.committing == set()


def test_a_journal_is_kept_while_a_binding_that_would_open_it_again_is_in_flight() -> None:
    cluster = begun(bound_pods=2)
    group = cluster.store.get(PodGroup, "d/gang")
    cluster.store.write(replace(group, spec=replace(group.spec, min_member=2)))
    leader = Leader(cluster, holder="new")
    first = leader.decide()
    assert [carrier.key for carrier in first.closed_journals] == ["d/gang-x-0"]
    assert [binding.key for binding in first.commits.bindings[0].bindings] == ["d/gang-x-2"]
    # It could not be removed, and the pod was read.
    carrier = cluster.store.get(Pod, "d/gang-x-0")
    leader.cache.put(Observed("Pod", "d/gang-x-0", carrier, polled=True, uid=carrier.metadata.uid))
    assert leader.decide().closed_journals == []
    leader.cache.put(CallResult("d/gang-x-2", "uid-gang-x-2", "n2", False))
    assert [carrier.key for carrier in leader.decide().closed_journals] == ["d/gang-x-0"]


def test_a_recreated_pod_is_not_the_pod_of_the_journal() -> None:
    async def run() -> None:
        cluster = begun(bound_pods=1)
        recreated = cluster.store.get(Pod, "d/gang-x-2")
        cluster.store.delete(Pod, "d/gang-x-2")
        cluster.store.create(replace(recreated, metadata=replace(recreated.metadata, uid="other", resource_version="")))
        group = cluster.store.get(PodGroup, "d/gang")
        cluster.store.write(replace(group, spec=replace(group.spec, min_member=2)))
        leader = Leader(cluster, holder="new")
        decision = leader.decide()
        first = decision.commits.bindings[0]
        assert [binding.key for binding in first.bindings] == ["d/gang-x-1"]

    asyncio.run(run())


def test_a_journal_is_the_same_after_encoding_and_decoding() -> None:
    small = Journal(holder="me", at=1.0, pods={"p": Entry("n", "u", {"chips": "0"})})
    large = Journal(holder="me", at=1.0, pods={f"worker-{i}": Entry(f"node-{i % 99}", f"{i:08x}") for i in range(5000)})
    for journal in (small, large):
        assert decode(encode(journal)) == journal
    assert len(encode(large)) < 200 * 1024


def test_a_journal_that_is_too_large_is_refused_before_anything_is_bound() -> None:
    dice = random.Random(1)
    pods = {f"p{i}": Entry("n", "u", {"note": dice.randbytes(1000).hex()}) for i in range(400)}
    with pytest.raises(TooLarge, match="more than"):
        encode(Journal(holder="me", at=1.0, pods=pods))


def test_a_journal_that_does_not_fit_beside_the_annotations_of_its_pod_is_refused() -> None:
    """The API server does not check the annotations of a binding, but it refuses every later change of the pod."""
    journal = Journal(holder="me", at=1.0, pods={f"p{i}": Entry(f"n{i}", "u") for i in range(1000)})
    taken = 240 * 1024 - len(JOURNAL) - len(encode(journal))
    assert encode(journal, {"a": "x" * (taken - 1), JOURNAL: "of an earlier commit"})
    with pytest.raises(TooLarge, match="more than"):
        encode(journal, {"a": "x" * taken})


def test_an_annotation_of_another_program_is_not_a_journal() -> None:
    assert decode("yes") is None and decode('{"pods": 3}') is None and decode("z:!!") is None
    pod = waiting("p")
    pod.metadata.annotations[JOURNAL] = "nonsense"
    assert journal_of(pod) is None


@pytest.mark.parametrize(
    "value",
    [
        pytest.param(zlib.compress(b" " * (100 << 20), 9), id="100 MiB of spaces"),
        pytest.param(zlib.compress(b'{"holder": "me"}')[:-3], id="cut off"),
        pytest.param(b"", id="empty"),
    ],
)
def test_a_compressed_annotation_of_a_tenant_takes_little_memory(value: bytes) -> None:
    text = "z:" + base64.b85encode(value).decode()
    tracemalloc.start()
    try:
        assert decode(text) is None
        assert tracemalloc.get_traced_memory()[1] < 20 << 20
    finally:
        tracemalloc.stop()


def test_large_journals_that_a_tenant_writes_by_hand_are_read_once_and_take_little_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    names = map("".join, itertools.product("abcdefghijklmnopqrst", repeat=4))
    entries = ",".join(f'"{name}":["a","",{{"b":"cc"}}]' for name in itertools.islice(names, 40_000))
    entry = '"gang-x-2":["n2","uid-gang"]'
    raw = f'{{"holder":"","at":1e300,"pods":{{{entry},{entries}}}}}'
    text = "z:" + base64.b85encode(zlib.compress(raw.encode(), 9)).decode()
    others = [waiting(f"gang-{i}", "gang", "n1") for i in range(20)]
    for pod in others:
        pod.metadata.annotations[JOURNAL] = text
    cluster = begun(bound_pods=2, free="0", others=others)
    group = cluster.store.get(PodGroup, "d/gang")
    cluster.store.write(replace(group, spec=replace(group.spec, min_member=23)))
    leader = Leader(cluster)
    assert set(leader.cache.carriers) == {f"d/gang-{i}" for i in range(20)} | {"d/gang-x-0"}
    assert all(len(journal.pods) <= 3 for journal in leader.cache.carriers.values())
    monkeypatch.setattr(journals, "decode", lambda text: pytest.fail("it was read before"))
    leader.decide()
    assert leader.cache.open_journals() == {"d/gang"}


def test_a_deeply_nested_annotation_of_a_tenant_is_not_a_journal() -> None:
    assert decode('{"x": ' + "[" * 100_000) is None
    assert decode('{"holder": "me", "at": 1e999, "pods": {}}') is None
