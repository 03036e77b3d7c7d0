"""The requests of a pod and the allocatable amounts of a node as integers: cpu and other resources in thousandths,
memory in bytes, whole pods.

Requests are counted as Kubernetes counts them; a missing request is filled from the limit, as its API server does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache

from muster.model.meta import Quantity, ResourceList
from muster.model.pod import Container, PodSpec
from muster.model.quantity import QuantityError, milli, units

Amounts = dict[str, int]

# The most that one pod may request: the sum of 255 such pods on a node still fits into 64 bits.
MAX_REQUEST = 2**55
_OfContainer = Callable[[Container, str], Amounts]

# kube-scheduler: in scores, the assumed request of a container that has none.
DEFAULT_CPU_MILLIS = 100
DEFAULT_MEMORY_BYTES = 200 * 2**20

_WHOLE = frozenset({"memory", "pods"})
_NATIVE_THOUSANDTHS = frozenset({"cpu", "ephemeral-storage"})


@lru_cache(maxsize=4096)
def counted(name: str) -> bool:
    """Returns whether the resource is used in scheduling.

    Volcano: names without a slash are ignored unless they are native, `count/…` (object quotas) is ignored.
    """
    if name in _WHOLE or name in _NATIVE_THOUSANDTHS or name.startswith("hugepages-"):
        return True
    return "/" in name and not name.startswith("count/")


def amount(name: str, value: Quantity) -> int:
    """Returns the quantity in the internal unit of the resource; QuantityError if it is negative or no quantity."""
    number = units(value) if name in _WHOLE else milli(value)
    if number < 0:
        raise QuantityError(f"{value!r} is negative", "a resource is 0 or more")
    return number


def amounts(resources: Mapping[str, Quantity], path: str = "") -> Amounts:
    """Returns a resource list (of a node, of a queue) in internal units; errors name the field below `path`."""
    found: Amounts = {}
    for name, value in resources.items():
        if counted(name):
            try:
                found[name] = amount(name, value)
            except QuantityError as error:
                raise QuantityError(f"{path}[{name}]: {error.message}", error.fix) from None
    return found


def requests(spec: PodSpec, path: str = "spec") -> Amounts:
    """Returns the requests of a pod, always with `pods: 1`; errors name the field below `path`."""
    total = _of_pod(spec, path, _of_container)
    for name, n in total.items():
        if n > MAX_REQUEST:
            raise QuantityError(f"{path}: requests more {name} in all than any node could have", "request less")
    total["pods"] = 1
    return total


def nonzero(spec: PodSpec, asked: Amounts, path: str = "spec") -> tuple[int, int]:
    """Returns cpu and memory as kube-scheduler's scores count them: a container without a request has 100m and 200Mi.

    `asked`: the pod's `requests`.
    """
    if _is_one_container(spec):
        return asked.get("cpu", DEFAULT_CPU_MILLIS), asked.get("memory", DEFAULT_MEMORY_BYTES)
    total = _of_pod(spec, path, _of_container_with_missing)
    return total.get("cpu", 0), total.get("memory", 0)


def _of_container(container: Container, path: str) -> Amounts:
    resources = container.resources
    if resources is None:
        return {}
    if not resources.limits:
        return amounts(resources.requests, f"{path}.resources.requests")
    asked = amounts(resources.limits, f"{path}.resources.limits")
    asked.update(amounts(resources.requests, f"{path}.resources.requests"))
    return asked


def _of_container_with_missing(container: Container, path: str) -> Amounts:
    asked = _of_container(container, path)
    asked.setdefault("cpu", DEFAULT_CPU_MILLIS)
    asked.setdefault("memory", DEFAULT_MEMORY_BYTES)
    return asked


def _is_one_container(spec: PodSpec) -> bool:
    """Returns whether the pod requests what its only container requests."""
    return len(spec.containers) == 1 and not spec.init_containers and not spec.overhead and spec.resources is None


def _of_pod(spec: PodSpec, path: str, of_container: _OfContainer) -> Amounts:
    if _is_one_container(spec):
        return of_container(spec.containers[0], f"{path}.containers[0]")
    total = _of_containers(spec, path, of_container)
    if spec.resources is not None:
        aggregate = total if of_container is _of_container else _of_containers(spec, path, _of_container)
        total.update(_pod_level(spec.resources.requests, spec.resources.limits, aggregate, f"{path}.resources"))
    _add(total, amounts(spec.overhead, f"{path}.overhead"))
    return total


def _of_containers(spec: PodSpec, path: str, of_container: _OfContainer) -> Amounts:
    """Returns the sum of all containers and sidecars, or the peak during initialization if that is more."""
    total: Amounts = {}
    for i, container in enumerate(spec.containers):
        _add(total, of_container(container, f"{path}.containers[{i}]"))
    starting: Amounts = {}
    sidecars: Amounts = {}
    for i, container in enumerate(spec.init_containers):
        moment = of_container(container, f"{path}.initContainers[{i}]")
        if container.restart_policy == "Always":
            _add(total, moment)
            _add(sidecars, moment)
            moment = sidecars
        else:
            _add(moment, sidecars)
        _raise(starting, moment)
    _raise(total, starting)
    return total


def _pod_level(asked: ResourceList, limits: ResourceList, aggregate: Amounts, path: str) -> Amounts:
    """Returns the pod-level cpu, memory and huge pages. If the pod gives only a limit, the sum of its containers
    counts, or the limit if they request none.
    """
    found = {name: n for name, n in amounts(limits, f"{path}.limits").items() if name not in aggregate}
    found.update(amounts(asked, f"{path}.requests"))
    return {name: n for name, n in found.items() if name in ("cpu", "memory") or name.startswith("hugepages-")}


def _add(total: Amounts, more: Amounts) -> None:
    for name, n in more.items():
        total[name] = total.get(name, 0) + n


def _raise(total: Amounts, floor: Amounts) -> None:
    for name, n in floor.items():
        if n > total.get(name, -1):
            total[name] = n
