"""Volcano's ``scheduler.yaml`` as a typed ``Config``: text in, objects and findings out. Which plugins and
arguments exist is told from outside (``Known``), so this room needs no plugin to be imported.
"""

from __future__ import annotations

from muster.config.default import DEFAULT, DEFAULT_NAME
from muster.config.loader import load
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
