"""The one protocol that controllers and the live scheduler see: get, list, watch, patch, bind, evict, event; with
it the clock. The embedded cluster and the live one each have a store that keeps this promise.
"""

from muster.store.clock import Clock, timestamp
from muster.store.errors import AlreadyExists, Conflict, Gone, NotFound, Refused, StoreError
from muster.store.protocol import Store
from muster.store.record import Event, Severity
from muster.store.watch import Change, Listing, Watch, WatchEvent

__all__ = [
    "AlreadyExists",
    "Change",
    "Clock",
    "Conflict",
    "Gone",
    "Listing",
    "NotFound",
    "Event",
    "Refused",
    "Severity",
    "Store",
    "StoreError",
    "Watch",
    "WatchEvent",
    "timestamp",
]
