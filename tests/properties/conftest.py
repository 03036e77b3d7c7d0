"""How properties are searched: the same examples every time, unless a search is asked for.

`pytest tests/properties --hypothesis-profile=search` looks at other examples with every run, and at many more.
"""

from __future__ import annotations

from hypothesis import HealthCheck, settings

_SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example]

settings.register_profile(
    "repeatable", derandomize=True, database=None, deadline=None, print_blob=False, suppress_health_check=_SLOW
)
settings.register_profile("search", max_examples=1000, deadline=None, suppress_health_check=_SLOW)
settings.load_profile("repeatable")
