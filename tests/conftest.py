"""The profiles of hypothesis for all tests (strategies/profiles.py), and the tests that only the long profile runs."""

from __future__ import annotations

import pytest

from strategies.profiles import PROFILE, register

register()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the tests marked `long`, unless the profile is long or a single file was asked for."""
    named = [argument for argument in config.args if ".py" in argument]
    if PROFILE != "short" or named:
        return
    left_out = [item for item in items if item.get_closest_marker("long")]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if not item.get_closest_marker("long")]
