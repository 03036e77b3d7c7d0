"""Finds the file and line of an object in the input, for findings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace

from muster.groups.applications import owner_kind
from muster.model.finding import Finding, Severity
from muster.model.meta import Object, controller

# A pod belongs to a ReplicaSet, which belongs to a Deployment.
_MAX_OWNER_DEPTH = 4


class Locator:
    """Creates findings with the file and line of their object.

    A pod that a workload controller created has the location of the workload.
    """

    def __init__(
        self,
        locations: Mapping[tuple[str, str], tuple[str, int | None]],
        objects: Mapping[str, Mapping[str, Object]],
        line_of_field: Callable[[str, str, str], int | None] | None = None,
    ) -> None:
        """Takes the location of each input object by (kind, key), all objects of the cluster by kind and key, and a
        function that gives the line of a field by (kind, key, path), if the input text is available."""
        self._locations = locations
        self._objects = objects
        self._line_of_field = line_of_field

    def finding(
        self, severity: Severity, kind: str, key: str, code: str, message: str, fix: str = "", path: str = ""
    ) -> Finding:
        """Creates a finding about an object, located at the field `path` if the input text is available."""
        file, line = self.location(kind, key)
        if path and self._line_of_field is not None:
            line = self._line_of_field(kind, key, path) or line
        return Finding(severity, file, line, f"{kind} {key}", code, message, fix)

    def location(self, kind: str, key: str) -> tuple[str, int | None]:
        """Returns the file and line of the object, or of its nearest owner that is in the input."""
        for owner in self._owner_chain(kind, key):
            if owner in self._locations:
                return self._locations[owner]
        return "", None

    def locate(self, findings: Iterable[Finding]) -> Iterator[Finding]:
        """Adds the location to findings that name their object but not its file."""
        for finding in findings:
            kind, _, key = finding.object.partition(" ")
            if finding.file or not key:
                yield finding
                continue
            file, line = self.location(kind, key)
            yield replace(finding, file=file, line=line)

    def _owner_chain(self, kind: str, key: str) -> Iterator[tuple[str, str]]:
        """Yields the object, its controller, the controller's controller."""
        current: tuple[str, str] | None = (kind, key)
        for _ in range(_MAX_OWNER_DEPTH):
            if current is None:
                return
            yield current
            found = self._objects.get(current[0], {}).get(current[1])
            owner = controller(found.metadata) if found is not None else None
            current = None
            if found is not None and owner is not None:
                current = owner_kind(owner), f"{found.metadata.namespace}/{owner.name}"
