"""Scores that are computed from shares of what nodes offer, and the shares of all such terms at once.

For the few hundred columns that are usually evaluated, calling NumPy takes longer than the arithmetic. The shares of
all terms are therefore rows of one matrix: four calls compute them, however many terms there are.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from muster.engine.core.axis import SHARED
from muster.engine.core.jobs import Task
from muster.engine.core.node_hooks import NodeScorer
from muster.engine.core.nodes import Nodes, NodeView
from muster.engine.core.static import Capacity, Workspace
from muster.engine.core.values import Floats, Index

USED, LOAD, NONZERO = 2, 3, 4  # accounts, in the order of their rows in a NodeView


class Ratio(NamedTuple):
    """(amount on the node + request) · factor / what the node offers; where it offers nothing, divided by 1."""

    account: int  # USED, LOAD or NONZERO
    key: int  # of the resource
    factor: float
    real: bool = False  # divide by what the node object offers, without oversubscription


Share = tuple[Ratio, int]  # and the request


class ShareScorer(NodeScorer):
    """A score that depends only on shares, and on which resources a node offers."""

    stacked = True  # reads the shares of the view itself, so that they may be computed with those of other terms

    def __init__(self) -> None:
        self.stacks = Stacks()
        self.capacity = self.stacks.capacity

    @abstractmethod
    def shares(self, task: Task, nodes: Nodes) -> Sequence[Share]:
        """Returns the shares from which the task's scores are computed."""

    @abstractmethod
    def of_shares(self, task: Task, shares: Floats, nodes: NodeView, *, fitting: bool = False) -> Floats:
        """Computes `raw` from shares × columns, which may be overwritten; returns a new array.

        `fitting`: answers are needed only for columns whose idle resources are enough for the task. Then there may be
        shares × tasks × columns: of several tasks like this one that request other amounts of the same resources.
        """

    def raw(self, task: Task, nodes: NodeView) -> Floats:
        return self.of_shares(task, self.stacks.stack(self.shares(task, nodes.nodes)).of(nodes), nodes)


class Layout:
    """Where the amounts of several ratios are in a view."""

    def __init__(self, ratios: Sequence[Ratio]) -> None:
        self.ratios = ratios
        self.offers = tuple([(ratio.key, ratio.real) for ratio in ratios])
        scaled = [i for i, ratio in enumerate(ratios) if ratio.factor != 1.0]
        self.scaled = slice(scaled[0], scaled[-1] + 1) if scaled else slice(0)  # the others have a factor of 1
        self.factors = np.array([ratio.factor for ratio in ratios]).reshape(-1, 1)[self.scaled]
        self._own_rows = all(ratio.key < SHARED for ratio in ratios)
        self._size = -1  # the number of rows of an account of which `_rows` is
        self._rows: Index = np.empty(0, np.int64)

    def amounts(self, view: NodeView) -> Index:
        """Returns ratios × columns in a new array."""
        size = view.nodes.axis.size
        if not self._own_rows:
            blocks = [view.account(view.rows[r.account * size : (r.account + 1) * size]) for r in self.ratios]
            return np.stack([block[ratio.key] for block, ratio in zip(blocks, self.ratios, strict=True)])
        if size != self._size:
            self._size = size
            self._rows = np.array([ratio.account * size + ratio.key for ratio in self.ratios], np.int64)
        return view.rows.take(self._rows, axis=0)


class Stacks:
    """Makes stacks, which share what does not depend on requests."""

    def __init__(self) -> None:
        self.capacity = Capacity()
        self.workspace = Workspace()
        self._layouts: dict[tuple[Ratio, ...], Layout] = {}

    def stack(self, shares: Sequence[Share]) -> ShareStack:
        requests = np.array([request for _, request in shares], np.int64).reshape(-1, 1)
        return ShareStack(self, self._layout(shares), requests)

    def together(self, tasks: Sequence[Sequence[Share]]) -> ShareStack:
        """Returns the stack of several tasks, whose shares have the same ratios."""
        requests = np.array([[request for _, request in shares] for shares in tasks], np.int64).T
        return ShareStack(self, self._layout(tasks[0]), requests[:, :, None])

    def _layout(self, shares: Sequence[Share]) -> Layout:
        ratios = tuple([ratio for ratio, _ in shares])
        layout = self._layouts.get(ratios)
        if layout is None:
            layout = self._layouts[ratios] = Layout(ratios)
        return layout


class ShareStack:
    """Computes several shares of a view's columns in one matrix."""

    __slots__ = ("_layout", "_requests", "_stacks")

    def __init__(self, stacks: Stacks, layout: Layout, requests: Index) -> None:
        self._stacks = stacks
        self._layout = layout
        self._requests = requests

    def of(self, view: NodeView) -> Floats:
        """Returns shares × columns, of several tasks shares × tasks × columns; the next question overwrites them."""
        stacks, layout, requests = self._stacks, self._layout, self._requests
        shares = stacks.workspace.array(*requests.shape[:-1], len(view))
        if len(shares):
            amounts, factors = layout.amounts(view), layout.factors
            offered = stacks.capacity.together(view, layout.offers)
            if shares.ndim == 3:
                amounts, factors, offered = amounts[:, None], factors[:, None], offered[:, None]
            np.add(amounts, requests, out=shares)
            shares[layout.scaled] *= factors
            shares /= offered
        return shares
