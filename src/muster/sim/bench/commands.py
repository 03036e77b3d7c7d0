"""`muster simulate` as a whole process: CPU seconds from the start of Python to the printed answer."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from muster.model.kinds import plain
from muster.model.yamltext import dump_all
from muster.sim.bench.measurement import Figures, WrongResult
from muster.sim.bench.work import Objects, check_capacity
from muster.sim.bench.workloads import gangs, nodes

_MUSTER = (sys.executable, "-c", "from muster.cli import main; main()")


@dataclass(frozen=True)
class Simulate:
    """`form`: the objects are in one JSON list, as kubectl prints them, or in a stream of YAML documents."""

    name: str
    about: str
    make: Callable[[], Objects]
    form: str
    bound: int
    floors: Mapping[str, float]

    def run(self) -> Figures:
        objects = self.make()
        values = [plain(one) for some in objects.values() for one in some.values()]
        with TemporaryDirectory() as folder:
            file = Path(folder, f"cluster.{self.form}")
            listed = {"apiVersion": "v1", "kind": "List", "items": values}
            file.write_text(json.dumps(listed) if self.form == "json" else dump_all(values), "utf-8")
            size = file.stat().st_size
            before = _children_s()
            command = [*_MUSTER, "simulate", "-f", str(file), "-o", "json"]
            compiled = {**os.environ, "PYTHONDONTWRITEBYTECODE": ""}  # an installed package is compiled once
            done = subprocess.run(command, capture_output=True, text=True, check=True, env=compiled)
            seconds = _children_s() - before
        answer = json.loads(done.stdout)
        if len(answer["binds"]) != self.bound or answer["pending"] or answer["evictions"]:
            raise WrongResult(f"{self.name}: bound {len(answer['binds'])} (want {self.bound})")
        check_capacity(self.name, {"Pod": {}, **objects}, answer["binds"])
        return {"seconds": seconds, "file_mib": size / (1 << 20), "bound": self.bound}

    def derived(self, best: Figures) -> dict[str, object]:
        return {"pods_per_s": round(best["bound"] / best["seconds"])}


def _children_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _one_node() -> Objects:
    return {"Node": nodes(1)}


_ABOUT = "muster simulate, whole process: 5,000 nodes × 200 gangs of 100"
_GANGS = partial(gangs, 5000, 200, 100)

COMMANDS: tuple[Simulate, ...] = (
    Simulate("simulate-json", f"{_ABOUT}, JSON", _GANGS, "json", 20_000, {"seconds": 1.3}),
    Simulate("simulate-yaml", f"{_ABOUT}, YAML", _GANGS, "yaml", 20_000, {"seconds": 3.2}),
    Simulate("start", "muster simulate, whole process: one node and no pods", _one_node, "json", 0, {"seconds": 0.2}),
)
