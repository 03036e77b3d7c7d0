"""What a job may ask for, chips in all and per pod (design: "Resource Application Constraints")."""

from __future__ import annotations

from dataclasses import dataclass

from muster.engine.devices import Layout
from muster.engine.hooks import Reason
from muster.engine.jobs import ALLOCATED_LIKE, Job, Status
from muster.plugins.topology910.boards import RESOURCE

_MILLI = 1000
_COUNTED = (*ALLOCATED_LIKE, Status.PENDING, Status.PIPELINED)  # not the pods that are over or leaving


@dataclass(frozen=True, slots=True)
class Ask:
    """A job's chips; pods that want none (launchers) do not count."""

    job: str
    per_pod: tuple[int, ...]  # milli-chips, ascending

    @property
    def total(self) -> int:
        return sum(self.per_pod) // _MILLI

    @property
    def pods(self) -> int:
        return len(self.per_pod)


def ask_of(job: Job) -> Ask:
    wanted = (t.shape.amounts.get(RESOURCE, 0) for t in job.tasks.values() if t.status in _COUNTED)
    return Ask(job.key, tuple(sorted(amount for amount in wanted if amount)))


def objection(ask: Ask, layout: Layout, *, each_pod: bool) -> Reason | None:
    """Why boards of this layout do not serve the job; None if they do."""
    if any(amount % _MILLI for amount in ask.per_pod):
        return _no("chip-total", f"job {ask.job} asks for parts of a chip: chips are given whole")
    sizes, board = layout.sizes, layout.size
    if each_pod or layout.each_pod:
        odd = [amount // _MILLI for amount in ask.per_pod if amount // _MILLI not in sizes]
        if odd:
            return _no("chip-pods", f"job {ask.job} has a pod that asks for {odd[0]} chips, not {_either(sizes)}")
        return None
    if ask.total not in sizes and ask.total % board:
        served = f"{_either(sizes)} or a multiple of {board}"
        return _no("chip-total", f"job {ask.job} asks for {ask.total} chips in all, not {served}")
    if ask.total <= board and ask.pods != 1:
        text = f"job {ask.job} asks for {ask.total} chips with {ask.pods} pods: up to {board} chips are one pod's"
        return _no("chip-pods", text)
    odd = [amount // _MILLI for amount in ask.per_pod if amount != board * _MILLI]
    if ask.total > board and odd:
        text = f"job {ask.job} asks for {ask.total} chips with {ask.pods} pods, one of them for {odd[0]}: "
        return _no("chip-pods", f"{text}above {board} chips every pod asks for {board}")
    return None


def _no(code: str, text: str) -> Reason:
    return Reason(code, text, resolvable=False)


def _either(sizes: tuple[int, ...]) -> str:
    return ", ".join(map(str, sizes))
