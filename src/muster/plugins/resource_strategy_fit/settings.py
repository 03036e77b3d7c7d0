"""Reads the arguments of resource-strategy-fit, in all spellings that are in use, into one form.

Scarce resource avoidance (SRA) can be written flat (`sra.retention.nvidia.com/t4: 1`) or nested, both from the design,
or as in Volcano today (`sra: {enable, weight, resourceWeight}` and a block `proportional`). A nested key and a flat
one with the same dotted path are the same argument.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from difflib import get_close_matches

from msgspec import Struct

from muster.config.types import Arguments

MOST, LEAST = "MostAllocated", "LeastAllocated"
POLICIES = ("retention", "proportional")
STRATEGY_WEIGHT = "resourceStrategyFitWeight"
_DIMENSIONS = ("cpu", "memory")


class Preference(Struct, frozen=True):
    """How one resource is scored: packed (MostAllocated) or spread (LeastAllocated), and its weight."""

    type: str = LEAST
    weight: int = 1


@dataclass(frozen=True, slots=True)
class Settings:
    strategy_weight: int = 10
    preferences: dict[str, Preference] = field(default_factory=dict)  # by resource name, or prefix ending in `*`
    retention_weight: int = 0
    scarce: dict[str, int] = field(default_factory=dict)  # scarce resource → its weight
    kept: dict[str, dict[str, float]] = field(
        default_factory=dict
    )  # primary → cpu (cores) and memory (10⁹ bytes) per unit

    def preference(self, resource: str) -> Preference | None:
        """Returns the preference of a resource by its exact name, else by the longest prefix."""
        if resource in self.preferences:
            return self.preferences[resource]
        prefixes = [p for p in self.preferences if p.endswith("*") and resource.startswith(p[:-1])]
        return self.preferences[max(prefixes, key=len)] if prefixes else None

    def as_arguments(self) -> dict[str, object]:
        """Returns the settings in a form that could be written into a configuration."""
        shown: dict[str, object] = {
            "resourceStrategyFitWeight": self.strategy_weight,
            "resources": {name: {"type": p.type, "weight": p.weight} for name, p in self.preferences.items()},
        }
        if self.scarce:
            retention = {"weight": self.retention_weight, **self.scarce}
            shown["sra"] = {"policy": "retention", "resources": ", ".join(self.scarce), "retention": retention}
        if self.kept:
            ratios = {f"{name}.{dimension}": n for name, per in self.kept.items() for dimension, n in per.items()}
            resources = ", ".join(self.kept)
            shown["proportional"] = {"enable": True, "resources": resources, "resourceProportion": ratios}
        return shown


class Spelled:
    """Arguments by their dotted path, whether they were written flat or nested."""

    def __init__(self, arguments: Arguments, roots: tuple[str, ...]) -> None:
        self._at: dict[str, tuple[Arguments, str]] = {}
        for key in arguments:
            if key in roots or key.startswith(tuple(f"{root}." for root in roots)):
                self._enter(arguments, key, key, is_root=key in roots)

    def _enter(self, holder: Arguments, key: str, path: str, *, is_root: bool = False) -> None:
        if is_root or isinstance(holder[key], dict):
            below = holder.mapping(key)  # reports it if it is not a mapping
            for inner in below:
                self._enter(below, inner, f"{path}.{inner}")
        elif path in self._at:
            holder.warn(key, "is given twice, flat and nested: the first one counts", "keep one of them")
        else:
            self._at[path] = (holder, key)

    def __contains__(self, path: str) -> bool:
        return path in self._at

    def below(self, prefix: str) -> Iterator[str]:
        """Returns the rest of every path that begins with `prefix.`, as written."""
        return (path[len(prefix) + 1 :] for path in self._at if path.startswith(f"{prefix}."))

    def whole(self, path: str, default: int, minimum: int) -> int:
        if path not in self._at:
            return default
        holder, key = self._at[path]
        return holder.int(key, default, minimum=minimum)

    def number(self, path: str, default: float, minimum: float) -> float:
        if path not in self._at:
            return default
        holder, key = self._at[path]
        return holder.float(key, default, minimum=minimum)

    def truth(self, path: str) -> bool:
        if path not in self._at:
            return False
        holder, key = self._at[path]
        return holder.bool(key, False)

    def names(self, path: str) -> tuple[str, ...]:
        if path not in self._at:
            return ()
        holder, key = self._at[path]
        names, written = holder.strings(key), holder[key]
        listed = [str(n).strip() for n in (written.split(",") if isinstance(written, str) else written or ())]
        for name in names:
            if listed.count(name) > 1:
                holder.warn(key, f"lists {name} {listed.count(name)} times: counted once", "list it once")
            if "*" in name:
                # Volcano: patterns are for the strategy's `resources` only.
                holder.warn(key, f"lists {name}: patterns are not read here, so it names no resource", "name each one")
        return names

    def warn(self, path: str, message: str, fix: str) -> None:
        holder, key = self._at[path]
        holder.warn(key, message, fix)


def read(arguments: Arguments) -> Settings:
    """Reads all arguments; faults are recorded in `arguments`, and the documented defaults are used instead."""
    given = Spelled(arguments, ("sra", "proportional"))
    policies = _policies(given)
    retention_weight, scarce = _retention(given, policies)
    # A configuration with only scarce resource avoidance does not also want packing or spreading.
    only_sra = any(given.below("sra")) and not arguments.keys() & {"resources", STRATEGY_WEIGHT}
    settings = Settings(
        0 if only_sra else arguments.int(STRATEGY_WEIGHT, 10, minimum=0),
        _preferences(arguments.mapping("resources")),
        retention_weight,
        scarce,
        _proportional(given, policies),
    )
    _compare_weights(settings, arguments)
    return settings


def _compare_weights(settings: Settings, arguments: Arguments) -> None:
    """Warns if differences of the strategy scores can reverse the order of retention."""
    counted = sum(settings.scarce.values())
    least = min((weight for weight in settings.scarce.values() if weight), default=0)
    smallest, largest = settings.retention_weight * least, settings.strategy_weight * counted
    if not smallest or largest <= smallest:
        return
    needed = -(-settings.strategy_weight * counted // least)
    key = STRATEGY_WEIGHT if STRATEGY_WEIGHT in arguments else "resources"
    message = (
        f"{'' if key == STRATEGY_WEIGHT else f'has {STRATEGY_WEIGHT} {settings.strategy_weight} by default, which '}"
        f"outweighs retention: strategy scores differ by up to {100 * settings.strategy_weight} points, a scarce "
        f"resource makes {100 * settings.retention_weight * least / counted:g} (sra.retention.weight "
        f"{settings.retention_weight}; {', '.join(f'{name}: {weight}' for name, weight in settings.scarce.items())})"
    )
    fix = f"give sra.retention.weight: {needed}, or {STRATEGY_WEIGHT}: 0"
    arguments.warn(key, message, fix, "retention-outweighed")


def _preferences(resources: Arguments) -> dict[str, Preference]:
    found: dict[str, Preference] = {}
    for name in resources:
        if "*" in name[:-1] or name == "*":
            resources.warn(
                name, "is not a pattern: ignored", "use one * at the end of a name, after at least one letter"
            )
            continue
        entry = resources.mapping(name)
        for key in entry:
            if key not in ("type", "weight"):
                near = get_close_matches(key, ("type", "weight"), 1)
                entry.warn(key, "is not known: ignored", f"write {near[0]}" if near else "give type and weight")
        found[name] = Preference(entry.text("type", LEAST, (MOST, LEAST)), entry.int("weight", 1, minimum=1))
    return found or {"cpu": Preference(), "memory": Preference()}


def _policies(given: Spelled) -> tuple[str, ...]:
    policies = given.names("sra.policy")
    for policy in policies:
        if policy not in POLICIES:
            near = get_close_matches(policy, POLICIES, 1)
            fix = f"write {near[0]}" if near else f"give {' or '.join(POLICIES)}, or both separated by a comma"
            given.warn("sra.policy", f"names the policy {policy}, which is not known: ignored", fix)
    if "sra.policy" not in given and "sra.enable" not in given:
        for rest in given.below("sra"):
            given.warn(f"sra.{rest}", "has no effect without sra.policy", f"give sra.policy: {' or '.join(POLICIES)}")
            break
    return policies


def _retention(given: Spelled, policies: tuple[str, ...]) -> tuple[int, dict[str, int]]:
    if "retention" not in policies and not given.truth("sra.enable"):
        return 0, {}
    resources = given.names("sra.resources")
    _need_resources(given, "sra", resources)
    # Volcano's `sra.weight` is 0 (off) unless given; the design's policy is on if it is written.
    usual = given.whole("sra.weight", 1 if "retention" in policies else 0, minimum=0)
    scarce = {}
    for name in resources:
        theirs = given.whole(f"sra.resourceWeight.{name}", 1, minimum=0)
        scarce[name] = given.whole(f"sra.retention.{name}", theirs, minimum=0)
    for prefix in ("sra.retention", "sra.resourceWeight"):
        for name in given.below(prefix):
            if name not in resources and name != "weight":
                given.warn(
                    f"{prefix}.{name}", "is not listed in sra.resources: ignored", f"add {name} to sra.resources"
                )
    return given.whole("sra.retention.weight", usual, minimum=0), scarce


def _proportional(given: Spelled, policies: tuple[str, ...]) -> dict[str, dict[str, float]]:
    by_policy = "proportional" in policies
    if not by_policy and not given.truth("proportional.enable"):
        return {}
    block = "sra" if by_policy and "proportional.resources" not in given else "proportional"
    resources = given.names(f"{block}.resources")
    _need_resources(given, block, resources)
    prefixes = ("sra.proportional", "proportional.resourceProportion")
    for prefix in prefixes:
        for path in given.below(prefix):
            name, _, dimension = path.rpartition(".")
            if dimension not in _DIMENSIONS:
                given.warn(f"{prefix}.{path}", "does not end in .cpu or .memory: ignored", "write <resource>.cpu")
            elif name not in resources:
                given.warn(f"{prefix}.{path}", f"is not listed in {block}.resources: ignored", f"add {name} there")
    kept: dict[str, dict[str, float]] = {}
    for name in resources:
        kept[name] = {}
        for dimension in _DIMENSIONS:
            theirs = given.number(f"{prefixes[1]}.{name}.{dimension}", 1.0, minimum=0.0)
            kept[name][dimension] = given.number(f"{prefixes[0]}.{name}.{dimension}", theirs, minimum=0.0)
    return kept


def _need_resources(given: Spelled, block: str, resources: tuple[str, ...]) -> None:
    switch = "sra.policy" if "sra.policy" in given else f"{block}.enable"
    if not resources and switch in given:
        given.warn(switch, f"has no effect: {block}.resources names no resource", f"give {block}.resources")
