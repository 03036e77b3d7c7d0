"""What every Kubernetes object has: metadata, label selectors, its name as a key, conditions and timestamps."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta, timezone
from functools import lru_cache
from typing import Annotated, Any, ClassVar, NoReturn

from msgspec import Meta, Struct, field
from msgspec.structs import replace

# Numbers of a manifest are limited to what a 64-bit column and JSON represent exactly.
Int = Annotated[int, Meta(ge=-(2**53), le=2**53)]

# A quantity as written in a manifest; muster.model.quantity reads it.
Quantity = int | float | str
ResourceList = dict[str, Quantity]



def _refuse(*_: object, **__: object) -> NoReturn:
    raise TypeError("all objects without this field share its value: assign a new one")


class _NoItems(list[Any]):
    __slots__ = ()
    append = extend = insert = __iadd__ = _refuse

    def __reduce__(self) -> str:
        return "NO_ITEMS"


class _NoEntries(dict[str, Any]):
    __slots__ = ()
    __setitem__ = setdefault = update = __ior__ = _refuse

    def __reduce__(self) -> str:
        return "NO_ENTRIES"


# The values of absent fields. A pod has about eighteen of them, which would be a third of its memory.
NO_ITEMS: list[Any] = _NoItems()
NO_ENTRIES: dict[str, Any] = _NoEntries()


class Partial(Struct, kw_only=True, rename="camel", omit_defaults=True, gc=False):
    """A Kubernetes type with only the fields muster uses; every field may be absent, unknown fields are ignored.

    No object of the model refers to its container, so the garbage collector can skip them (gc=False).
    """


class OwnerReference(Partial, kw_only=True):
    """A reference to the owner of this object."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool = False
    block_owner_deletion: bool = False


class ObjectMeta(Partial, kw_only=True):
    """metadata."""

    name: str = ""
    generate_name: str = ""
    namespace: str = ""
    uid: str = ""
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: Int | None = None
    resource_version: str = ""
    generation: Int = 0
    owner_references: list[OwnerReference] = NO_ITEMS
    finalizers: list[str] = NO_ITEMS


class Object(Partial, kw_only=True):
    """A whole object: it has a kind and a name."""

    namespaced: ClassVar[bool] = True

    api_version: str = ""
    kind: str = ""
    metadata: ObjectMeta = field(default_factory=ObjectMeta)


class LabelSelectorRequirement(Partial, kw_only=True):
    """One expression of a label selector: In, NotIn, Exists, DoesNotExist."""

    key: str = ""
    operator: str = ""
    values: list[str] = []


class LabelSelector(Partial, kw_only=True):
    """Labels and expressions that must all match; with neither it selects everything."""

    match_labels: dict[str, str] = {}
    match_expressions: list[LabelSelectorRequirement] = []


class Condition(Partial, kw_only=True):
    """One entry of status.conditions, of any kind of object."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None
    last_probe_time: str | None = None
    last_heartbeat_time: str | None = None
    observed_generation: Int = 0
    # Volcano: the session that wrote a PodGroup's condition.
    transition_id: str = field(default="", name="transitionID")


def key(obj: Object) -> str:
    """Returns `namespace/name`, or the name of a cluster-scoped object; an absent namespace is `default`."""
    meta = obj.metadata
    return f"{meta.namespace or 'default'}/{meta.name}" if obj.namespaced else meta.name


def kind_name(cls: type[Object]) -> str:
    """The kind as manifests write it. In object tables some types are called by kind and API group (`model.custom`)."""
    return cls.__name__.partition(".")[0]


def controller(meta: ObjectMeta) -> OwnerReference | None:
    """Returns the owner that controls the object, if any."""
    for owner in meta.owner_references:
        if owner.controller:
            return owner
    return None


FIRST_TIME_S = datetime(1, 1, 1, tzinfo=UTC).timestamp()
LAST_TIME_S = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC).timestamp()
_RFC3339 = re.compile(r"(\d{4})-(\d\d)-(\d\d)[Tt](\d\d):(\d\d):(\d\d)(?:\.(\d{1,9}))?([Zz]|[+-]\d\d:\d\d)", re.ASCII)
_PLAIN_CHARS = len("2026-01-01T00:00:00Z")  # as Kubernetes writes them


@lru_cache(maxsize=65536)
def seconds(timestamp: str | None) -> float:
    """Converts an RFC 3339 timestamp to seconds since the epoch; None is the epoch. Raises ValueError if it is none."""
    if timestamp is None:
        return 0.0
    match = _RFC3339.fullmatch(timestamp)
    if match is None:
        raise ValueError(f"{timestamp!r} is not a timestamp")
    if len(timestamp) == _PLAIN_CHARS and timestamp[11:13] < "24":
        try:
            return datetime.fromisoformat(timestamp).timestamp()
        except ValueError:
            return _seconds(timestamp, match)  # a leap second, or a mistake that is to be reported
    return _seconds(timestamp, match)


def _seconds(timestamp: str, match: re.Match[str]) -> float:
    *date, fraction, zone = match.groups()
    year, month, day, hour, minute, second = (int(part) for part in date)
    offset = UTC
    if zone not in "Zz":
        shift = timedelta(hours=int(zone[1:3]), minutes=int(zone[4:6]))
        if shift >= timedelta(hours=24):
            raise ValueError(f"{timestamp!r} is not a timestamp: the zone {zone} is more than a day away")
        offset = timezone(-shift if zone[0] == "-" else shift)
    # A leap second is the second after it, as every clock of a cluster counts.
    leap = 1 if second == 60 else 0
    try:
        whole = datetime(year, month, day, hour, minute, second - leap, tzinfo=offset)
    except ValueError as error:
        raise ValueError(f"{timestamp!r} is not a timestamp: {error}") from None
    return whole.timestamp() + leap + (int(fraction) / 10 ** len(fraction) if fraction else 0.0)


def spec_of(obj: Object | None) -> object:
    """Returns the spec of an object of any kind; None if there is no object, or its kind has no spec."""
    return getattr(obj, "spec", None)


@lru_cache(maxsize=4096)
def timestamp(seconds: float) -> str:
    """Returns a time as Kubernetes writes it, with microseconds only if there are any. The last year is 9999."""
    whole, micro = divmod(round(min(max(seconds, FIRST_TIME_S), LAST_TIME_S) * 1_000_000), 1_000_000)
    text = datetime.fromtimestamp(whole, UTC).strftime("%Y-%m-%dT%H:%M:%S").rjust(19, "0")
    return f"{text}.{micro:06d}Z" if micro else f"{text}Z"


def condition(type_: str, holds: bool, reason: str, message: str = "", generation: int = 0) -> Condition:
    """Creates a condition without its transition time, which `merge_conditions` sets."""
    return Condition(
        type=type_, status="True" if holds else "False", reason=reason, message=message, observed_generation=generation
    )


def merge_conditions(old: Iterable[Condition], new: Iterable[Condition], now: float) -> list[Condition]:
    """Replaces the old conditions by the new conditions of the same type; sorted by type.

    A condition that keeps its status keeps its transition time.
    """
    found = {condition.type: condition for condition in old}
    for condition in new:
        before = found.get(condition.type)
        since = timestamp(now)
        if before is not None and before.status == condition.status and before.last_transition_time is not None:
            since = before.last_transition_time
        found[condition.type] = replace(condition, last_transition_time=since)
    return [found[type_] for type_ in sorted(found)]
