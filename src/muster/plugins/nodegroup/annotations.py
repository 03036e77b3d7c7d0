"""Reads the annotations of queues and PodGroups, and reports what is wrong with them."""

from __future__ import annotations

import math
from collections.abc import Mapping

import msgspec

from muster.engine.core.jobs import Job, Queue
from muster.model.quantity import QuantityError
from muster.model.requests import amount

LIMITS = "volcano.sh/nodegroup-resource-limits"
WEIGHTS = "muster.io/nodegroup-preferred-weights"
ONE_GROUP = "muster.io/one-node-group"
MAX_SHOWN_CHARS = 80

Limits = dict[str, dict[str, int]]  # group → resource → the most that the queue may use there


class AnnotationError(ValueError):
    """Raised for an annotation that cannot be read; the message says why."""


def limits_of(queue: Queue) -> Limits:
    """Returns how much of each group the queue may use. Volcano: it is not inherited."""
    limits: Limits = {}
    for group, listed in _object(queue.annotations, LIMITS, '{"g1": {"cpu": "8"}}').items():
        if not isinstance(listed, dict):
            raise AnnotationError(f"{LIMITS}: {group} is not a mapping of resources to quantities")
        limits[group] = {}
        for resource, quantity in listed.items():
            try:
                limits[group][resource] = amount(resource, quantity)
            except (QuantityError, TypeError) as fault:
                raise AnnotationError(f"{LIMITS}: {group}.{resource}: {fault}") from None
    return limits


def weights_of(queue: Queue) -> dict[str, float]:
    """Returns the points of preferred groups that replace the default of 50."""
    weights: dict[str, float] = {}
    for group, weight in _object(queue.annotations, WEIGHTS, '{"g1": 30}').items():
        if isinstance(weight, bool) or not isinstance(weight, int | float) or not 0 <= weight < math.inf:
            raise AnnotationError(f"{WEIGHTS}: {group} is {weight!r}, which is not a number of at least 0")
        weights[group] = float(weight)
    return weights


def _short(text: str) -> str:
    return repr(text if len(text) <= MAX_SHOWN_CHARS else text[:MAX_SHOWN_CHARS] + "…")


def wants_one_group(job: Job) -> bool:
    """Returns whether all pods of the PodGroup must be in one node group."""
    return job.group.metadata.annotations.get(ONE_GROUP) == "true"


def _object(annotations: Mapping[str, str], key: str, example: str) -> dict[str, object]:
    text = annotations.get(key)
    if text is None:
        return {}
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise AnnotationError(f"{key} is {_short(text)}, which is not a JSON object such as {example}")
    return value
