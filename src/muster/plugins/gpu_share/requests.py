"""Reads what a pod asks of GPUs: whole ones, or a share of each, by KAI's annotations or Volcano's resources.

| request | in the pod |
|---|---|
| whole GPUs | `nvidia.com/gpu: N`, or Volcano's `volcano.sh/gpu-number: N` |
| a part of one GPU | KAI's annotation `gpu-fraction: "0.5"` |
| memory of one GPU, MiB | KAI's annotation `gpu-memory: "4000"`, or Volcano's `volcano.sh/gpu-memory: 4000` |
| the same of several GPUs | one of KAI's annotations and `gpu-fraction-num-devices: "2"` |

A part is rounded up to thousandths; memory becomes thousandths by the size of the node's GPUs, also rounded up.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from fractions import Fraction

from msgspec import Struct

from muster.engine.core.jobs import Shape
from muster.engine.devices.fragmentation import GPU_PARTS, MOST_GPUS

GPU = "nvidia.com/gpu"
VOLCANO_NUMBER = "volcano.sh/gpu-number"
VOLCANO_MEMORY = "volcano.sh/gpu-memory"
FRACTION = "gpu-fraction"
MEMORY = "gpu-memory"
DEVICES = "gpu-fraction-num-devices"
MODEL = "nvidia.com/gpu.product"  # the node label with the model
CARD_MEMORY = "nvidia.com/gpu.memory"  # the node label with the memory of one GPU, MiB
VOLCANO_INDEX = "volcano.sh/gpu-index"
VOLCANO_TIME = "volcano.sh/predicate-time"  # Volcano's device plugin serves the pods of a node in its order
INDEX = "muster.io/gpu-index"

RESOURCES = (GPU, VOLCANO_NUMBER, VOLCANO_MEMORY)
_MILLI = 1000  # the engine's unit of these resources
_DECIMAL = re.compile(r"\d{1,9}(\.\d{0,18})?|\.\d{1,18}", re.ASCII)
_WHOLE = re.compile(r"\d{1,15}", re.ASCII)


class GpuRequest(Struct, frozen=True):
    """What a pod requests: so many GPUs, and of each so many thousandths, or so much memory."""

    gpus: int = 0
    milli: int = 0  # 0: by memory
    memory: int = 0  # MiB of each GPU
    volcano: bool = False  # by Volcano's resources
    fault: str = ""  # why the request cannot be served anywhere

    @property
    def whole(self) -> bool:
        return self.milli == GPU_PARTS

    @property
    def share(self) -> bool:
        return self.gpus > 0 and not self.whole

    def parts(self, card: int) -> int:
        """Returns the thousandths of a GPU with this memory (MiB); more than 1000 if it is too small or not known."""
        if self.milli:
            return self.milli
        return -(-self.memory * GPU_PARTS // card) if card else GPU_PARTS + 1

    @property
    def amount(self) -> str:
        """Returns what is asked of each GPU, for messages."""
        return f"{self.milli} of {GPU_PARTS} parts" if self.milli else f"{self.memory} MiB"


NOTHING = GpuRequest()


def request_of(shape: Shape, notes: Mapping[str, str]) -> GpuRequest:
    """Returns the request of a pod with this shape and these annotations."""
    asked = tuple([shape.amounts.get(name, 0) for name in RESOURCES])
    if FRACTION not in notes and MEMORY not in notes:
        # KAI: the number of devices alone requests nothing.
        return _read(asked, None, None, None) if any(asked) else NOTHING
    return _read(asked, notes.get(FRACTION), notes.get(MEMORY), notes.get(DEVICES))


def requests_shares(shape: Shape, notes: Mapping[str, str]) -> bool:
    """Returns whether only this plugin can serve the pod: its GPUs are shared, or their index must be written."""
    asked = shape.amounts
    return FRACTION in notes or MEMORY in notes or bool(asked.get(VOLCANO_MEMORY) or asked.get(VOLCANO_NUMBER))


def _read(asked: tuple[int, ...], fraction: str | None, memory: str | None, devices: str | None) -> GpuRequest:
    named = [name for name, amount in zip(RESOURCES, asked, strict=True) if amount]
    named += [f"annotation {key}" for key, text in ((FRACTION, fraction), (MEMORY, memory)) if text is not None]
    if len(named) > 1:
        return _fault(f"it requests GPUs in several ways: {', '.join(named)}")
    gpus, number, card_memory = asked
    if (whole := gpus or number) % _MILLI:
        return _fault(f"{named[0]} is not a whole number; request a part of a GPU with the annotation {FRACTION}")
    if whole:
        return GpuRequest(whole // _MILLI, GPU_PARTS, volcano=not gpus)
    if card_memory:
        return GpuRequest(1, 0, -(-card_memory // _MILLI), volcano=True)
    count = 1 if devices is None else int(devices) if _WHOLE.fullmatch(devices) else 0
    if not 1 <= count <= MOST_GPUS:
        return _fault(f"annotation {DEVICES} {_shown(devices)} is not a number from 1 to {MOST_GPUS}")
    if fraction is not None:
        part = Fraction(fraction) if _DECIMAL.fullmatch(fraction) else Fraction(0)
        if not 0 < part <= 1:
            return _fault(f"annotation {FRACTION} {_shown(fraction)} is not a number above 0 and up to 1, such as 0.5")
        return GpuRequest(count, -(-part.numerator * GPU_PARTS // part.denominator))
    size = int(memory) if memory is not None and _WHOLE.fullmatch(memory) else 0
    if not size:
        return _fault(f"annotation {MEMORY} {_shown(memory)} is not a number of MiB, such as 4000")
    return GpuRequest(count, 0, size)


def _fault(text: str) -> GpuRequest:
    return GpuRequest(fault=text)


def _shown(text: str | None) -> str:
    return f'"{(text or "")[:32]}"'


def read_index(notes: Mapping[str, str], request: GpuRequest) -> list[int] | None:
    """Returns the GPUs that the pod's annotation names; None if it names none. A bad list names an impossible GPU."""
    text = notes.get(VOLCANO_INDEX if request.volcano else INDEX)
    if text is None:
        return None
    return [int(part) if _WHOLE.fullmatch(part) else -1 for part in text.split(",")[: MOST_GPUS + 1]]


def write_index(ids: list[int]) -> str:
    return ",".join(map(str, ids))


def models_of(shape: Shape) -> tuple[str, ...]:
    """Returns the GPU models that the pod's node selector and required node affinity allow; empty: any.

    Only equality and `In` are read: the other operators exclude few models, and this is for typical pods.
    """
    spec = shape.spec
    selected = (spec.node_selector or {}).get(MODEL)
    if selected is not None:
        return (selected,)
    affinity = spec.affinity.node_affinity if spec.affinity is not None else None
    required = affinity.required if affinity is not None else None
    found: set[str] = set()
    for term in required.node_selector_terms if required is not None else ():
        here = [set(e.values) for e in term.match_expressions if e.key == MODEL and e.operator == "In"]
        if not here:
            return ()
        found |= set.intersection(*here)
    return tuple(sorted(found))
