"""What a failed check says."""

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
