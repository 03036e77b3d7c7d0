"""What evictions could do for a pending pod, who is protected from them, and why a pod was evicted."""

from __future__ import annotations

from muster.sim.eviction_options.choice import EvictedPod
from muster.sim.eviction_options.option import OPTIONS, EvictionOption
from muster.sim.eviction_options.search import eviction_options
from muster.sim.eviction_options.watch import ClaimWatch

__all__ = ["OPTIONS", "ClaimWatch", "EvictedPod", "EvictionOption", "eviction_options"]
