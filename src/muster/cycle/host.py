"""The plugin host: calls the plugins of other packages, checks what they answer, and names them when they fail.

`hosted` derives a class from a third-party plugin class. In it every method of the plugin interface that the plugin
implements is called through the host: an exception becomes a `PluginError` with the names of the plugin and of its
package, and an answer of the wrong type or length is a `WrongAnswer` where it is given, before the engine computes
with it. Built-in plugins are used as they are and cost nothing here; the tests check their answers.

Time is measured where the engine opens and closes plugins and runs actions (`engine.core.session.Measure`).
"""

from __future__ import annotations

import inspect
from abc import ABCMeta
from collections.abc import Callable, Sequence
from functools import partial, wraps
from typing import Any, TypeVar, cast

from msgspec import Struct

from muster.cycle.answer_checks import CHECKS, Wrong, sets_inside
from muster.engine.core.hooks import (
    Batch,
    Bools,
    Floats,
    Hook,
    NodeFilter,
    NodeScorer,
    NodeSet,
    NodeSetError,
    Plugin,
    Verdict,
)
from muster.engine.core.jobs import Job, Task
from muster.engine.core.nodes import NodeView

__all__ = ["PluginError", "WrongAnswer", "hosted", "is_built_in"]

P = TypeVar("P", bound=Plugin)
_BUILT_IN = "muster."


class PluginError(Exception):
    """A plugin of another package failed; the message names the plugin, its package and the method."""

    def __init__(self, plugin: str, package: str, message: str) -> None:
        super().__init__(f"plugin {plugin} of package {package} fails: {message}")
        self.plugin = plugin
        self.package = package


class WrongAnswer(PluginError):
    """A plugin of another package gave an answer that is not of the kind that was asked for."""


def is_built_in(cls: type) -> bool:
    return cls.__module__.startswith(_BUILT_IN)


def hosted(cls: type[P], package: str = "") -> type[P]:
    """Returns the class that the scheduler uses: a built-in class itself, a third-party class behind the host."""
    if is_built_in(cls) or "_host" in vars(cls):
        return cls
    caller = _Caller(str(getattr(cls, "name", cls.__name__)), package or cls.__module__.partition(".")[0])
    members: dict[str, Any] = {"__module__": cls.__module__, "__doc__": cls.__doc__, "_host": caller}
    members |= {name: _through(caller, cls, name) for name in _implemented(cls)}
    members["__init__"] = _through(caller, cls, "__init__")
    members["open"] = _opening(caller, cls)
    for ask, wrap in (("filters", _HostedFilter), ("scorers", _HostedScorer)):
        if hasattr(cls, ask):
            members[ask] = _terms(caller, getattr(cls, ask), wrap)
    for name in {"node_sets", "group_sets"} & members.keys():
        members[name] = _dividing(members[name])
    return cast("type[P]", ABCMeta(cls.__name__, (cls,), members))


class _Caller(Struct, frozen=True):
    """Calls the methods of one plugin."""

    plugin: str
    package: str

    def call(self, method: str, function: Callable[..., Any], *given: Any) -> Any:
        check = CHECKS.get(method)
        try:
            answer = function(*given)
            return answer if check is None else check(answer, *given)
        except (NodeSetError, PluginError):
            raise
        except Wrong as wrong:
            raise WrongAnswer(self.plugin, self.package, f"{method} returns {wrong}") from None
        except Exception as fault:
            text = " ".join(str(fault).split()) or "no message"
            message = f"{method} raises {type(fault).__name__}: {text}"
            raise PluginError(self.plugin, self.package, message) from fault


def _implemented(cls: type[Plugin]) -> list[str]:
    """Returns the methods of the plugin interface that the class does not inherit from the interface itself."""
    interface = [base for base in cls.__mro__ if is_built_in(base) and issubclass(base, Plugin | Hook)]
    names = {name for base in interface for name in vars(base) if not name.startswith("_")}
    found = []
    for name in sorted(names):
        member = inspect.getattr_static(cls, name)
        if not callable(getattr(cls, name)) or any(vars(base).get(name) is member for base in interface):
            continue
        found.append(name)
    return found


def _through(caller: _Caller, cls: type, name: str) -> Any:
    """Returns the method `name` of the class, called through the host."""
    member = inspect.getattr_static(cls, name)
    original = member.__func__ if isinstance(member, classmethod | staticmethod) else member

    @wraps(original)
    def method(self: Any, *given: Any, **named: Any) -> Any:
        return caller.call(name, partial(original, self, **named), *given)

    return classmethod(method) if isinstance(member, classmethod) else method


def _opening(caller: _Caller, cls: type[Plugin]) -> Any:
    def open(self: Any, session: Any) -> None:
        self._hosted_in = session
        caller.call("open", partial(cls.open, self), session)

    return open


def _dividing(ask: Callable[..., Any]) -> Any:
    """Returns `node_sets` or `group_sets`; nodes outside the given set are removed from the answer, with a warning."""

    def method(self: Any, job: Job, *given: Any) -> tuple[bool, Sequence[NodeSet]]:
        relevant, sets = ask(self, job, *given)
        if not relevant:
            return False, sets
        kept, outside = sets_inside(sets, given[-1])
        if len(outside):
            session = self._hosted_in
            names = session.state.nodes.names
            shown = ", ".join(names[i] if 0 <= i < len(names) else f"number {i}" for i in outside.tolist())
            warning = f"plugin {self.name} returned nodes outside its node set for {job.shown}: {shown}; left out"
            session.log(0, warning)
            if warning not in session.warnings:
                session.warnings.append(warning)
        return True, kept

    return method


def _terms(caller: _Caller, ask: Callable[..., Any], wrap: Callable[..., Any]) -> Any:
    """Returns `filters` or `scorers`; terms that are separate objects are called through the host as well."""

    def method(self: Plugin) -> list[Any]:
        terms = caller.call("terms", partial(ask, self))
        return [term if term is self else wrap(caller, term) for term in terms]

    return method


class _HostedFilter(NodeFilter):
    """A filter that a third-party plugin returned from `filters`."""

    def __init__(self, caller: _Caller, term: NodeFilter) -> None:
        self._caller, self._term = caller, term
        self.term, self.scope = term.term, term.scope  # type: ignore[misc]
        self.columns_only, self.capacity = term.columns_only, term.capacity  # type: ignore[misc]
        self.constraints_only = term.constraints_only  # type: ignore[misc]

    def batch(self, task: Task) -> Batch:
        return Batch(self._caller.call("batch", self._term.batch, task))

    def filter(self, task: Task, nodes: NodeView) -> Verdict:
        answer: Verdict = self._caller.call("filter", self._term.filter, task, nodes)
        return answer


class _HostedScorer(NodeScorer):
    """A score that a third-party plugin returned from `scorers`."""

    def __init__(self, caller: _Caller, term: NodeScorer) -> None:
        self._caller, self._term = caller, term
        self.term, self.scope = term.term, term.scope  # type: ignore[misc]
        self.columns_only, self.normalised = term.columns_only, term.normalised  # type: ignore[misc]
        self.constraints_only = term.constraints_only  # type: ignore[misc]

    def batch(self, task: Task) -> Batch:
        return Batch(self._caller.call("batch", self._term.batch, task))

    def flat(self, task: Task, nodes: NodeView) -> bool:
        return bool(self._caller.call("flat", self._term.flat, task, nodes))

    def raw(self, task: Task, nodes: NodeView) -> Floats:
        answer: Floats = self._caller.call("raw", self._term.raw, task, nodes)
        return answer

    def normalise(self, task: Task, raw: Floats, candidates: Bools) -> Floats:
        answer: Floats = self._caller.call("normalise", self._term.normalise, task, raw, candidates)
        return answer

    def span(self) -> float | None:
        span: float | None = self._caller.call("span", self._term.span)
        return span
