"""The store on a live cluster. It talks to the API server and does not depend on scheduling.

`config` provides access through the official client, `client` makes calls with limits and retries, `resources` has the
kinds and their paths. `list_watch` lists and watches, `informer` and `informers` keep the objects as tables with their
changes. `writes` and `events` write, `lease` elects the replica that may write, and `store` is the Store of
controllers.
"""

from muster.kube.client import Client, Limits
from muster.kube.config import Access, NoAccess, load
from muster.kube.events import Recorder
from muster.kube.informer import Delta, Informer, InformerState
from muster.kube.informers import Informers, Stream, Wanted
from muster.kube.lease import Election
from muster.kube.writes import Writes

__all__ = [
    "Access",
    "Client",
    "Delta",
    "Election",
    "Informer",
    "Informers",
    "Limits",
    "NoAccess",
    "Recorder",
    "InformerState",
    "Stream",
    "Wanted",
    "Writes",
    "load",
]
