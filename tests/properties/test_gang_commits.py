"""Whatever fails while gangs are bound: in the end each of them has its minimum, or nothing.

Calls are refused, their answers are lost, a webhook always refuses one pod, drivers refuse nodes, the watch is late,
pods are deleted and created again, other pods of the gang have ended long ago, cycles run while bindings are in flight,
and the leader is killed. Then the faults end and time passes.

The exceptions are gangs that were whole and lost a pod afterwards, because somebody deleted it or it was evicted for
another gang; and, which is a limit (docs/decisions/0012), gangs with a pod that somebody deleted before another leader
came.
"""

from __future__ import annotations

import asyncio
import random

from hypothesis import given, note
from hypothesis import strategies as st
from msgspec.structs import replace

from builders.manifests import node, queue
from builders.scheduler_objects import EVICTS, cluster_of, open_journals, replica_set, waiting
from builders.small_cluster import pod_group
from fakes.stepped_scheduler import Faults, Leader
from fakes.virtual_time import run
from muster.cluster.volume_controller import settle_claim
from muster.cycle.configure import configure
from muster.engine.volumes.volume_claims import SELECTED_NODE, is_bound
from muster.kube import backoff
from muster.model.core import Pod, Volume
from muster.model.meta import Object, ObjectMeta
from muster.model.pod import PersistentVolumeClaimSource, ResourceRequirements, VolumeClaimSpec
from muster.model.pod_states import is_terminating
from muster.model.storage import PersistentVolumeClaim, PersistentVolumeClaimStatus, StorageClass
from muster.scheduler.binder import VolumePreBinder
from muster.scheduler.configuration import LoadedConfig
from muster.scheduler.inbox import CommitFinished, Message
from muster.store import errors
from strategies.profiles import examples

EVICTS_NOTHING = EVICTS.replace("preempt, ", "")
CONFIGS = [LoadedConfig(configure(text, "test")[0], "test") for text in (EVICTS, EVICTS_NOTHING, EVICTS_NOTHING)]
STEPS = 50
VOLUME_TIMEOUT_S = 20.0
# Longer than the grace period of a journal and the time after which a lost call is looked up.
ROUND_S, QUIET_ROUNDS, MOST_ROUNDS = 7.0, 12, 150


class RandomFaults(Faults):
    """Some kinds of faults, each for some of the calls."""

    def __init__(self, dice: random.Random, refused: str) -> None:
        kinds = ("refused", "busy", "conflict", "lost before", "lost after", "late", "slow")
        self.kinds = [kind for kind in kinds if dice.random() < 0.5]
        self.rate = dice.choice((0.05, 0.2, 0.5))
        self.refused = refused  # a webhook refuses the binding of this pod
        self.over = False
        self._dice = dice

    def _happens(self, kind: str) -> bool:
        return not self.over and kind in self.kinds and self._dice.random() < self.rate

    def before(self, number: int, verb: str, key: str) -> Exception | None:
        if verb == "bind" and key == self.refused and not self.over:
            return errors.Forbidden(verb, "the webhook says no", code=403)
        if self._happens("lost before"):
            return errors.TimedOut(verb, "no answer")
        if verb != "get" and self._happens("busy"):
            return errors.TooManyRequests(verb, "too many requests", code=429)
        if verb != "get" and self._happens("refused"):
            return errors.Forbidden(verb, "no", code=403)
        if verb == "bind" and self._happens("conflict"):
            return errors.Conflict(verb, "the pod has changed", code=409)
        return None

    def after(self, number: int, verb: str, key: str) -> Exception | None:
        return errors.TimedOut(verb, "no answer") if self._happens("lost after") else None

    def late(self, verb: str, key: str) -> float:
        return self._dice.uniform(0.0, 5.0) if verb == "bind" and self._happens("late") else 0.0

    def delay(self) -> float:
        return self._dice.uniform(0.0, 0.5) if self._happens("slow") else self._dice.uniform(0.0, 0.02)


class World:
    """A cluster with some gangs, and its scheduler."""

    def __init__(self, seed: int) -> None:
        self.dice = dice = random.Random(seed)
        backoff._dice.seed(seed)
        self.config = dice.choice(CONFIGS)
        self.minimum: dict[str, int] = {}
        self.sizes: dict[str, int] = {}
        self.in_memory: set[str] = set()
        self.pods: dict[str, Pod] = {}  # of gangs with a PodGroup, as their controller makes them
        self.born = 0
        objects: list[Object] = [
            StorageClass(
                metadata=ObjectMeta(name="late"), provisioner="driver.example",
                volume_binding_mode="WaitForFirstConsumer",
            )
        ]  # fmt: skip
        for number in range(dice.randint(1, 3)):
            objects += self._gang(f"g{number}")
        wanted = sum(self.sizes.values())
        self.ample = dice.random() < 0.4
        cpus = wanted if self.ample else max(1, wanted - dice.randint(0, 4))
        nodes = [1] * 2 + [0]
        for _ in range(max(cpus - 2, 0)):
            nodes[dice.randrange(3)] += 1
        self.cluster = cluster_of(
            queue("default"), *objects, *(node(f"n{i}", cpu=str(n), labels={"kubernetes.io/hostname": f"n{i}"})
                                          for i, n in enumerate(nodes)), *self.pods.values()
        )  # fmt: skip
        self.history = self.cluster.store.watch(str(self.cluster.store.version))
        refused = dice.choice([*self.pods, ""]) if dice.random() < 0.3 else ""
        self.faults = RandomFaults(dice, refused)
        self.kills = dice.choice((0, 0, 1, 2))
        self.deletes = dice.random() < 0.5
        self.exempt: set[str] = set()
        self.disturbed: set[str] = set()  # gangs of which a pod was deleted
        self.lost_one: set[str] = set()  # gangs of which a bound pod was deleted while the others were being bound
        self.leader = self._elect()

    # --- the cluster

    def _gang(self, name: str) -> list[Object]:
        dice = self.dice
        size = self.sizes[name] = dice.randint(2, 5)
        minimum = self.minimum[name] = size if dice.random() < 0.6 else dice.randint(1, size)
        kind = dice.choice(("PodGroup", "PodGroup", "claims", "in memory"))
        if kind == "in memory":
            self.in_memory.add(name)
            return [replica_set(name, minimum, size)]
        made: list[Object] = [pod_group(name, members=minimum)]
        if dice.random() < 0.3:
            ended = waiting(f"{name}-ended", name, "n0")
            ended.metadata.labels = {}
            ended.status.phase = dice.choice(("Succeeded", "Failed"))
            made.append(ended)
            self.minimum[name] -= ended.status.phase == "Succeeded"  # it counts, as in Volcano
        for i in range(size):
            pod = waiting(f"{name}-{i}", name)
            if kind == "claims" and dice.random() < 0.7:
                source = PersistentVolumeClaimSource(claim_name=f"of-{name}-{i}")
                pod.spec.volumes = [Volume(name="data", persistent_volume_claim=source)]
                made.append(_claim(f"of-{name}-{i}"))
            self.pods[f"d/{name}-{i}"] = pod
        return made

    def members(self, name: str) -> list[Pod]:
        pods = self.cluster.store.of(Pod).values()
        return [pod for pod in pods if pod.metadata.labels.get("app") == name]

    def bound(self, name: str) -> list[Pod]:
        return [pod for pod in self.members(name) if pod.spec.node_name and not is_terminating(pod)]

    def recreate(self) -> None:
        """What the controllers of pods do; ReplicaSets are followed by the embedded cluster."""
        for key, pod in self.pods.items():
            if key not in self.cluster.store.of(Pod):
                self.born += 1
                meta = replace(pod.metadata, uid=f"{self.born:08d}-{key}", resource_version="", creation_timestamp=None)
                self.cluster.store.create(replace(pod, metadata=meta))
                self.log(f"{key} is created again")

    def provision(self) -> None:
        """What drivers do: they make the volume, or reject the node."""
        for key, claim in list(self.cluster.store.of(PersistentVolumeClaim).items()):
            on = claim.metadata.annotations.get(SELECTED_NODE)
            if on is None or is_bound(claim):
                continue
            if not self.faults.over and self.dice.random() < 0.3:
                self.cluster.store.patch(
                    PersistentVolumeClaim, key, {"metadata": {"annotations": {SELECTED_NODE: None}}}
                )
                self.log(f"claim {key} is rejected")
            else:
                settle_claim(self.cluster.store, key, "", on)
                self.log(f"claim {key} is bound")

    def delete(self) -> None:
        pods = sorted(key for key, pod in self.cluster.store.of(Pod).items() if pod.metadata.labels)
        if not pods or not self.deletes:
            return
        key = self.dice.choice(pods)
        pod = self.cluster.store.get(Pod, key)
        name = pod.metadata.labels["app"]
        if pod.spec.node_name and len(self.bound(name)) >= self.minimum[name]:
            self.exempt.add(name)
        elif pod.spec.node_name and self.leader.cache.committing:
            self.lost_one.add(name)
        self.disturbed.add(name)
        self.cluster.store.delete(Pod, key, grace=self.dice.choice((0, 3)))
        self.log(f"{key} is deleted, bound: {bool(pod.spec.node_name)}")
        if self.dice.random() < 0.7:
            self.cluster.step()
            self.recreate()

    # --- the scheduler

    def _elect(self) -> Leader:
        leader = Leader(self.cluster, faults=self.faults, holder=f"leader-{self.kills}", loaded=self.config)
        leader.binder._volumes = VolumePreBinder(leader.calls, VOLUME_TIMEOUT_S, 1.0)

        def put(message: Message) -> None:
            if isinstance(message, CommitFinished):
                self.finished(message)
            leader.cache.put(message)

        leader.binder._put = put
        return leader

    def finished(self, message: CommitFinished) -> None:
        """All pods of the commit were bound: whoever deleted one of them in the meantime took it from a whole gang."""
        self.log(f"{message}")
        lost = {name for name in self.lost_one if message.group in (f"d/{name}", f"d/podgroup-uid-{name}")}
        self.lost_one -= lost
        self.exempt |= lost if not message.journal else set()

    def kill(self) -> None:
        if self.kills:
            self.kills -= 1
            self.leader.calls.dead = True
            for task in list(self.leader.binder._running):
                task.cancel()
            self.exempt |= self.disturbed
            self.lost_one.clear()
            self.log("the leader is killed")
            self.leader = self._elect()
            self.cycle()

    def cycle(self) -> None:
        decision = self.leader.begin()
        for commit in decision.commits.bindings:
            self.log(f"binds {commit.group or 'alone'}: {[(one.key, one.node) for one in commit.bindings]}")
        for evictions in decision.commits.evictions:
            self.log(f"evicts {[(eviction.pod, eviction.rule) for eviction, _ in evictions.victims]}")
            others = [pod for eviction, pod in evictions.victims if eviction.rule != "gang"]
            self.exempt |= {pod.metadata.labels["app"] for pod in others}
        for carrier in decision.closed_journals:
            self.log(f"closes {carrier.key}")

    def watch(self) -> None:
        self.leader.watch(self.dice.choice((1, 2, 5, None, None)))

    async def passes(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
        self.cluster.advance(self.cluster.clock.now() + seconds)

    async def step(self) -> None:
        await self.passes(self.dice.choice((0.0, 0.01, 0.03, 0.3, 2.0)))
        steps = (
            *[self.cycle] * 4, *[self.watch] * 4, *[self.provision] * 2, self.recreate, self.delete, self.kill,
        )  # fmt: skip
        self.dice.choice(steps)()
        if self.dice.random() < 0.02:
            await self.passes(40.0)

    async def settle(self) -> None:
        self.faults.over = True
        self.log("the faults end")
        quiet, version = 0, -1
        for _ in range(MOST_ROUNDS):
            await self.passes(ROUND_S)
            self.provision()
            self.recreate()
            self.leader.watch()
            self.cycle()
            before, version = version, int(self.cluster.store.version)
            quiet = quiet + 1 if before == version and not self.leader.binder.in_flight else 0
            if quiet == QUIET_ROUNDS:
                return
        raise AssertionError("the cluster does not settle")

    def log(self, line: str) -> None:
        note(f"{self.cluster.clock.now():.2f} {line}")

    # --- what must hold

    def check(self) -> None:
        leader = self.leader
        assert leader.cache.committing == set()
        leader.assert_exact()
        assert not open_journals(self.cluster.store.of(Pod).values())
        for name, minimum in self.minimum.items():
            if name in self.exempt:
                continue
            found = len(self.bound(name))
            assert found == 0 or found >= minimum, f"{name}: {found} of at least {minimum}"
            if self.ample:
                assert found == self.sizes[name], f"{name}: {found} of {self.sizes[name]} although there is capacity"
        for pod in self.cluster.store.of(Pod).values():
            for volume in pod.spec.volumes if pod.spec.node_name else ():
                assert volume.persistent_volume_claim is not None
                key = f"d/{volume.persistent_volume_claim.claim_name}"
                assert is_bound(self.cluster.store.get(PersistentVolumeClaim, key)), f"{pod.metadata.name} cannot start"
        nodes: dict[str, str] = {}
        for event in self.history.take():
            if isinstance(event.object, Pod) and event.object.spec.node_name:
                on, meta = event.object.spec.node_name, event.object.metadata
                assert nodes.setdefault(meta.uid, on) == on, f"{meta.name} was bound twice"


def _claim(name: str) -> PersistentVolumeClaim:
    spec = VolumeClaimSpec(
        access_modes=["ReadWriteOnce"], storage_class_name="late",
        resources=ResourceRequirements(requests={"storage": "1Gi"}),
    )  # fmt: skip
    meta = ObjectMeta(name=name, namespace="d")
    return PersistentVolumeClaim(metadata=meta, spec=spec, status=PersistentVolumeClaimStatus(phase="Pending"))


@examples(300)
@given(seed=st.integers(0, 2**32))
def test_in_the_end_every_gang_has_its_minimum_or_nothing(seed: int) -> None:
    async def scenario() -> None:
        world = World(seed)
        for _ in range(STEPS):
            await world.step()
        await world.settle()
        world.check()

    run(scenario())
