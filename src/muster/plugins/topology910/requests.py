"""The requests that a job may make, chips in total and per pod (design: "Resource Application Constraints")."""

from __future__ import annotations

from msgspec import Struct

from muster.engine.core.hooks import Reason
from muster.engine.core.jobs import ALLOCATED_LIKE, Job, Status
from muster.engine.devices.boards import Layout
from muster.plugins.topology910.boards import RESOURCE

EACH_POD = "topology910.eachPod"
REMEDY = f"{EACH_POD}: true serves each pod by itself"
_MILLI = 1000
_COUNTED = (*ALLOCATED_LIKE, Status.PENDING, Status.PIPELINED)  # without finished and terminating pods


class ChipRequest(Struct, frozen=True):
    """The chips that a job requests; pods that request none (launchers) do not count."""

    job: str
    per_pod: tuple[int, ...]  # milli-chips, ascending
    independent: bool = False  # its pods do not form a gang

    @property
    def several(self) -> bool:
        """Returns whether the job has several pods. Huawei's plugins, since 2021: such a job uses the network."""
        return self.pods > 1 and not self.independent

    @property
    def total(self) -> int:
        return sum(self.per_pod) // _MILLI

    @property
    def pods(self) -> int:
        return len(self.per_pod)


def request_of(job: Job, *, independent: bool) -> ChipRequest:
    wanted = (t.shape.amounts.get(RESOURCE, 0) for t in job.tasks.values() if t.status in _COUNTED)
    return ChipRequest(job.key, tuple(sorted(amount for amount in wanted if amount)), independent)


def objection(request: ChipRequest, layout: Layout, *, each_pod: bool) -> Reason | None:
    """Returns why boards of this layout do not serve the job, None if they do. `each_pod` checks pods one by one."""
    if any(amount % _MILLI for amount in request.per_pod):
        return _no("chip-total", f"job {request.job} requests parts of a chip: chips are given whole")
    sizes, board = layout.sizes, layout.size
    odd = [amount // _MILLI for amount in request.per_pod if amount // _MILLI not in sizes]
    if each_pod or layout.each_pod:
        # Independent pods do not wait for each other: the filter refuses those of another size.
        if odd and (not request.independent or len(odd) == request.pods):
            return _no("chip-pods", f"job {request.job} has a pod that requests {odd[0]} chips, not {either(sizes)}")
        return None
    # If only the number of pods is wrong, an argument lets the job run.
    remedy = "" if odd else f" ({REMEDY})"
    if request.total not in sizes and request.total % board:
        served = f"{either(sizes)} or a multiple of {board}"
        return _no("chip-total", f"job {request.job} requests {request.total} chips in all, not {served}{remedy}")
    requests = f"job {request.job} requests {request.total} chips with {request.pods} pods"
    if request.total <= board and request.pods != 1:
        return _no("chip-pods", f"{requests}: up to {board} chips are one pod's{remedy}")
    other = [amount // _MILLI for amount in request.per_pod if amount != board * _MILLI]
    if request.total > board and other:
        text = f"{requests}, one of them {other[0]}: above {board} chips every pod requests {board}"
        return _no("chip-pods", f"{text}{remedy}")
    return None


def _no(code: str, text: str) -> Reason:
    return Reason(code, text, resolvable=False)


def either(sizes: tuple[int, ...]) -> str:
    return ", ".join(map(str, sizes))
