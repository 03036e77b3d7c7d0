"""Tables of the figures of replays, for the terminal and for the page; the best value of a row carries a star."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from muster.sim.replay.charts import Axis
from muster.sim.replay.metrics import Figures, metrics
from muster.sim.replay.records import Replay

BEST = "★"
LOWER, HIGHER = -1, 1
SECONDS, SHARE, NUMBER = Axis("", "s"), Axis("", "%"), Axis("")
MIN_COMPLETED_SHARE = 0.99  # of the most completed jobs: who completes fewer has short times because jobs are missing
MAX_REASONS = 10
MAX_GROUPS = 50  # rows of a table by queue, size or priority

Runs = Mapping[str, Sequence[Figures]]  # the metrics of the seeds of each configuration


@dataclass(frozen=True, slots=True)
class Figure:
    """A row of the summary: its name, where it is in the metrics, how it is written, and which value is the best."""

    name: str
    path: tuple[str, ...]
    axis: Axis = NUMBER
    best: int = 0  # LOWER, HIGHER, or 0 if no value is better than another


@dataclass(slots=True)
class SummaryTable:
    title: str
    head: tuple[str, ...]
    rows: list[tuple[str, ...]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def _times(key: str, name: str) -> list[Figure]:
    return [Figure(f"{name}, {stat}", (key, "all", stat), SECONDS, LOWER) for stat in ("mean", "p50", "p90", "p99")]


_FIGURES = (
    Figure("jobs", ("jobs", "submitted")),
    Figure("jobs completed", ("jobs", "completed"), best=HIGHER),
    Figure("jobs that never started", ("jobs", "never_started"), best=LOWER),
    *_times("waiting", "waiting time"),
    *_times("completion", "completion time"),
    Figure("bounded slowdown, mean", ("slowdown", "all", "mean"), best=LOWER),
    Figure("bounded slowdown, p99", ("slowdown", "all", "p99"), best=LOWER),
    Figure("makespan", ("time", "makespan"), SECONDS, LOWER),
)
_LAST_FIGURES = (
    Figure("fragmentation amount, mean", ("fragmentation", "amount", "mean"), SHARE, LOWER),
    Figure("fragmentation amount, end", ("fragmentation", "amount", "end"), SHARE, LOWER),
    Figure("fragmentation ratio, mean", ("fragmentation", "ratio", "mean"), SHARE, LOWER),
    Figure("fragmentation ratio, end", ("fragmentation", "ratio", "end"), SHARE, LOWER),
    Figure("Jain's index, allocated / deserved", ("fairness", "jain", "deserved"), NUMBER, HIGHER),
    Figure("Jain's index, finish-time ratio", ("fairness", "jain", "finish_time"), NUMBER, HIGHER),
    Figure("finish-time ratio, mean", ("finish_time_ratio", "all", "mean"), NUMBER, LOWER),
    Figure("finish-time ratio, p99", ("finish_time_ratio", "all", "p99"), NUMBER, LOWER),
    Figure("jobs with a finish-time ratio above 1", ("finish_time_ratio", "all", "above_1"), SHARE, LOWER),
    Figure("restarts by evictions", ("evictions", "evictions"), NUMBER, LOWER),
    Figure("restarts by lost nodes", ("evictions", "node_losses"), NUMBER, LOWER),
    Figure("evicted pods", ("evictions", "pods"), NUMBER, LOWER),
    Figure("lost GPU-hours", ("evictions", "lost_gpu_hours"), NUMBER, LOWER),
    Figure("cycles", ("cycles",)),
)


def runs_of(replays: Iterable[Replay]) -> dict[str, list[Figures]]:
    """Returns the metrics of replays by configuration; one configuration may have several seeds."""
    found: dict[str, list[Figures]] = {}
    for replay in replays:
        found.setdefault(replay.name, []).append(metrics(replay))
    return found


def summary_tables(replays: Sequence[Replay]) -> list[SummaryTable]:
    """Returns the tables that `muster replay` prints."""
    runs = runs_of(replays)
    return [summary_table(runs), *group_tables(runs), *reason_tables(runs)]


def summary_table(runs: Runs) -> SummaryTable:
    """Returns one row for each figure and one column for each configuration; rows without a value are left out."""
    made = SummaryTable("Summary", ("", *runs))
    completed = {name: _mean([lookup(one, ("jobs", "completed")) for one in seeds]) for name, seeds in runs.items()}
    enough = {name for name, count in completed.items() if count >= MIN_COMPLETED_SHARE * max(completed.values())}
    for figure in figures_of(runs):
        values = [[lookup(one, figure.path) for one in seeds] for seeds in runs.values()]
        if not any(math.isfinite(v) for seeds in values for v in seeds):
            continue
        if figure.axis is not SECONDS and figure.path[-1] in _NONZERO and not any(v for seeds in values for v in seeds):
            continue
        texts = [_cell(seeds, figure.axis) for seeds in values]
        means = [_mean(seeds) for seeds in values]
        if figure.best == LOWER and figure.path[0] != "jobs":
            means = [value if name in enough else math.nan for name, value in zip(runs, means, strict=True)]
        for i in best_of(means, figure.best):
            texts[i] += f" {BEST}"
        made.rows.append((figure.name, *texts))
    if len(runs) > 1:
        made.notes.append(f"{BEST}: the best value of the row")
    if len(set(completed.values())) > 1:
        made.notes.append(
            "The configurations completed different numbers of jobs; times are those of the jobs that did."
        )
    if few := [name for name in runs if name not in enough]:
        made.notes.append(f"No {BEST} for low values, because too few jobs completed: {', '.join(few)}")
    return made


_NONZERO = ("never_started", "evictions", "node_losses", "pods", "lost_gpu_hours", "allocation", "utilisation")


def figures_of(runs: Runs) -> list[Figure]:
    """Returns the rows of the summary: allocation and utilisation of each resource that the cluster has."""
    names = dict.fromkeys(name for seeds in runs.values() for one in seeds for name in _mapping(one, "resources"))
    resources = [
        Figure(f"{key} of {name}", ("resources", name, key), SHARE, HIGHER)
        for name in names
        for key in ("allocation", "utilisation")
    ]
    return [*_FIGURES, *resources, *_LAST_FIGURES]


def best_of(values: Sequence[float], better: int) -> list[int]:
    """Returns the positions of the best values; none if there is no choice or all are equal."""
    known = [value for value in values if math.isfinite(value)]
    if not better or len(known) < 2 or len(set(known)) == 1:
        return []
    best = max(known) if better == HIGHER else min(known)
    return [i for i, value in enumerate(values) if value == best]


_GROUPS = (("queues", "queue"), ("sizes", "size"), ("priorities", "priority"))
_GROUP_FIGURES = (
    *(Figure(f"waiting {stat}", ("waiting", stat), SECONDS) for stat in ("mean", "p50", "p90", "p99")),
    *(Figure(f"completion {stat}", ("completion", stat), SECONDS) for stat in ("mean", "p50", "p90", "p99")),
    Figure("slowdown", ("slowdown", "mean")),
    Figure("finish-time ratio", ("finish_time_ratio", "mean")),
)
_QUEUE_FIGURES = (
    Figure("share", ("share",), SHARE),
    Figure("deserved", ("deserved",), SHARE),
    Figure("gap", ("gap",), SHARE),
)


def group_tables(runs: Runs) -> list[SummaryTable]:
    """Returns the figures by queue, by size class and by priority; a table with one group is left out."""
    tables = []
    for kind, word in _GROUPS:
        groups = dict.fromkeys(
            name for seeds in runs.values() for one in seeds for name in _mapping(one, "waiting", kind)
        )
        if len(groups) < 2:
            continue
        more = _QUEUE_FIGURES if kind == "queues" else ()
        head = (word, "configuration", "started", *(f.name for f in _GROUP_FIGURES), *(f.name for f in more))
        made = SummaryTable(f"By {word}", head)
        for name in list(groups)[:MAX_GROUPS]:
            for configuration, seeds in runs.items():
                started = _cell([lookup(one, ("waiting", kind, name, "count")) for one in seeds], NUMBER)
                cells = [
                    _cell([lookup(one, (f.path[0], kind, name, f.path[1])) for one in seeds], f.axis)
                    for f in _GROUP_FIGURES
                ]
                cells += [
                    _cell([lookup(one, ("fairness", "queues", name, *f.path)) for one in seeds], f.axis) for f in more
                ]
                made.rows.append((name, configuration, started, *cells))
        if len(groups) > MAX_GROUPS:
            made.notes.append(f"and {len(groups) - MAX_GROUPS:,} more in -o json")
        tables.append(made)
    return tables


def reason_tables(runs: Runs) -> list[SummaryTable]:
    """Returns why jobs did not complete, if there are such jobs."""
    made = SummaryTable("Not completed", ("jobs", "configuration", "reason"))
    for configuration, seeds in runs.items():
        for one in seeds:
            reasons = _mapping(one, "jobs").get("reasons")
            for entry in (reasons if isinstance(reasons, list) else [])[:MAX_REASONS]:
                made.rows.append((f"{entry['jobs']:,}", configuration, entry["reason"]))
    return [made] if made.rows else []


def lookup(figures: Figures, path: Sequence[str]) -> float:
    """Returns a number of the metrics; nan if there is none."""
    found = _mapping(figures, *path[:-1]).get(path[-1])
    return float(found) if isinstance(found, int | float) else math.nan


def _mapping(figures: Figures, *path: str) -> Figures:
    found: object = figures
    for key in path:
        found = found.get(key) if isinstance(found, dict) else None
    return found if isinstance(found, dict) else {}


def _cell(values: Sequence[float], axis: Axis) -> str:
    """Returns the mean over the seeds, with the lowest and the highest value if they differ."""
    known = [value for value in values if math.isfinite(value)]
    if not known:
        return "–"
    text = axis.text(_mean(known))
    low, high = axis.text(min(known)), axis.text(max(known))
    return text if low == high else f"{text} ({low} to {high})"


def _mean(values: Sequence[float]) -> float:
    known = [value for value in values if math.isfinite(value)]
    return math.fsum(known) / len(known) if known else math.nan
