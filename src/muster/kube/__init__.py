"""The store on a live cluster: knows the API server, nothing of scheduling.

Access by the official client (config), calls with limits and retries (client, errors), kinds and their paths
(resources), lists and watches kept as tables with their changes (lists, watch, informer, informers), what is written
(writes, events), who may write (lease) and what an account lacks (reviews), and the Store that controllers see (store).
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
