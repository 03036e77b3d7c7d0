"""The gate's own log: which pods were released or held again, and at which resourceVersion that was seen.

No event of the pod tells of it, since it is the application that changed. An entry has a version that no answer given
under the old verdict goes beyond, so whoever watches from an older or equal version is told of it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable
from typing import NamedTuple

KEPT = 20_000


class Change(NamedTuple):
    """A pod (`ns/name`) to look at again, the node it had, and the number of the turn that it is because of."""

    key: str
    node: str = ""
    turn: int = 0


class Changes:
    def __init__(self, kept: int = KEPT) -> None:
        self.floor = 0
        """Watches from before this version cannot be told what they missed."""
        self.handed = 0
        """The latest version that any answer was of."""
        self.turn = 0
        """Grows when an application changes, which is a moment before its pods are in the log."""
        self.open: set[int] = set()
        """Turns whose pods are not in the log yet."""
        self._log: deque[tuple[int, Change]] = deque()
        self._kept = kept
        self._readers: dict[asyncio.Queue[Change], None] = {}

    def __len__(self) -> int:
        return len(self._log)

    def begin(self, version: int) -> None:
        """The gate knows what happened from here on."""
        self.floor = version

    def hand(self, version: str) -> None:
        """An answer of that version is about to be given."""
        if version.isdecimal() and int(version) > self.handed:
            self.handed = int(version)

    def turned(self) -> int:
        """An application changed; the number of that turn."""
        self.turn += 1
        self.open.add(self.turn)
        return self.turn

    def add(self, changes: Iterable[Change], version: str, turns: Iterable[int] = ()) -> None:
        """Applications changed at `version` (in these turns), and with them the verdict on these pods."""
        self.open.difference_update(turns)
        at = max(self.handed, int(version) if version.isdecimal() else 0)
        for change in changes:
            self._log.append((at, change))
            for reader in self._readers:
                reader.put_nowait(change)
        while len(self._log) > self._kept:
            self.floor = self._log.popleft()[0] + 1

    def since(self, version: str) -> list[Change] | None:
        """The pods to look at for one who saw everything up to `version`; None: the log does not reach back."""
        if not version.isdecimal():
            return []  # the API server will say what is wrong with it
        if int(version) < self.floor:
            return None
        return list(dict.fromkeys(change for at, change in self._log if at >= int(version)))

    def subscribe(self) -> asyncio.Queue[Change]:
        reader: asyncio.Queue[Change] = asyncio.Queue()
        self._readers[reader] = None
        return reader

    def unsubscribe(self, reader: asyncio.Queue[Change]) -> None:
        self._readers.pop(reader, None)
