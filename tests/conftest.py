"""How properties are searched, wherever they stand: the same examples every time, unless a search is asked for.

`HYPOTHESIS_PROFILE=search pytest tests/properties` looks at other examples with every run; `glance` stops at the first
that fails, however large it is.
"""

from __future__ import annotations

import os

from hypothesis import HealthCheck, Phase, settings

_SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example]

settings.register_profile(
    "repeatable", derandomize=True, database=None, deadline=None, print_blob=False, suppress_health_check=_SLOW
)
settings.register_profile("search", deadline=None, suppress_health_check=_SLOW)
settings.register_profile(
    "glance", database=None, deadline=None, suppress_health_check=_SLOW, phases=[Phase.explicit, Phase.generate]
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))
