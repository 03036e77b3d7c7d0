"""A refused client is not waited for as long as in production."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def short_linger(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("muster.groupctl.edge_gate.connections.LINGER_S", 0.05)
