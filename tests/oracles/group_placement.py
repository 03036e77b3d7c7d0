"""Random small groups with rules between pods, and an exhaustive search for a placement; no code of muster is used.

A group has at most six pods on at most six nodes. A placement is an order of its pods and a node for each, so that
every step obeys kube-scheduler's filters: requests, pod affinity and anti-affinity, spread constraints, and one domain
of the group's topology key.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from builders.manifests import Manifest, manifest, node, pod

HOST, ZONE, RACK = "kubernetes.io/hostname", "zone", "rack"
HARD = "requiredDuringSchedulingIgnoredDuringExecution"


@dataclass(frozen=True)
class RandomGroup:
    """A group with its nodes, and the pods that already run on them."""

    nodes: list[Manifest]
    group: Manifest
    pods: list[Manifest]
    running: list[Manifest] = field(default_factory=list)

    @property
    def objects(self) -> list[Manifest]:
        return [*self.nodes, *self.running, self.group, *self.pods]

    @cached_property
    def placement(self) -> dict[str, str] | None:
        """The node of each pod in a placement of the whole group; None if there is none."""
        return _Search(self).solution()


def random_group(seed: int, *, namespace: str = "default", victims: bool = False) -> RandomGroup:
    """A group by number. With `victims` it has a topology key, and pods of lower priority fill its nodes."""
    dice = random.Random(seed)
    prefix = f"{'v' if victims else 's'}{seed}"
    zones = dice.randint(1, 3)
    racks = dice.randint(1, 3)
    nodes = [
        node(
            f"{prefix}-n{i}",
            cpu=dice.randint(2, 6),
            labels={HOST: f"{prefix}-n{i}", "part": prefix, ZONE: f"z{i % zones}", **_rack(dice, racks)},
            ready=True,
        )
        for i in range(dice.randint(3, 6))
    ]
    count = dice.randint(3, 6)
    pods = [_member(dice, seed, i, namespace, prefix) for i in range(count)]
    spec: dict[str, Any] = {"schedulingPolicy": {"gang": {"minCount": count}}}
    if victims or dice.random() < 0.3:
        spec["schedulingConstraints"] = {"topology": [{"key": dice.choice([ZONE, RACK])}]}
    running: list[Manifest] = []
    if victims:
        spec["priority"] = 1000
        for one in pods:
            one["spec"]["priority"] = 1000
        for one in nodes:
            for i in range(int(one["status"]["allocatable"]["cpu"])):
                name = f"{one['metadata']['name']}-{i}"
                running.append(pod(name, on=one["metadata"]["name"], namespace=namespace, schedulerName="muster"))
    group = manifest("scheduling.k8s.io/v1alpha2", "PodGroup", f"g{seed}", namespace=namespace, spec=spec)
    return RandomGroup(nodes, group, pods, running)


def placeable(count: int, *, victims: bool = False) -> list[RandomGroup]:
    """The first so many random groups that an exhaustive search can place."""
    found: list[RandomGroup] = []
    seed = 0
    while len(found) < count:
        group = random_group(seed, victims=victims)
        seed += 1
        if group.placement is not None:
            found.append(group)
    return found


def _rack(dice: random.Random, racks: int) -> dict[str, str]:
    return {RACK: f"r{dice.randrange(racks)}"} if dice.random() < 0.9 else {}


def _member(dice: random.Random, seed: int, i: int, namespace: str, part: str) -> Manifest:
    labels = {"app": dice.choice("abc"), "of": f"g{seed}"}
    spec: dict[str, Any] = {"nodeSelector": {"part": part}}
    affinity: dict[str, Any] = {}
    roll = dice.random()
    if roll < 0.35:
        affinity["podAntiAffinity"] = {HARD: [_term(dice, seed)]}
    elif roll < 0.55:
        affinity["podAffinity"] = {HARD: [_term(dice, seed)]}
    if affinity:
        spec["affinity"] = affinity
    if dice.random() < 0.3:
        spec["topologySpreadConstraints"] = [
            {
                "maxSkew": dice.randint(1, 2),
                "topologyKey": dice.choice([HOST, ZONE]),
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchLabels": {"of": f"g{seed}"}},
            }
        ]
    return pod(
        f"g{seed}-{i}",
        namespace=namespace,
        cpu=dice.randint(1, 4),
        labels=labels,
        schedulerName="muster",
        schedulingGroup={"podGroupName": f"g{seed}"},
        **spec,
    )


def _term(dice: random.Random, seed: int) -> Manifest:
    selector = {"matchLabels": {"app": dice.choice("abc"), "of": f"g{seed}"}}
    return {"labelSelector": selector, "topologyKey": dice.choice([HOST, ZONE])}


class _Search:
    """Tries every order of the pods and every node; states that were seen are not tried again."""

    def __init__(self, case: RandomGroup) -> None:
        self.labels = {one["metadata"]["name"]: one["metadata"]["labels"] for one in case.nodes}
        self.cpu = {one["metadata"]["name"]: int(one["status"]["allocatable"]["cpu"]) for one in case.nodes}
        self.pods = {one["metadata"]["name"]: one for one in case.pods}
        # Running pods are victims: they have no labels, and all of them may go.
        topology = case.group["spec"].get("schedulingConstraints", {}).get("topology", [])
        self.key = topology[0]["key"] if topology else None
        self.seen: set[frozenset[tuple[str, str]]] = set()

    def solution(self) -> dict[str, str] | None:
        for domain in self._domains():
            self.seen.clear()
            found = self._place({}, domain)
            if found is not None:
                return found
        return None

    def _domains(self) -> Iterator[list[str]]:
        if self.key is None:
            yield list(self.labels)
            return
        for value in sorted({labels[self.key] for labels in self.labels.values() if self.key in labels}):
            yield [name for name, labels in self.labels.items() if labels.get(self.key) == value]

    def _place(self, placed: dict[str, str], nodes: list[str]) -> dict[str, str] | None:
        if len(placed) == len(self.pods):
            return placed
        state = frozenset(placed.items())
        if state in self.seen:
            return None
        self.seen.add(state)
        for name in self.pods.keys() - placed.keys():
            for where in nodes:
                if self._fits(name, where, placed):
                    found = self._place({**placed, name: where}, nodes)
                    if found is not None:
                        return found
        return None

    def _fits(self, name: str, where: str, placed: Mapping[str, str]) -> bool:
        used = sum(_cpu(self.pods[other]) for other, at in placed.items() if at == where)
        if used + _cpu(self.pods[name]) > self.cpu[where]:
            return False
        return self._follows(name, where, placed) and self._avoids(name, where, placed) and self._spreads(
            name, where, placed
        )

    def _near(self, key: str, one: str, other: str) -> bool:
        return key in self.labels[one] and self.labels[one][key] == self.labels[other].get(key)

    def _follows(self, name: str, where: str, placed: Mapping[str, str]) -> bool:
        """The first pod of a series may start alone: no pod matches yet, and it matches its own term."""
        terms = _terms(self.pods[name], "podAffinity")
        if any(term["topologyKey"] not in self.labels[where] for term in terms):
            return False
        matching = [other for other in placed if all(_matches(term, self.pods[other]) for term in terms)]
        if not matching:
            return all(_matches(term, self.pods[name]) for term in terms)
        return all(any(self._near(term["topologyKey"], where, placed[other]) for other in matching) for term in terms)

    def _avoids(self, name: str, where: str, placed: Mapping[str, str]) -> bool:
        for other, at in placed.items():
            for one, another in ((name, other), (other, name)):
                for term in _terms(self.pods[one], "podAntiAffinity"):
                    if _matches(term, self.pods[another]) and self._near(term["topologyKey"], where, at):
                        return False
        return True

    def _spreads(self, name: str, where: str, placed: Mapping[str, str]) -> bool:
        for rule in self.pods[name]["spec"].get("topologySpreadConstraints", []):
            key = rule["topologyKey"]
            if key not in self.labels[where]:
                return False
            counts = Counter({labels[key]: 0 for labels in self.labels.values() if key in labels})
            for other, at in placed.items():
                if key in self.labels[at] and _matches(rule, self.pods[other]):
                    counts[self.labels[at][key]] += 1
            me = int(_matches(rule, self.pods[name]))
            if counts[self.labels[where][key]] + me - min(counts.values()) > rule["maxSkew"]:
                return False
        return True


def _cpu(one: Manifest) -> int:
    return int(one["spec"]["containers"][0]["resources"]["requests"]["cpu"])


def _terms(one: Manifest, kind: str) -> list[Manifest]:
    found: list[Manifest] = one["spec"].get("affinity", {}).get(kind, {}).get(HARD, [])
    return found


def _matches(term: Manifest, one: Manifest) -> bool:
    return all(one["metadata"]["labels"].get(k) == v for k, v in term["labelSelector"]["matchLabels"].items())
