"""Checks the parts that objects of many kinds have: quantities, selectors, pod specs, specs of claims.

Each fault is a Problem with the path of its field.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from muster.model.affinity import Affinity, PodAffinity
from muster.model.meta import LabelSelector, ResourceList
from muster.model.pod import PodSpec, ResourceRequirements, VolumeClaimSpec
from muster.model.quantity import QuantityError, parse
from muster.model.requests import amount, counted, requests
from muster.model.selectors import check_label_selector, check_node_selector, check_node_term, check_toleration
from muster.model.shape import Problem

__all__ = ["Problems", "checked", "claim_spec", "not_negative", "pod_spec", "quantities", "requirements", "selector"]

Problems = Iterator[Problem]


def quantities(resources: ResourceList, path: str) -> Problems:
    """Yields the entries of a resource list that are not quantities, or are negative."""
    for name, value in resources.items():
        try:
            if counted(name):
                amount(name, value)
            elif parse(value) < 0:
                raise QuantityError(f"{value!r} is negative", "a resource is 0 or more")
        except QuantityError as error:
            yield Problem(f"{path}[{name}]", error.message, error.fix)


def requirements(resources: ResourceRequirements | None, path: str) -> Problems:
    """Yields the faults of the resources of a container, a pod or a claim."""
    if resources is not None:
        yield from quantities(resources.requests, f"{path}.requests")
        yield from quantities(resources.limits, f"{path}.limits")


def checked(check_one: Callable[..., None], subject: object, path: str) -> Problems:
    """Yields the Problem that a check raises."""
    try:
        check_one(subject, path)
    except Problem as problem:
        yield problem


def selector(given: LabelSelector | None, path: str) -> Problems:
    """Yields the fault of a label selector."""
    yield from checked(check_label_selector, given, path)


def not_negative(number: int | None, path: str) -> Problems:
    """Yields a fault if the number is negative."""
    if number is not None and number < 0:
        yield Problem(path, f"{number} is negative", "it is 0 or more")


def pod_spec(spec: PodSpec, path: str) -> Problems:
    """Yields the faults of a pod's spec, or of a pod template's."""
    faults = 0
    for problem in _pod_resources(spec, path):
        faults += 1
        yield problem
    if not faults:
        try:
            requests(spec, path)
        except QuantityError as error:
            yield Problem("", error.message, error.fix)
    for i, toleration in enumerate(spec.tolerations):
        yield from checked(check_toleration, toleration, f"{path}.tolerations[{i}]")
    for i, spread in enumerate(spec.topology_spread_constraints):
        yield from selector(spread.label_selector, f"{path}.topologySpreadConstraints[{i}].labelSelector")
        if spread.max_skew < 1:
            yield Problem(
                f"{path}.topologySpreadConstraints[{i}].maxSkew", f"{spread.max_skew} is below 1", "1 is the strictest"
            )
    for i, volume in enumerate(spec.volumes):
        if volume.ephemeral is not None and volume.ephemeral.volume_claim_template is not None:
            claim = volume.ephemeral.volume_claim_template.spec
            yield from claim_spec(claim, f"{path}.volumes[{i}].ephemeral.volumeClaimTemplate.spec")
    if spec.affinity is not None:
        yield from _affinity(spec.affinity, f"{path}.affinity")


def _pod_resources(spec: PodSpec, path: str) -> Problems:
    for i, container in enumerate(spec.containers):
        if container.resources is not None:
            yield from requirements(container.resources, f"{path}.containers[{i}].resources")
    for i, container in enumerate(spec.init_containers):
        yield from requirements(container.resources, f"{path}.initContainers[{i}].resources")
    yield from requirements(spec.resources, f"{path}.resources")
    yield from quantities(spec.overhead, f"{path}.overhead")


_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def _affinity(affinity: Affinity, path: str) -> Problems:
    if affinity.node_affinity is not None:
        place = f"{path}.nodeAffinity"
        yield from checked(check_node_selector, affinity.node_affinity.required, f"{place}.{_REQUIRED}")
        for i, preferred in enumerate(affinity.node_affinity.preferred):
            yield from checked(check_node_term, preferred.preference, f"{place}.{_PREFERRED}[{i}].preference")
    yield from _pod_affinity(affinity.pod_affinity, f"{path}.podAffinity")
    yield from _pod_affinity(affinity.pod_anti_affinity, f"{path}.podAntiAffinity")


def _pod_affinity(affinity: PodAffinity | None, path: str) -> Problems:
    if affinity is None:
        return
    terms = [(term, f"{path}.{_REQUIRED}[{i}]") for i, term in enumerate(affinity.required)]
    terms += [
        (w.pod_affinity_term, f"{path}.{_PREFERRED}[{i}].podAffinityTerm") for i, w in enumerate(affinity.preferred)
    ]
    for term, place in terms:
        yield from selector(term.label_selector, f"{place}.labelSelector")
        yield from selector(term.namespace_selector, f"{place}.namespaceSelector")
        if not term.topology_key:
            yield Problem(f"{place}.topologyKey", "is missing", "name the node label that defines the domain")


def claim_spec(spec: VolumeClaimSpec, path: str) -> Problems:
    """Yields the faults of the spec of a PersistentVolumeClaim."""
    yield from requirements(spec.resources, f"{path}.resources")
    yield from selector(spec.selector, f"{path}.selector")
