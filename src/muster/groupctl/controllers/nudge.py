"""Pending pods that kube-scheduler is to try again.

kube-scheduler watches neither applications nor policies. A pod that an extender refused is tried again when one of its
labels changes, in all versions.
"""

from __future__ import annotations

from collections.abc import Iterable
from zlib import crc32

from muster.groups.binding import DOMAIN
from muster.model.core import Pod
from muster.model.meta import key
from muster.store import NotFound, Store

OBSERVED = f"{DOMAIN}/observed"


def nudge(store: Store, pods: Iterable[Pod], seen: object) -> bool:
    """Mark the pods with what was seen; whether one had another mark before."""
    mark = f"{crc32(repr(seen).encode()):08x}"
    wrote = False
    for pod in pods:
        if pod.metadata.labels.get(OBSERVED) != mark:
            try:
                store.patch(Pod, key(pod), {"metadata": {"labels": {OBSERVED: mark}}})
                wrote = True
            except NotFound:
                continue
    return wrote
