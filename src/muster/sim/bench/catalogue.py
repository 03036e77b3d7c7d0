"""Everything that `muster bench` can measure, by name."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.util import find_spec

from muster.sim.bench.cliffs import CLIFFS
from muster.sim.bench.commands import COMMANDS
from muster.sim.bench.controllers import CONTROLLERS
from muster.sim.bench.cycles import CYCLES
from muster.sim.bench.extender import EXTENDER
from muster.sim.bench.measurement import Measurement
from muster.sim.bench.scheduler_perf.case import FAMILY
from muster.sim.bench.scheduler_perf.cases import CASES
from muster.sim.bench.workloads import WORKS

ALL_WORKS: tuple[Measurement, ...] = (*WORKS, *CLIFFS, *CYCLES, *COMMANDS, EXTENDER, CONTROLLERS)


class UnknownWork(ValueError):
    """No measurement has this name."""


class MissingExtra(ValueError):
    """A measurement needs packages that are not installed."""


def by_name(name: str) -> Measurement:
    return next(one for one in _everything() if one.name == name)


def select(names: Iterable[str]) -> list[Measurement]:
    """Returns the named workloads, or all that can run; after `scheduler-perf` its named cases, or all of them."""
    wanted = list(names)
    if wanted[:1] == [FAMILY]:
        return _cases(wanted[1:])
    known: dict[str, Measurement] = {one.name: one for one in ALL_WORKS}
    strange = [name for name in wanted if name not in known]
    if strange:
        raise UnknownWork(f"no workload {strange[0]}; there are {', '.join(known)}, and {FAMILY} before its cases")
    absent = without_packages()
    if absent & set(wanted):
        raise MissingExtra(f"{min(absent)} needs the extra `live`: pip install 'muster[live]'")
    return [known[name] for name in wanted or known if name not in absent]


def without_packages() -> set[str]:
    """Returns the workloads that cannot run, because the extra `live` is not installed."""
    return set() if find_spec("prometheus_client") else {EXTENDER.name}  # the extender serves /metrics


def _cases(numbers: list[str]) -> list[Measurement]:
    """Returns cases by number; a number without a variant names all its variants."""
    found: dict[str, Measurement] = {}
    for number in numbers:
        some = [case for case in CASES if number in (case.number, case.number.partition("-")[0])]
        if not some:
            raise UnknownWork(f"no case {number}; there are {', '.join(case.number for case in CASES)}")
        found |= {case.name: case for case in some}
    return list(found.values()) if numbers else list(CASES)


def _everything() -> Iterable[Measurement]:
    yield from ALL_WORKS
    yield from CASES
