"""Reads the grid of a sweep: a YAML file with configurations, traces, seeds and clusters.

configurations: [drf.yaml, {name: fair, file: proportion.yaml}]
traces:
- jobs.csv
- {name: busy, make: {jobs: 500, load: 0.9, clusterGpus: 256}}
seeds: [1, 2, 3]
clusters:
- template: {allocatable: {cpu: 64, memory: 512Gi, nvidia.com/gpu: 8}}
  counts: [32, 64, 128]

docs/tasks/sweep.md has all keys. Paths are relative to the file. Every mistake is a finding with its line.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePath
from typing import Any

from muster.config.names import suggest
from muster.model.finding import Finding, InputError, Severity, in_order
from muster.model.yamltext import Document, YamlError, load_all
from muster.sim.sweep.parameters import Report, read_options, read_recipe
from muster.sim.traces.make import Recipe

__all__ = ["ClusterSource", "ConfigurationSource", "Grid", "TraceSource", "read_grid"]

KEYS = ("configurations", "traces", "seeds", "clusters", "manifests", "options")
CONFIGURATION_KEYS = ("name", "file")
TRACE_KEYS = ("name", "file", "format", "columns", "strict", "make", "sample", "shuffle")
CLUSTER_KEYS = ("name", "nodes", "manifests", "template", "counts", "nodeEvents")
TEMPLATE_KEYS = ("allocatable", "labels", "taints")
MAX_SEED = 2**32 - 1
MAX_NODES = 100_000
PATH = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class ConfigurationSource:
    """A configuration of the grid; without a path it is the built-in default."""

    name: str
    line: int
    path: str = ""


@dataclass(frozen=True, slots=True)
class TraceSource:
    """A trace of the grid: files, or the parameters of the generator."""

    name: str
    line: int
    paths: tuple[str, ...] = ()
    format: str = ""
    columns: Mapping[str, str] = field(default_factory=dict)
    strict: bool = False
    """A bad row is an error."""
    make: Recipe | None = None
    sample: float | None = None
    """The part of the jobs that a seed chooses."""
    shuffle: bool = False
    """A seed exchanges the submission times of the jobs."""

    @property
    def seeded(self) -> bool:
        """Whether a seed changes the trace."""
        return self.make is not None or self.sample is not None or self.shuffle


@dataclass(frozen=True, slots=True)
class ClusterSource:
    """A cluster of the grid: lists of nodes, manifests, or a number of copies of a node."""

    name: str
    line: int
    nodes: tuple[str, ...] = ()
    manifests: tuple[str, ...] = ()
    template: str | Mapping[str, Any] = ""
    count: int = 0
    node_events: str = ""
    """The file with the nodes that join and leave."""


@dataclass(frozen=True, slots=True)
class Grid:
    """What a sweep runs."""

    file: str
    configurations: tuple[ConfigurationSource, ...]
    traces: tuple[TraceSource, ...]
    seeds: tuple[int, ...]
    clusters: tuple[ClusterSource, ...]
    manifests: tuple[str, ...]
    options: Mapping[str, Any]
    findings: tuple[Finding, ...] = ()


def read_grid(path: str) -> Grid:
    """Reads a grid; raises InputError with all findings if it has an error."""
    try:
        text = Path(path).read_bytes().decode("utf-8-sig")
        documents = load_all(text, path)
    except OSError as error:
        raise _unreadable(path, None, f"cannot be read: {error.strerror}", "look at the path") from None
    except UnicodeDecodeError:
        raise _unreadable(path, None, "is not UTF-8 text", "save the file as UTF-8") from None
    except YamlError as error:
        raise _unreadable(path, error.line, error.message, "correct the YAML") from None
    if len(documents) != 1 or not isinstance(documents[0].value, dict):
        raise _unreadable(path, 1, "a grid is one mapping", f"write the keys {', '.join(KEYS[:4])}")
    reading = _Reading(documents[0], path)
    grid = reading.grid()
    if any(finding.severity == "error" for finding in reading.findings):
        raise InputError(f"{path} cannot be used", in_order(reading.findings))
    return grid


def _unreadable(path: str, line: int | None, message: str, fix: str) -> InputError:
    return InputError(f"{path} cannot be read", [Finding("error", path, line, "", "grid", message, fix)])


class _Reading:
    """One grid being read."""

    def __init__(self, document: Document, file: str) -> None:
        self.document = document
        self.file = file
        self.folder = Path(file).parent
        self.findings: list[Finding] = []

    def report(self, path: PATH, message: str, fix: str = "", severity: Severity = "error") -> None:
        self.findings.append(Finding(severity, self.file, self.document.line_of(path), "", "grid", message, fix))

    def reporter(self, path: PATH) -> Report:
        return lambda key, message, fix: self.report((*path, key), message, fix)

    def grid(self) -> Grid:
        top = self.mapping(self.document.value, (), "a grid", KEYS)
        configurations = tuple(self.configurations(top.get("configurations")))
        traces = tuple(self.traces(top.get("traces")))
        clusters = tuple(self.clusters(top.get("clusters")))
        seeds = tuple(self.numbers(top.get("seeds", [0]), ("seeds",), "seeds", 0, MAX_SEED))
        manifests = self.paths(top.get("manifests"), ("manifests",), "manifests")
        self.check_names((("configurations", configurations), ("traces", traces), ("clusters", clusters)))
        if "seeds" in top:
            self.check_seeds(traces)
        options = self.options(top.get("options"))
        return Grid(self.file, configurations, traces, seeds, clusters, manifests, options, tuple(self.findings))

    # --- sections

    def configurations(self, value: object) -> Iterator[ConfigurationSource]:
        for entry, path, line in self.entries(value, "configurations", CONFIGURATION_KEYS):
            file = self.text(entry, "file", path)
            name = self.text(entry, "name", path) or _stem(file)
            if name:
                yield ConfigurationSource(name, line, self.resolve(file) if file else "")
            else:
                self.report(path, "a configuration without file and name", "write its file, or only a name for the "
                            "built-in default")  # fmt: skip

    def traces(self, value: object) -> Iterator[TraceSource]:
        for entry, path, line in self.entries(value, "traces", TRACE_KEYS):
            files = self.paths(entry.get("file"), (*path, "file"), "file")
            make = entry.get("make")
            if make is not None and not isinstance(make, dict):
                self.report((*path, "make"), "make should be a mapping", "write the parameters as `jobs: 500`")
                continue
            if bool(files) == (make is not None):
                self.report(path, "a trace has either `file` or `make`", "write one of them")
                continue
            name = self.text(entry, "name", path) or _stem(files[0] if files else "generated")
            if make is not None:
                for key in ("format", "columns", "strict", "sample", "shuffle"):
                    if key in entry:
                        self.report((*path, key), f"{key} has no effect on a generated trace", "remove it", "warning")
                recipe = read_recipe(make, self.reporter((*path, "make")))
                if recipe is not None:
                    yield TraceSource(name, line, make=recipe)
                continue
            sample = entry.get("sample")
            if sample is not None and (not _is_number(sample) or not 0 < sample <= 1):
                self.report((*path, "sample"), f"sample is {sample!r}", "write a part such as 0.8")
                sample = None
            shuffle = entry.get("shuffle")
            if shuffle not in (None, "arrivals"):
                self.report((*path, "shuffle"), f"shuffle is {shuffle!r}", "write `shuffle: arrivals`")
            strict = entry.get("strict", False)
            if not isinstance(strict, bool):
                self.report((*path, "strict"), f"strict is {strict!r}", "write true or false")
            columns = self.mapping(entry.get("columns", {}), (*path, "columns"), "columns", None)
            yield TraceSource(
                name, line, files, self.text(entry, "format", path), {k: str(v) for k, v in columns.items()},
                strict is True, None, None if sample is None else float(sample), shuffle is not None,
            )  # fmt: skip

    def clusters(self, value: object) -> Iterator[ClusterSource]:
        for entry, path, line in self.entries(value, "clusters", CLUSTER_KEYS, short="nodes"):
            given = self.text(entry, "name", path)
            nodes = self.paths(entry.get("nodes"), (*path, "nodes"), "nodes")
            manifests = self.paths(entry.get("manifests"), (*path, "manifests"), "manifests")
            template = entry.get("template")
            events = self.text(entry, "nodeEvents", path)
            events = self.resolve(events) if events else ""
            if (template is not None) == bool(nodes or manifests):
                self.report(path, "a cluster has either `nodes` and `manifests` or a `template`", "write one of them")
            elif template is None:
                if "counts" in entry:
                    self.report((*path, "counts"), "counts belongs to a template", "remove it, or write a template")
                yield ClusterSource(given or _stem((nodes or manifests)[0]), line, nodes, manifests, node_events=events)
            else:
                yield from (
                    replace(one, node_events=events) for one in self.sizes(template, entry, path, line, given)
                )

    def sizes(
        self, template: object, entry: Mapping[str, Any], path: PATH, line: int, given: str
    ) -> Iterator[ClusterSource]:
        """Yields a cluster for each count of a template."""
        if not isinstance(template, str):
            template = self.mapping(template, (*path, "template"), "a template", TEMPLATE_KEYS)
            if not isinstance(template.get("allocatable"), dict):
                self.report((*path, "template"), "the template has no allocatable resources",
                            "write for example `allocatable: {cpu: 64, memory: 512Gi}`")  # fmt: skip
                return
        else:
            template = self.resolve(template)
        if "counts" not in entry:
            self.report(path, "the template has no counts", "write for example `counts: [32, 64]`")
            return
        for count in self.numbers(entry["counts"], (*path, "counts"), "counts", 1, MAX_NODES):
            name = f"{given} × {count}" if given else f"{count} nodes" if count > 1 else "1 node"
            yield ClusterSource(name, line, template=template, count=count)

    def options(self, value: object) -> Mapping[str, Any]:
        given = self.mapping({} if value is None else value, ("options",), "options", None)
        return read_options(given, self.reporter(("options",)))

    # --- checks over sections

    def check_names(self, sections: Iterable[tuple[str, Sequence[Any]]]) -> None:
        for section, sources in sections:
            seen: dict[str, int] = {}
            for source in sources:
                if source.name in seen:
                    message = f"two {section} are called {source.name!r} (the other in line {seen[source.name]})"
                    self.findings.append(
                        Finding("error", self.file, source.line, "", "grid", message, "give one another `name`")
                    )
                seen.setdefault(source.name, source.line)

    def check_seeds(self, traces: Iterable[TraceSource]) -> None:
        for trace in traces:
            if not trace.seeded:
                message = f"the seeds have no effect on the trace {trace.name}: it is run once"
                fix = "write `sample: 0.8` or `shuffle: arrivals` for a random variant for each seed"
                self.findings.append(Finding("warning", self.file, trace.line, "", "grid", message, fix))

    # --- values

    def entries(
        self, value: object, section: str, known: Sequence[str], short: str = "file"
    ) -> Iterator[tuple[dict[str, Any], PATH, int]]:
        """Yields the entries of a section; a text is short for a mapping with this one key."""
        if not isinstance(value, list) or not value:
            self.report((section,), f"there are no {section}", f"write a list under `{section}`")
            return
        for i, entry in enumerate(value):
            path = (section, i)
            line = self.document.line_of(path)
            if isinstance(entry, str) and entry:
                yield {short: entry}, path, line
            elif isinstance(entry, dict):
                yield self.mapping(entry, path, section, known), path, line
            else:
                self.report(path, f"{entry!r} in {section} is neither a path nor a mapping")

    def mapping(self, value: object, path: PATH, what: str, known: Sequence[str] | None) -> dict[str, Any]:
        if not isinstance(value, dict):
            self.report(path, f"{what} should be a mapping", "write `key: value` lines")
            return {}
        for key in value:
            if known is not None and key not in known:
                self.report((*path, key), f"unknown key {key!r} in {what}", suggest(key, known))
        return {key: below for key, below in value.items() if known is None or key in known}

    def text(self, entry: Mapping[str, Any], key: str, path: PATH) -> str:
        value = entry.get(key, "")
        if isinstance(value, str) and value.isprintable():
            return value
        self.report((*path, key), f"{key} is {value!r}, which is no text", "write a text")
        return ""

    def numbers(self, value: object, path: PATH, what: str, least: int, most: int) -> list[int]:
        """Returns the numbers of a list without duplicates."""
        if not isinstance(value, list) or not value:
            self.report(path, f"{what} should be a list of whole numbers", f"write for example `{what}: [1, 2, 3]`")
            return []
        found: dict[int, None] = {}
        for i, number in enumerate(value):
            if type(number) is not int or not least <= number <= most:
                self.report((*path, i), f"{number!r} in {what} is no whole number from {least} to {most}")
            elif number in found:
                self.report((*path, i), f"{number} is twice in {what}: it is run once", "remove one", "warning")
            else:
                found[number] = None
        return list(found)

    def paths(self, value: object, path: PATH, what: str) -> tuple[str, ...]:
        listed = [] if value is None else value if isinstance(value, list) else [value]
        wrong = [one for one in listed if not isinstance(one, str) or not one or one == "-"]
        if wrong:
            self.report(path, f"{wrong[0]!r} in {what} is no path of a file", "write the path as text")
        return tuple(self.resolve(one) for one in listed if isinstance(one, str) and one and one != "-")

    def resolve(self, path: str) -> str:
        return str(self.folder / path)


def _stem(path: str) -> str:
    """Returns the name of a file without its endings: `drf.yaml` → drf, `jobs.csv.gz` → jobs."""
    name = PurePath(path).name
    return name.split(".")[0] or name


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
