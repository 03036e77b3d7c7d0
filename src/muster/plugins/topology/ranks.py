"""The index of a pod in its group: ranks that are neighbours exchange most, so they are placed next to each other."""

from __future__ import annotations

from muster.engine.jobs import Task

# Where workloads write a pod's index, as an annotation or a label.
KEYS = (
    "batch.kubernetes.io/job-completion-index",
    "apps.kubernetes.io/pod-index",
    "volcano.sh/task-index",
    "training.kubeflow.org/replica-index",
    "leaderworkerset.sigs.k8s.io/worker-index",
    "ray.io/worker-index",
)
NAMED_BY = "kai.scheduler/pod-index-label"  # KAI: an annotation that names the label which holds the index


def index_of(task: Task) -> int | None:
    """From the pod's annotations or labels, else the number its name ends in; None: it has none."""
    metadata = task.pod.metadata
    notes, labels = metadata.annotations, metadata.labels
    if NAMED_BY in notes:
        named = _number(labels.get(notes[NAMED_BY], ""))
        if named is not None:
            return named
    for key in KEYS:
        text = notes.get(key) or labels.get(key)
        if text is not None and (found := _number(text)) is not None:
            return found
    return _number(task.name.rpartition("-")[2])


def _number(text: str) -> int | None:
    return int(text) if len(text) < 10 and text.isascii() and text.isdigit() else None
