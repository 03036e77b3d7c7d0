"""One run of the study: the pods of a list arrive at the nodes one by one, through muster's scheduling cycle.

Each pod is a job of its own, and one cycle serves them in the order of their names. A pod that does not fit stays
pending; since pods never leave, it would not fit later either: it is dropped.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from arrivals import Arrivals, arrivals, typical_pods
from figures import Floats, Placed, curves
from msgspec.structs import replace
from openb import WHOLE_GPU, PodRow, Workload
from policies import CLASSES, SEED, RandomGpus

from muster.config.arguments import Arguments
from muster.config.types import Config, PluginOption, Tier
from muster.cycle.scheduler import Scheduler
from muster.engine.core.session import Session
from muster.engine.core.state import State
from muster.model.collector import collector_paused
from muster.model.core import NodeStatus, Pod, PodSpec
from muster.model.kinds import decode
from muster.model.meta import Object, ObjectMeta
from muster.plugins.gpu_share import GpuShare
from muster.plugins.gpu_share.requests import FRACTION, GPU, MODEL

NAMESPACE = "study"
MOST_PODS = 1001  # per node, in the study
# policy of the study → the plugin that scores nodes; "": gpu-share does
POLICIES = {
    "Random": "random", "DotProd": "dot-prod", "GpuClustering": "gpu-clustering", "GpuPacking": "gpu-packing",
    "BestFit": "best-fit", "FGD": "",
}  # fmt: skip


@dataclass(frozen=True)
class Run:
    """The figures of one run by the arrived demand in percent, and what it cost."""

    curves: dict[str, Floats]
    bound: int
    cpu_seconds: float


def run(workload: Workload, policy: str, seed: int) -> Run:
    with collector_paused():
        return _run(workload, policy, seed)


def _run(workload: Workload, policy: str, seed: int) -> Run:
    begun = time.process_time()
    order = arrivals(workload, seed)
    scheduler = Scheduler(configuration(workload, policy, seed), classes=_classes(policy))
    state = State()
    state.load({"Node": _nodes(order), "Pod": _pods(order.pods)})
    found: dict[str, Floats] = {}
    placed: list[Placed] = []

    def look(session: Session) -> None:
        gpu_share = next(plugin for plugin in session.plugins if isinstance(plugin, GpuShare))
        for move in session.committed:
            placed.append(Placed(int(move.task.name), move.nodes[0], gpu_share.devices(move.task) or ()))
        found.update(curves(order, placed, *gpu_share.typical.table(state, gpu_share.gpus, ())))

    scheduler.cycle(state, 0.0, look=look, reasons=False)
    return Run(found, len(placed), time.process_time() - begun)


def configuration(workload: Workload, policy: str, seed: int) -> Config:
    """Returns the configuration of a policy: gpu-share keeps the GPUs and, for FGD, scores nodes."""
    own = POLICIES[policy]
    shares: dict[str, object] = {"gpu-share.typicalPods": typical_pods(workload), SEED: seed}
    shares |= {"gpu-share.weight": 0} if own else {"gpu-share.score": "fgd"}
    plugins = [("predicates", {}), ("gpu-share", shares), *([(own, {SEED: seed})] if own else [])]
    return Config(
        actions=("allocate",),
        tiers=(Tier(tuple(PluginOption(name, arguments=Arguments(given)) for name, given in plugins)),),
    )


def _classes(policy: str) -> dict[str, type]:
    return CLASSES | ({"gpu-share": RandomGpus} if policy == "Random" else {})


def _nodes(order: Arrivals) -> dict[str, Object]:
    """Returns the nodes; the number before a name decides between nodes with equal scores."""
    found: dict[str, Object] = {}
    for i, row in enumerate(order.nodes):
        name = f"{i:04d}-{row.name}"
        offered = {**row.object.status.allocatable, "pods": MOST_PODS}
        meta = replace(row.object.metadata, name=name)
        found[name] = replace(row.object, metadata=meta, status=NodeStatus(allocatable=offered))
    return found


def _pods(rows: tuple[PodRow, ...]) -> dict[str, Object]:
    """Returns the pods; equal pods share their spec. A pod's name is its number."""
    known: dict[PodRow, tuple[PodSpec, dict[str, str]]] = {}
    found: dict[str, Object] = {}
    for i, row in enumerate(rows):
        shape = known.get(row)
        if shape is None:
            shape = known[row] = _spec(row)
        meta = ObjectMeta(name=f"{i:06d}", namespace=NAMESPACE, annotations=shape[1])
        found[f"{NAMESPACE}/{meta.name}"] = Pod(metadata=meta, spec=shape[0])
    return found


def _spec(row: PodRow) -> tuple[PodSpec, dict[str, str]]:
    """Returns the spec and the annotations of a pod."""
    asked = {"cpu": f"{row.cpu}m", "memory": str(row.memory)}
    if row.gpus and not row.shared:
        asked[GPU] = str(row.gpus)
    spec: dict[str, object] = {"containers": [{"name": "main", "resources": {"requests": asked}}]}
    if row.models:
        rule = {"key": MODEL, "operator": "In", "values": sorted(set(row.models.split("|")))}
        terms = {"nodeSelectorTerms": [{"matchExpressions": [rule]}]}
        spec["affinity"] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    pod = decode({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "pod"}, "spec": spec})
    assert isinstance(pod, Pod)
    return pod.spec, {FRACTION: f"{row.milli / WHOLE_GPU:.3f}"} if row.shared else {}
