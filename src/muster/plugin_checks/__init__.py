"""Checks that every plugin must pass, on random clusters; `muster.testing` offers them to plugin authors.

`terms` checks filters and scores (slices, declared scope, batches, signatures), `ledgers` checks that what is undone
leaves no trace, `shortcuts` that caches and batches change no decision. `random_clusters` makes the clusters, with the
labels and annotations that `read_keys` sees a plugin read. This repository's property tests run the same
functions with hypothesis on all built-in plugins.
"""

from __future__ import annotations

__all__ = ["CheckFailed", "require"]


class CheckFailed(AssertionError):
    """A plugin does not keep a promise of the plugin interface. `check` names the promise."""

    def __init__(self, check: str, message: str) -> None:
        super().__init__(f"{check}: {message}")
        self.check = check
        self.message = message


def require(holds: bool, check: str, message: str) -> None:
    if not holds:
        raise CheckFailed(check, message)
