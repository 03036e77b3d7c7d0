"""Resources as rows of the nodes' columns (`Axis`), and how the amounts of a resource are read from them (`Account`).

A cluster can have thousands of resource names that only a few nodes know: a row for each of them would be nearly empty.
A resource that at least one node in a hundred offers has a row of its own. The others share rows: a row serves several
resources if no node has two of them. A row of a node then still holds the amounts of one resource, so a move of a pod
remains one addition to the node's column, and undoing it one subtraction. Only who reads a shared row must know which
nodes have the resource in question there; `Account` knows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import overload

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.int64]
Rows = NDArray[np.int64]

SHARED = 1 << 30  # keys from here on are of resources that share rows
_COMMON = 100  # a resource has its own row if one in so many nodes offers it


class Axis:
    """By which key a resource is read from an account, and which row of the matrices it has.

    The key of a resource with its own row is the number of that row. cpu, memory and pods always have theirs. Rows are
    never removed. A resource that shares a row has another one when a node comes to have two resources of that row;
    `version` grows then, and whenever there are more rows.
    """

    __slots__ = ("_at", "_cells", "_names", "_next", "_shared", "holders", "rows", "size", "version")

    def __init__(self) -> None:
        self.rows: dict[str, int] = {"cpu": 0, "memory": 1, "pods": 2}  # resource → key
        self._names = list(self.rows)  # row → resource; "": the row is shared
        self.size = len(self._names)  # the number of rows
        self.version = 0
        self.holders: dict[str, dict[str, None]] = {}  # resource that shares a row → names of the nodes that have it
        self._shared: dict[int, str] = {}  # key → resource that shares a row
        self._next = SHARED
        self._at: dict[str, int] = {}  # resource → shared row
        self._cells: dict[int, dict[str, str]] = {}  # shared row → node → which resource the row has there

    @property
    def sharing(self) -> bool:
        """Whether any resource has no row of its own."""
        return bool(self._shared)

    def row(self, name: str) -> int:
        """The key of a resource; one that is new has no row until a node has it."""
        key = self.rows.get(name)
        if key is None:
            key = self.rows[name] = self._next
            self._shared[key] = name
            self._next += 1
        return key

    def learn(self, names: Iterable[str]) -> None:
        for name in names:
            self.row(name)

    def common(self, holders: int, nodes: int) -> bool:
        """Whether a resource on so many of the nodes is to have its own row."""
        return holders > 0 and _COMMON * holders >= nodes

    def own(self, name: str) -> None:
        """Gives a resource its own row."""
        if self.rows.get(name, SHARED) < SHARED:
            return
        self._leave(name)
        self.holders.pop(name, None)
        self._shared.pop(self.rows.get(name, -1), None)
        self.rows[name] = self.size
        self._add_row(name)

    def hold(self, name: str, nodes: Iterable[str]) -> list[str]:
        """Reserves a row for a resource on these nodes, and returns those that did not have it.

        The row is another one if a node has a different resource there; the caller moves the amounts.
        """
        if self.row(name) < SHARED:
            return []
        holders = self.holders.setdefault(name, {})
        new = [node for node in nodes if node not in holders]
        if not new:
            return new
        holders.update(dict.fromkeys(new))
        row = self._at.get(name)
        if row is None or not self._cells[row].keys().isdisjoint(new):
            self._leave(name)
            free = (at for at, cells in self._cells.items() if cells.keys().isdisjoint(holders))
            row = next(free, None)
            if row is None:
                row = self.size
                self._cells[row] = {}
                self._add_row("")
            self._at[name] = row
            self._cells[row].update(dict.fromkeys(holders, name))
            self.version += 1
        else:
            self._cells[row].update(dict.fromkeys(new, name))
        return new

    def place(self, key: int) -> int | None:
        """The row of a key; None if no node has the resource."""
        return key if key < SHARED else self._at.get(self._shared[key])

    def name(self, key: int) -> str:
        """The resource of a key."""
        return self._shared[key] if key >= SHARED else self._names[key]

    def vector(self, amounts: Mapping[str, int]) -> Vector:
        """The amounts by row; what no node has is left out."""
        return np.array(self.by_row(amounts), np.int64)

    def by_row(self, amounts: Mapping[str, int]) -> list[int]:
        """The same as a list."""
        found, rows = [0] * self.size, self.rows
        for name, amount in amounts.items():
            key = rows[name] if name in rows else self.row(name)
            row = key if key < SHARED else self.place(key)
            if row is not None:
                found[row] = amount
        return found

    def needs(self, amounts: Mapping[str, int]) -> list[tuple[int, int]]:
        """The keys of the resources of which there is any amount, in order, with the amounts."""
        rows = self.rows
        found = [(rows[name] if name in rows else self.row(name), n) for name, n in amounts.items() if n > 0]
        found.sort()
        return found

    def shared(self, amounts: Mapping[str, int]) -> tuple[str, ...]:
        """Those of the resources that share rows."""
        return tuple([name for name in amounts if self.row(name) >= SHARED])

    def own_rows(self) -> list[int]:
        return [row for row, name in enumerate(self._names) if name]

    def resources(self, node: str) -> list[tuple[int, str]]:
        """The rows of a node with the resource that each has there, without shared rows that have none."""
        rows = enumerate(self._names)
        return [(row, found) for row, name in rows if (found := name or self._cells[row].get(node, ""))]

    def _leave(self, name: str) -> None:
        row = self._at.pop(name, None)
        if row is not None:
            cells = self._cells[row]
            for node in self.holders[name]:
                if cells.get(node) == name:
                    del cells[node]

    def _add_row(self, name: str) -> None:
        self._names.append(name)
        self.size += 1
        self.version += 1


class Account:
    """Amounts of resources × columns, read by a resource's key: where a column has none of it, 0.

    Readers get a matrix in its place while no resource shares a row.
    """

    __slots__ = ("_axis", "_columns", "_matrix")

    def __init__(self, matrix: Rows, axis: Axis, columns: Callable[[str], Vector]) -> None:
        """`columns`: the columns that have a resource that shares a row."""
        self._matrix = matrix
        self._axis = axis
        self._columns = columns

    @overload
    def __getitem__(self, at: int) -> Vector: ...
    @overload
    def __getitem__(self, at: slice) -> Rows: ...
    @overload
    def __getitem__(self, at: tuple[int, int]) -> int: ...
    def __getitem__(self, at: int | slice | tuple[int, int]) -> Vector | Rows | int:
        """The amounts of a key; of a key in one column; or, by a slice, of the first rows."""
        if isinstance(at, slice):
            return self._matrix[at]
        if isinstance(at, tuple):
            key, column = at
            return int(self._matrix[at]) if key < SHARED else int(self._read(key)[column])
        return self._matrix[at] if at < SHARED else self._read(at)

    def _read(self, key: int) -> Vector:
        found = np.zeros(self._matrix.shape[1], np.int64)
        row = self._axis.place(key)
        if row is not None:
            columns = self._columns(self._axis.name(key))
            found[columns] = self._matrix[row, columns]
        return found
