"""Small traces and clusters for tests of the replay."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from builders.manifests import node, tables
from muster.model.meta import Object
from muster.sim.inputs import LoadedConfig, config_text, load_config
from muster.sim.traces.table import COLUMNS, Trace

GPU = "nvidia.com/gpu"
FLOATS = ("submit", "duration", "estimate", "usage")
DEFAULTS = {"estimate": float("nan"), "gpus": 1, "gpu_milli": 1000, "usage": 1.0, "duration": 60.0}


def job_trace(*, queues: Sequence[str] = ("default",), models: Sequence[str] = ("",), **columns: Sequence[Any]) -> Trace:
    """A trace from columns; one that is not given has its default for every job."""
    jobs = len(columns["submit"])
    arrays = {
        name: np.array(columns.get(name, [DEFAULTS.get(name, 0)] * jobs), dtype=np.float64 if name in FLOATS else np.int64)
        for name in COLUMNS
    }
    names = [f"job-{index:06d}" for index in range(jobs)]
    return Trace(
        source="test", epoch=0.0, names=names, queues=tuple(queues), models=tuple(models), users=("",), **arrays
    )


def gpu_nodes(count: int, gpus: int = 8) -> dict[str, dict[str, Object]]:
    return tables([node(f"n{i:03d}", cpu=64, memory="256Gi", resources={GPU: gpus}) for i in range(count)])


def configured(actions: str, *plugins: Mapping[str, Any] | str) -> LoadedConfig:
    """A configuration with one tier of plugins."""
    tier = [{"name": one} if isinstance(one, str) else dict(one) for one in plugins]
    text = config_text({"actions": actions, "tiers": [{"plugins": tier}]})
    assert text is not None
    return load_config(text)
