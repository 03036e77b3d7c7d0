"""How many examples the properties look at: few in the short profile (`make test`), all in the long one (`.ci/run`).

`HYPOTHESIS_PROFILE` chooses. `short` and `long` look at the same examples with every run; `search` looks at others with
every run; `glance` does so, too, and stops at the first that fails, however large it is.
"""

from __future__ import annotations

import os

from hypothesis import HealthCheck, Phase, settings

PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "short")
_SHORT_PART = 10  # the short profile looks at one example of so many
_SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example]


def register() -> None:
    """Registers the profiles and loads the chosen one; conftest.py calls it."""
    repeatable = settings(
        derandomize=True, database=None, deadline=None, print_blob=False, suppress_health_check=_SLOW
    )
    settings.register_profile("short", repeatable, max_examples=times(100))
    settings.register_profile("long", repeatable, max_examples=100)
    settings.register_profile("search", deadline=None, suppress_health_check=_SLOW)
    settings.register_profile(
        "glance", database=None, deadline=None, suppress_health_check=_SLOW, phases=[Phase.explicit, Phase.generate]
    )
    settings.load_profile(PROFILE)


def times(long: int) -> int:
    """So many examples or rounds in the long profile; in the short one a part of them, at least ten."""
    return long if PROFILE != "short" else max(long // _SHORT_PART, min(long, 10))


def examples(long: int) -> settings:
    """Instead of `@settings(max_examples=…)`: so many in the long profile."""
    return settings(max_examples=times(long))
