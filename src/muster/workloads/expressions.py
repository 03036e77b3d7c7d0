"""The expressions of a description: JMESPath over the workload, and texts with expressions in braces."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import jmespath
from jmespath import functions
from jmespath.exceptions import JMESPathError
from jmespath.visitor import Options

__all__ = ["BadExpression", "Expression", "TextTemplate", "Variables"]

Variables = Mapping[str, Any]
"""The workload's apiVersion, kind, metadata and spec, and the variables of a pod set: item, key, gang, copy, index."""

_IN_BRACES = re.compile(r"\{([^{}]*)\}")
_PLAIN_PATH = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*")


class BadExpression(ValueError):
    """The text is not a valid expression; the message gives the reason."""


class _Functions(functions.Functions):
    """The functions of JMESPath, and a few that templates of operators need."""

    @functions.signature({"types": ["string"]})
    def _func_lower(self, text: str) -> str:
        return text.lower()

    @functions.signature({"types": ["string", "null"]}, {"types": []})
    def _func_map_of(self, key: str | None, value: Any) -> dict[str, Any] | None:
        """Returns a map with one key that is not known beforehand; null without a key."""
        return None if key is None else {key: value}

    @functions.signature({"types": ["string"]}, {"types": ["string"]})
    def _func_jvm_memory(self, memory: str, overhead: str) -> str:
        """Returns the memory of a Spark pod as a quantity: that of its JVM (512m, 4g) and the overhead."""
        heap = _mebibytes(memory)
        # Spark: a tenth of the heap, at least 384 MiB.
        return f"{heap + (_mebibytes(overhead) if overhead else max(heap // 10, 384))}Mi"


_OPTIONS = Options(custom_functions=_Functions())


class Expression:
    """A JMESPath expression. One that ends in `?` may find nothing."""

    # Not a dataclass: msgspec would read a dataclass from a map and not from a text.
    __slots__ = ("_compiled", "optional", "text")

    def __init__(self, text: str) -> None:
        """Raises BadExpression if the text is no expression."""
        self.text = text
        self.optional = text.rstrip().endswith("?")
        try:
            self._compiled = jmespath.compile(text.rstrip().removesuffix("?"))
        except JMESPathError as fault:
            raise BadExpression(f"{text!r} is not a JMESPath expression: {str(fault).splitlines()[0]}") from None

    def find(self, variables: Variables) -> Any:
        """Returns what the expression finds; None if it finds nothing. Raises BadExpression if it cannot be applied."""
        try:
            return self._compiled.search(variables, options=_OPTIONS)
        except (JMESPathError, ArithmeticError, RecursionError, TypeError) as fault:
            raise BadExpression(f"{self.text!r} cannot be applied: {str(fault).splitlines()[0]}") from None

    @property
    def path(self) -> tuple[str, ...] | None:
        """The steps of a plain path such as spec.template; None for any other expression."""
        return tuple(self.text.split(".")) if _PLAIN_PATH.fullmatch(self.text) else None


class TextTemplate:
    """A text in which every `{expression}` is replaced by what it finds."""

    __slots__ = ("_parts", "text")

    def __init__(self, text: str) -> None:
        """Raises BadExpression if the content of a pair of braces is no expression."""
        self.text = text
        # re.split alternates between literal text and the content of braces.
        self._parts = [Expression(part) if i % 2 else part for i, part in enumerate(_IN_BRACES.split(text))]

    def fill(self, variables: Variables) -> str:
        """Returns the text. Raises BadExpression if an expression in it finds nothing."""
        return "".join(part if isinstance(part, str) else self._found(part, variables) for part in self._parts)

    def _found(self, part: Expression, variables: Variables) -> str:
        value = part.find(variables)
        if isinstance(value, bool) or not isinstance(value, str | int):
            raise BadExpression(f"{part.text!r} in {self.text!r} finds {_shown(value)}, not a name or a number")
        return str(value)


def _mebibytes(text: str) -> int:
    """Reads a size as Java writes it: the unit is a letter, with or without a b, and defaults to MiB."""
    match = re.fullmatch(r"(\d+)([kmgt]?)b?", text.strip().lower())
    if match is None:
        raise TypeError(f"{text!r} is not a size of memory such as 512m or 4g")
    number = int(match[1])
    return number // 1024 if match[2] == "k" else number * {"": 1, "m": 1, "g": 1024, "t": 1024**2}[match[2]]


def _shown(value: object) -> str:
    return "nothing" if value is None else f"a {type(value).__name__}"
