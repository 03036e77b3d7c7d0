"""What `muster validate` reports about GPUs and requests for them, and what every run warns of."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from muster.engine.devices.fragmentation import GPU_PARTS, MOST_GPUS
from muster.model.finding import Finding
from muster.plugins.gpu_share.devices import Devices
from muster.plugins.gpu_share.requests import INDEX, VOLCANO_INDEX

__all__ = ["findings", "too_many"]


def too_many(gpus: Devices) -> list[Finding]:
    """Returns the nodes with more GPUs than are followed."""
    text = f"GPUs; gpu-share follows at most {MOST_GPUS} of a node, so no pod gets a GPU of it"
    return [
        Finding("warning", "", None, f"Node {gpus.nodes.names[node]}", "too-many-gpus", f"has {count} {text}", _FEWER)
        for node, count in enumerate(gpus.offered.tolist())
        if count > MOST_GPUS
    ]


_FEWER = "let pods that request its GPUs use another scheduler"


def findings(gpus: Devices) -> Iterator[Finding]:
    """Yields the findings about nodes and the pods on them; the filter refuses pending pods with invalid requests."""
    yield from too_many(gpus)
    for node, name in enumerate(gpus.nodes.names):
        here = gpus.at(node)
        if here is None:
            continue
        for pod, fault in here.faults:
            fix = "correct the pod's annotations"
            yield Finding("warning", "", None, f"Pod {pod}", "gpu-index", fault, fix)
        for gpu in np.flatnonzero(gpus.idle[node] < 0).tolist():
            text = f"pods have {GPU_PARTS - int(gpus.idle[node, gpu])} of the {GPU_PARTS} parts of GPU {gpu}"
            fix = f"compare the annotations {INDEX} and {VOLCANO_INDEX} of its pods"
            yield Finding("warning", "", None, f"Node {name}", "gpu-overcommitted", text, fix)
