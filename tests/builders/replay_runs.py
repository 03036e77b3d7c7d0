"""Small traces and clusters for tests of the replay."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from builders.manifests import node, tables
from builders.replays import trace
from muster.model.meta import Object
from muster.sim.inputs import LoadedConfig, config_text, load_config
from muster.sim.traces.table import Trace

GPU = "nvidia.com/gpu"


def job_trace(*, submit: Sequence[float], duration: Sequence[float] = (), **columns: Any) -> Trace:
    """A trace of jobs that run for a minute and have one GPU each, unless a column says otherwise."""
    jobs = len(submit)
    names = [f"job-{index:06d}" for index in range(jobs)]
    unknown = {"pods": [0] * jobs, "cpu": [0] * jobs, "memory": [0] * jobs}
    return trace(submit, duration or [60.0] * jobs, **(unknown | {"names": names} | columns))


def gpu_nodes(count: int, gpus: int = 8) -> dict[str, dict[str, Object]]:
    return tables([node(f"n{i:03d}", cpu=64, memory="256Gi", resources={GPU: gpus}) for i in range(count)])


def configured(actions: str, *plugins: Mapping[str, Any] | str) -> LoadedConfig:
    """A configuration with one tier of plugins."""
    tier = [{"name": one} if isinstance(one, str) else dict(one) for one in plugins]
    text = config_text({"actions": actions, "tiers": [{"plugins": tier}]})
    assert text is not None
    return load_config(text)
