"""Reads Volcano's ``scheduler.yaml`` into a typed ``Config`` and a list of findings. The caller passes the plugins and
arguments that exist (``Known``), so this package imports no plugin.
"""

from __future__ import annotations

from muster.config.loader import DEFAULT, DEFAULT_NAME, load
from muster.config.types import Arguments, Config, Known, PluginOption, Tier, render, render_text

__all__ = [
    "DEFAULT",
    "DEFAULT_NAME",
    "Arguments",
    "Config",
    "Known",
    "PluginOption",
    "Tier",
    "load",
    "render",
    "render_text",
]
