"""Where the objects of a finding stand in the input; a pod that a workload made stands where the workload does."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from muster.cluster.embedded import EmbeddedCluster
from muster.cluster.place import Places
from muster.model.finding import Finding, Severity
from muster.model.meta import Object, controller


class Located:
    def __init__(self, where: Mapping[tuple[str, str], tuple[str, int]], cluster: EmbeddedCluster) -> None:
        self._where = where
        self._objects = cluster.store.everything()

    def say(
        self, severity: Severity, kind: str, key: str, code: str, message: str, fix: str = "", path: str = ""
    ) -> Finding:
        """A finding about an object, at its place, or about a field of it where the input is still at hand."""
        file, line = self.of(kind, key)
        if path and isinstance(self._where, Places) and (kind, key) in self._where:
            line = self._where.place(kind, key).line_of(path)
        return Finding(severity, file, line, f"{kind} {key}", code, message, fix)

    def of(self, kind: str, key: str) -> tuple[str, int | None]:
        for at in self._up(kind, key):
            if at in self._where:
                return self._where[at]
        return "", None

    def fill(self, findings: Iterable[Finding]) -> Iterator[Finding]:
        """Findings that name their object but not its place, with the place."""
        for finding in findings:
            kind, _, key = finding.object.partition(" ")
            if finding.file or not key:
                yield finding
                continue
            file, line = self.of(kind, key)
            yield replace(finding, file=file, line=line)

    def _up(self, kind: str, key: str) -> Iterator[tuple[str, str]]:
        """The object, its controller, the controller's controller."""
        at: tuple[str, str] | None = (kind, key)
        for _ in range(4):
            if at is None:
                return
            yield at
            found: Object | None = self._objects.get(at[0], {}).get(at[1])
            owner = controller(found.metadata) if found is not None else None
            at = (owner.kind, f"{found.metadata.namespace}/{owner.name}") if found is not None and owner else None
