"""Explains why a configuration is the best of a comparison: what differs from the runner-up, and how clearly."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from statistics import fmean

from muster.sim.replay.charts import Axis
from muster.sim.replay.charts import number as plain
from muster.sim.sweep.comparison import Best, Comparison, Contender, Figure, below, number

__all__ = ["explain", "side_effects", "with_spread"]

MAIN_PART = 0.3  # a group that makes up so much of the difference is named
WORSE_PART = 0.05  # a group that loses so much of it is named, too
SIZE_UNITS = {"gpus": "GPU", "pods": "pod"}


def with_spread(figure: Figure, one: Contender) -> str:
    """Returns the mean of a figure with its spread over the seeds: `12 min ± 30 s`."""
    spread = one.spread(figure.column)
    text = figure.text(one.mean(figure.column))
    return text if math.isnan(spread) else f"{text} ± {figure.text(spread)}"


def explain(best: Best, comparison: Comparison) -> list[str]:
    """Returns sentences about the best configuration by one figure."""
    figure, winner, other = best.figure, best.best[0], best.runner_up
    names = _listed([one.configuration for one in best.best])
    lines = []
    if other is None:
        lines.append(f"{names} have the same {figure.name}: {with_spread(figure, winner)}." if len(best.best) > 1 else
                    f"Only {names} left at most 1 % more jobs unfinished than the others.")  # fmt: skip
    else:
        verb = "has" if len(best.best) == 1 else "have"
        lines.append(
            f"{names} {verb} the {_superlative(figure)} {figure.name}: {with_spread(figure, winner)}, against "
            f"{with_spread(figure, other)} of {other.configuration} ({_relative(figure, winner, other)})."
        )
        lines.append(_certainty(best, comparison.seeds))
        if figure.groups:
            lines += _gains(best, winner, other)
        elif figure.column == "jain_finish_time":
            lines += _fairness(winner, other)
        elif figure.column == "allocation":
            lines += _wasted(winner, other)
    for one in best.left_out:
        more = one.mean(figure.missing) - winner.mean(figure.missing)
        what = "never started" if figure.missing == "never_started" else "did not complete"
        lines.append(
            f"{one.configuration} ({with_spread(figure, one)}) is not compared: {plain(more)} more jobs {what}, and "
            "they are not part of its mean."
        )
    return lines


def side_effects(comparison: Comparison) -> list[str]:
    """Returns sentences about what else differs between the configurations: work lost, fragments, jobs left over."""
    labels = {
        "never_started": ("jobs that never started", ""),
        "not_completed": ("jobs that did not complete", ""),
        "evictions": ("evictions of jobs", ""),
        "lost_gpu_hours": ("lost GPU-hours", ""),
        "fragmentation_amount": ("fragmentation amount", "%"),
        "makespan": ("makespan", "s"),
    }
    lines = []
    for column, (label, unit) in labels.items():
        means = [(one.configuration, one.mean(column)) for one in comparison.contenders]
        known = [(name, mean) for name, mean in means if math.isfinite(mean)]
        if len({mean for _, mean in known}) > 1:
            axis = Axis(label, unit)
            lines.append(f"{label}: " + ", ".join(f"{name} {axis.text(mean)}" for name, mean in known))
    return lines


def _superlative(figure: Figure) -> str:
    return {"shorter": "shortest", "higher": "highest"}[figure.better]


def _relative(figure: Figure, winner: Contender, other: Contender) -> str:
    mine, theirs = winner.mean(figure.column), other.mean(figure.column)
    if figure.unit == "%":
        return f"{plain(100 * abs(mine - theirs))} percentage points {figure.better}"
    if theirs == 0:
        return figure.better
    return f"{plain(100 * abs(mine - theirs) / abs(theirs))} % {figure.better}"


def _certainty(best: Best, seeds: Sequence[int | None]) -> str:
    figure, found = best.figure, best.differences
    if seeds == [None]:
        return "The trace has no seeds: this holds for these jobs, and its spread is unknown."
    if len(found) < 2:
        return "There is one seed: the spread is unknown."
    wins = sum(1 for one in found if one > 0)
    text = f"{figure.text(best.difference)} ± {figure.text(best.difference_spread)}"
    size = "larger" if best.clear else "not larger"
    return (
        f"The difference ({text}) is {size} than its spread over the seeds; {best.best[0].configuration} is better "
        f"with {wins} of {len(found)} seeds."
    )


def _gains(best: Best, winner: Contender, other: Contender) -> Iterator[str]:
    """Yields which size classes and queues make up the difference, and which of them lose."""
    text = best.figure.text
    unit = SIZE_UNITS.get(str(winner.metrics[0].get("size_by")), "pod")
    for kind in ("sizes", "queues"):
        parts = _parts(best.figure, kind, winner, other)
        whole = math.fsum(gain for gain, _, _ in parts.values())
        if len(parts) < 2 or whole <= 0:
            continue
        most = max(parts, key=lambda name: parts[name][0])
        gain, mine, theirs = parts[most]
        if gain >= MAIN_PART * whole:
            who = _group(kind, most, unit)
            yield f"{_share(gain, whole)} comes from {who}: {text(mine)} instead of {text(theirs)}."
        least = min(parts, key=lambda name: parts[name][0])
        gain, mine, theirs = parts[least]
        if gain <= -WORSE_PART * whole:
            who = _group(kind, least, unit)
            yield f"{who[:1].upper()}{who[1:]} lose: {text(mine)} instead of {text(theirs)}."


def _group(kind: str, label: str, unit: str) -> str:
    if kind == "queues":
        return f"jobs of queue {label}"
    return f"jobs with {label} {unit}{'' if label == '1' else 's'}"


def _parts(figure: Figure, kind: str, winner: Contender, other: Contender) -> dict[str, tuple[float, float, float]]:
    """Returns for each group: what its jobs gain together, and its mean with the winner and with the other."""
    found: dict[str, tuple[float, float, float]] = {}
    groups = dict.fromkeys(name for one in winner.metrics for name in below(one, figure.groups, kind) or ())
    for group in groups:
        sums: list[float] = []
        means: list[float] = []
        for contender in (winner, other):
            entries = [below(one, figure.groups, kind, group) for one in contender.metrics]
            counts = [number(below(entry, "count")) for entry in entries]
            values = [number(below(entry, "mean")) for entry in entries]
            pairs = [(n, value) for n, value in zip(counts, values, strict=True) if n > 0 and math.isfinite(value)]
            sums.append(math.fsum(n * value for n, value in pairs))
            means.append(sums[-1] / math.fsum(n for n, _ in pairs) if pairs else math.nan)
        if all(map(math.isfinite, means)):
            found[group] = (sums[1] - sums[0], means[0], means[1])
    return found


def _share(gain: float, whole: float) -> str:
    part = gain / whole
    return "More than all of it" if part > 1.005 else f"{plain(round(100 * part))} % of it"


def _fairness(winner: Contender, other: Contender) -> Iterator[str]:
    """Yields the queue whose jobs take longest in relation to an equal share of the cluster."""
    found = []
    for contender in (other, winner):
        ratios: dict[str, list[float]] = {}
        for one in contender.metrics:
            for queue, entry in (below(one, "finish_time_ratio", "queues") or {}).items():
                ratios.setdefault(queue, []).append(number(below(entry, "mean")))
        means = {queue: fmean(values) for queue, values in ratios.items() if all(map(math.isfinite, values))}
        if len(means) < 2:
            return
        worst = max(means, key=lambda queue: (means[queue], queue))
        least = min(means, key=lambda queue: (means[queue], queue))
        found.append(
            f"with {contender.configuration} the mean finish-time ratio of queues is between {plain(means[least])} "
            f"({least}) and {plain(means[worst])} ({worst})"
        )
    yield f"{'; '.join(found)[0].upper()}{'; '.join(found)[1:]}."


def _wasted(winner: Contender, other: Contender) -> Iterator[str]:
    """Yields that the work which evictions destroyed counts as allocated, if the winner has more of it."""
    more = winner.mean("lost_gpu_hours") - other.mean("lost_gpu_hours")
    if more > 0:
        yield f"{winner.configuration} loses {plain(more)} more GPU-hours, and lost work counts as allocated."


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
