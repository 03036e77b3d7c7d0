"""Whose fault an exception is."""

from __future__ import annotations

from muster.cycle.blame import blamed
from muster.engine.core.hooks import Plugin
from muster.plugins.priority import Priority


class Foreign(Plugin):
    """Of another package, as this file is not in muster."""

    name = "foreign"

    def __init__(self) -> None:
        pass

    def fails(self) -> None:
        raise ValueError("no")


def caught(*askers: Plugin) -> str | None:
    """Every asker is in the hands of a frame of its own, the last one innermost."""

    def ask(left: tuple[Plugin, ...]) -> None:
        plugin = left[0]
        if len(left) > 1:
            ask(left[1:])
        elif isinstance(plugin, Foreign):
            plugin.fails()
        raise ValueError("no")

    try:
        ask(askers)
    except ValueError as fault:
        return blamed(fault)
    return None


def test_the_plugin_that_raised_is_named() -> None:
    assert caught(Foreign()) == "foreign"


def test_a_plugin_of_ours_is_a_fault_of_muster() -> None:
    ours = Priority.__new__(Priority)
    assert caught(ours) is None
    assert caught(Foreign(), ours) is None
    assert caught(ours, Foreign()) == "foreign"
