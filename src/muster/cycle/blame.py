"""Whose fault an exception is: a plugin of another package may do anything, and its name is the first thing to say."""

from __future__ import annotations

from muster.engine.core.foreign import WrongAnswer
from muster.engine.core.hooks import Plugin


def blamed(fault: BaseException) -> str | None:
    """The name of the other package's plugin that was asked when the exception was raised, if there was one.

    Found afterwards, in the frames of the traceback (the innermost one that has a plugin in its hands), so that nothing
    has to be caught, or paid for, where plugins are called.
    """
    if isinstance(fault, WrongAnswer):
        return fault.plugin
    name = None
    trace = fault.__traceback__
    while trace is not None:
        for value in trace.tb_frame.f_locals.values():
            if isinstance(value, Plugin):
                ours = type(value).__module__.startswith("muster.")
                name = None if ours else str(getattr(value, "name", type(value).__name__))
        trace = trace.tb_next
    return name
