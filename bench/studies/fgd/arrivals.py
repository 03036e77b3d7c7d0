"""The order of the pods and of the nodes in one run, as the study's simulator draws them from its seed.

The pods are shuffled. Where they request less than 1.3 times all GPUs, random copies follow; where they request more,
random pods are removed. Then the nodes get a random order, which decides between nodes with equal scores.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from go_random import GoRandom
from openb import NodeRow, PodRow, Workload

DEMAND = 1.3  # of all GPUs
# Between the pods and the nodes, the informers of the simulator draw one number each, for the end of their first watch.
INFORMERS = 10
TYPICAL_SHARE = 0.95  # of the pods


@dataclass(frozen=True)
class Arrivals:
    """The pods in the order of their arrival, and the nodes in the order of the names that they get."""

    pods: tuple[PodRow, ...]
    nodes: tuple[NodeRow, ...]


def arrivals(workload: Workload, seed: int) -> Arrivals:
    numbers = GoRandom(seed)
    numbers.int63()  # the simulator prints the first one
    pods = list(workload.pods)
    numbers.shuffle(pods)
    wanted = DEMAND * workload.capacity
    demand = sum(pod.demand for pod in pods)
    if demand > wanted:
        while demand > wanted:
            demand -= pods.pop(numbers.below(len(pods))).demand
    elif demand < wanted:
        # The simulator compares with the thousandths of one GPU, also for a pod with several GPUs.
        while demand + (copy := workload.pods[numbers.below(len(workload.pods))]).milli <= wanted:
            demand += copy.demand
            pods.append(copy)
    for _ in range(INFORMERS):
        numbers.int63()
    place = numbers.permutation(len(workload.nodes))
    nodes = [node for _, node in sorted(zip(place, workload.nodes, strict=True), key=lambda pair: pair[0])]
    return Arrivals(tuple(pods), tuple(nodes))


def typical_pods(workload: Workload) -> list[dict[str, object]]:
    """Returns the most frequent kinds of pods of the list, for gpu-share's argument, until they are 95 % of its pods.

    Of equally frequent kinds the larger comes first, as in the simulator: that decides where the list ends.
    """
    kinds = Counter((pod.cpu, pod.milli, pod.gpus, pod.models) for pod in workload.pods)
    found: list[dict[str, object]] = []
    covered = 0
    for kind, count in sorted(kinds.items(), key=lambda item: (item[1], item[0]), reverse=True):
        if covered >= TYPICAL_SHARE * len(workload.pods):
            break
        cpu, milli, gpus, models = kind
        found.append({"cpu": f"{cpu}m", "gpus": gpus, "milli": milli, "models": models, "weight": count})
        covered += count
    return found
