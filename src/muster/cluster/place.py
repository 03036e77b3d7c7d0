"""Where an object stands: its file, and its line once somebody asks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from muster.model.shape import steps
from muster.model.yamltext import Document

# Lines inside a long list are found by reading the whole list again; above this the list's own line must do.
LONGEST_LIST = 10_000


@dataclass(frozen=True, slots=True)
class Place:
    """A document, or an item of a list in it."""

    file: str
    line: int
    document: Document | None = None
    prefix: tuple[str | int, ...] = ()

    def line_of(self, path: str) -> int:
        """The line of a field of the object."""
        if self.document is None or not (path or self.prefix):
            return self.line
        return self.document.line_of([*self.prefix, *steps(path)])

    def item(self, index: int, length: int) -> Place:
        """The place of an item, when here is a list of so many."""
        if self.document is None or length > LONGEST_LIST:
            return Place(self.file, self.line)
        return Place(self.file, self.line, self.document, (*self.prefix, "items", index))

    def light(self) -> Place:
        """The same place without a document that nobody needs any more to find the line."""
        return self if self.prefix else Place(self.file, self.line)


class Places(Mapping[tuple[str, str], tuple[str, int]]):
    """(kind, key) → (file, line)."""

    def __init__(self) -> None:
        self._places: dict[tuple[str, str], Place] = {}

    def put(self, kind: str, key: str, place: Place) -> None:
        """Remember where an object stands."""
        self._places[kind, key] = place

    def forget(self, kind: str, key: str) -> None:
        """An object is not kept after all."""
        del self._places[kind, key]

    def place(self, kind: str, key: str) -> Place:
        """The place itself, which also knows the lines of fields where the file is still at hand."""
        return self._places[kind, key]

    def line_of_field(self, kind: str, key: str, path: str) -> int | None:
        """Returns the line of a field of an object; None if the object is not in the input."""
        place = self._places.get((kind, key))
        return None if place is None else place.line_of(path)

    def __getitem__(self, at: tuple[str, str]) -> tuple[str, int]:
        place = self._places[at]
        return place.file, place.line_of("")

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)
