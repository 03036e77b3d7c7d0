"""The `Store` protocol, its errors and its clock.

The controllers, the extender and the simulator work on a Store. There are two implementations: `cluster.memory` in
memory and `kube.store` on a live cluster. The live scheduler has its own cache and shares the errors and the clock.
"""

from muster.store.errors import AlreadyExists, ApiError, Conflict, Gone, NotFound
from muster.store.protocol import Change, Clock, Event, Listing, Severity, Store, Watch, WatchEvent

__all__ = [
    "AlreadyExists",
    "ApiError",
    "Change",
    "Clock",
    "Conflict",
    "Event",
    "Gone",
    "Listing",
    "NotFound",
    "Severity",
    "Store",
    "Watch",
    "WatchEvent",
]
