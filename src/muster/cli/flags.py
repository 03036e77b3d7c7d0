"""Derives the options of a verb from its typed settings (muster.process.settings)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import MISSING, Field, fields, is_dataclass
from functools import wraps
from types import NoneType, UnionType
from typing import Annotated, Any, TypeVar, get_args, get_origin, get_type_hints

import click

from muster.process.settings import NAMESPACED, Flag, SettingError

Command = Callable[..., None]
S = TypeVar("S")


def flags(settings: type[S], part: str = "") -> Callable[[Command], Command]:
    """Adds the flags of `settings` in the order of its fields; the command gets an instance as `settings`."""

    def add(command: Command) -> Command:
        names = [_parameter(flag) for _, _, flag in _flags(settings)]

        @wraps(command)
        def gathered(**values: Any) -> None:
            given = {name: values.pop(name) for name in names}
            command(settings=_built(settings, given, part), **values)

        return options_of(settings, part)(gathered)

    return add


def options_of(settings: type[Any], part: str = "") -> Callable[[Command], Command]:
    """Adds the flags of `settings`; the command gets each as a parameter."""

    def add(command: Command) -> Command:
        for one, kind, flag in reversed(list(_flags(settings))):
            command = option(flag, kind, one, part)(command)
        return command

    return add


def option(flag: Flag, kind: Any, setting: Field[Any] | None = None, part: str = "") -> Callable[[Command], Command]:
    """Returns the click option of a flag; `kind` is the setting's type."""
    default = "" if setting is None or setting.default is MISSING else setting.default
    required = setting is not None and setting.default is MISSING and setting.default_factory is MISSING
    several = get_origin(kind) is tuple
    if isinstance(kind, UnionType):
        kind = next(one for one in get_args(kind) if one is not NoneType)
    is_flag = kind is bool and flag.metavar is None
    given: dict[str, Any] = {} if default in (None, "") else {"default": default}
    return click.option(
        *flag.names, _parameter(flag), type=None if is_flag else _type(flag, str if several else kind),
        is_flag=is_flag or None, multiple=several, required=required, metavar=flag.metavar,
        show_default=default not in (None, "", (), False),
        callback=_namespaced(flag) if flag.metavar == NAMESPACED else None,
        help=flag.help.replace("{part}", part), **given,
    )  # fmt: skip


def _flags(settings: type[Any]) -> Iterator[tuple[Field[Any], Any, Flag]]:
    hints = get_type_hints(settings, include_extras=True)
    for one in fields(settings):
        hint = hints[one.name]
        if is_dataclass(hint):
            yield from _flags(hint)  # type: ignore[arg-type]
        elif get_origin(hint) is Annotated:
            kind, flag = get_args(hint)
            yield one, kind, flag


def _built(settings: type[S], given: dict[str, Any], part: str) -> S:
    """Returns an instance with the given values; the others have their defaults."""
    hints = get_type_hints(settings, include_extras=True)
    values: dict[str, Any] = {}
    for one in fields(settings):  # type: ignore[arg-type]
        hint = hints[one.name]
        if is_dataclass(hint):
            values[one.name] = _built(hint, given, part)  # type: ignore[arg-type]
        elif get_origin(hint) is Annotated and (value := given[_parameter(get_args(hint)[1])]) is not None:
            values[one.name] = value
        elif one.name == "part":
            values[one.name] = part
    try:
        return settings(**values)
    except SettingError as why:
        raise click.UsageError(str(why)) from None


def _parameter(flag: Flag) -> str:
    """Returns the name of click's parameter."""
    long = next(name for name in flag.names if name.startswith("--"))
    return long.partition("/")[0].removeprefix("--").replace("-", "_")


def _type(flag: Flag, kind: Any) -> Any:
    if flag.is_path:
        return click.Path()
    if kind is int and flag.minimum is not None:
        return click.IntRange(int(flag.minimum), None if flag.maximum is None else int(flag.maximum))
    if kind is float and flag.minimum is not None:
        return click.FloatRange(flag.minimum, flag.maximum, min_open=flag.positive)
    return kind


def _namespaced(flag: Flag) -> Callable[[click.Context, click.Parameter, str | None], str | None]:
    def check(ctx: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
        if value is not None and value.count("/") != 1 and value not in flag.literals:
            raise click.UsageError(f"{flag.names[0]} is NAMESPACE/NAME")
        return value

    return check
