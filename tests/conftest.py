"""The profiles of hypothesis, for all tests; see strategies/profiles.py."""

from __future__ import annotations

from strategies.profiles import register

register()
