"""The garbage collector: what was made for an object that is gone, goes too."""

from __future__ import annotations

from muster.cluster.memory import MemoryStore
from muster.model.kinds import KINDS
from muster.model.meta import Object
from muster.model.pod_states import is_terminating
from muster.model.storage import PersistentVolumeClaim
from muster.store import Change

Owner = tuple[str, str, str]  # kind, namespace, name


class Garbage:
    """Follows deletions. Owners that never were in the cluster do not count as gone."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store
        self._watch = store.watch(str(store.version))

    def run(self) -> bool:
        """Delete what is left over; whether there was any."""
        gone: dict[Owner, dict[str, None]] = {}
        for event in self._watch.take():
            if event.change == Change.DELETED:
                meta = event.object.metadata
                gone.setdefault((event.kind, meta.namespace, meta.name), {})[meta.uid] = None
        if not gone:
            return False
        before = self._store.version
        only_pods = all(kind == "Pod" for kind, _, _ in gone)
        # Pods own nothing but the claims of their ephemeral volumes: no need to look through everything for them.
        # Applications of configured kinds are nobody's.
        there = sorted(kind for kind in self._store.everything() if kind in KINDS)
        for kind in [PersistentVolumeClaim] if only_pods else [KINDS[kind] for kind in there]:
            left = [key for key, obj in self._store.of(kind).items() if _orphaned(obj, gone)]
            for key in sorted(left):
                self._store.delete(kind, key)
        return self._store.version != before


def _orphaned(obj: Object, gone: dict[Owner, dict[str, None]]) -> bool:
    references = obj.metadata.owner_references
    if not references or is_terminating(obj):
        return False
    for owner in references:
        uids = gone.get((owner.kind, obj.metadata.namespace, owner.name)) or gone.get((owner.kind, "", owner.name))
        if uids is None or (owner.uid and owner.uid not in uids):
            return False
    return True
