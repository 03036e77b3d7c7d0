"""The binding label: set when the required policy is there and good, removed when it is not."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from muster.groups.binding import PolicyLabels
from muster.model.meta import Object
from muster.model.meta import key as key_of
from muster.store import NotFound, Severity, Store

# Says why an application may not be bound to a policy (its name); None: it may.
Check = Callable[[Object, str], str | None]


class Binding:
    """Keeps one pair of labels. Every check must agree before an application is bound."""

    def __init__(self, store: Store, pair: PolicyLabels, checks: Sequence[Check]) -> None:
        self._store = store
        self._pair = pair
        self._checks = checks
        self._reported: dict[tuple[str, str], str] = {}  # application → what it was last told

    def update(self, app: Object) -> str | None:
        """The policy the application is bound to now; None if to none."""
        pair, labels = self._pair, app.metadata.labels
        required, binding = labels.get(pair.required, ""), labels.get(pair.binding, "")
        why = next((w for check in self._checks if (w := check(app, required)) is not None), None) if required else ""
        bound = required if why is None else ""
        if bound != binding:
            try:
                self._store.patch(type(app), key_of(app), {"metadata": {"labels": {pair.binding: bound or None}}})
            except NotFound:
                return None
        if bound and bound != binding:
            self._report(app, Severity.NORMAL, "Bound", f"bound to {pair.value} {bound}")
        elif why:
            self._report(app, Severity.WARNING, "PolicyNotFound" if "not found" in why else "PolicyInvalid", why)
        return bound or None

    def _report(self, app: Object, severity: Severity, reason: str, message: str) -> None:
        at = (type(app).__name__, key_of(app))
        if self._reported.get(at) != message:
            self._reported[at] = message
            self._store.event(app, severity, reason, message)
