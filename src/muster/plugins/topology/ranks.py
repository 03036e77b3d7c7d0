"""The index of a pod in its group: ranks that are neighbours exchange most, so they are placed next to each other."""

from __future__ import annotations

from muster.engine.core.jobs import Task

NAMED_BY = "kai.scheduler/pod-index-label"  # KAI: an annotation that names the label which holds the index
# Where workloads write a pod's index, as an annotation or a label.
KEYS = (
    NAMED_BY,
    "batch.kubernetes.io/job-completion-index",
    "apps.kubernetes.io/pod-index",
    "volcano.sh/task-index",
    "training.kubeflow.org/replica-index",
    "leaderworkerset.sigs.k8s.io/worker-index",
    "ray.io/worker-index",
)
_ANY = frozenset(KEYS)


def index_of(task: Task) -> int | None:
    """From the pod's annotations or labels, else the number its name ends in; None: it has none."""
    metadata = task.pod.metadata
    notes, labels = metadata.annotations, metadata.labels
    if not (_ANY.isdisjoint(notes) and _ANY.isdisjoint(labels)):
        texts = [labels.get(notes[NAMED_BY], "")] if NAMED_BY in notes else []
        for text in texts + [notes.get(key) or labels.get(key, "") for key in KEYS[1:]]:
            if (found := _number(text)) is not None:
                return found
    return task.serial if task.serial is not None else _number(task.name.rpartition("-")[2])


def _number(text: str) -> int | None:
    return int(text) if len(text) < 10 and text.isascii() and text.isdigit() else None
