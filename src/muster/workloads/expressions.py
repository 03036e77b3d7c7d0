"""The expressions of a description: JMESPath over the workload, and texts with expressions in braces."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Any

__all__ = ["BadExpression", "Expression", "TextTemplate", "Variables"]

Variables = Mapping[str, Any]
"""The workload's apiVersion, kind, metadata and spec, and the variables of a pod set: item and key of `each`, and the
numbers gang, copy, index (in its copy) and number (in its pod set) of a pod."""

_IN_BRACES = re.compile(r"\{([^{}]*)\}")
_PLAIN_PATH = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*")


class BadExpression(ValueError):
    """The text is not a valid expression; the message gives the reason."""


@cache
def _options() -> Any:
    """Returns the functions of JMESPath, and a few that templates of operators need."""
    from jmespath import functions
    from jmespath.visitor import Options

    class Functions(functions.Functions):
        @functions.signature({"types": ["string"]})
        def _func_lower(self, text: str) -> str:
            return text.lower()

        @functions.signature({"types": ["string", "null"]}, {"types": []})
        def _func_map_of(self, key: str | None, value: Any) -> dict[str, Any] | None:
            """Returns a map with one key that is not known beforehand; null without a key."""
            return None if key is None else {key: value}

        @functions.signature({"types": ["string"]}, {"types": ["string"]}, {"types": ["string", "number"]})
        def _func_jvm_memory(self, memory: str, overhead: str, factor: str | float) -> str:
            """Returns the memory of a Spark pod as a quantity: that of its JVM (512m, 4g) and the overhead, which is
            given or so large a part of the former."""
            heap = _mebibytes(memory)
            # Spark: at least 384 MiB.
            return f"{heap + (_mebibytes(overhead) if overhead else max(int(heap * float(factor)), 384))}Mi"

    return Options(custom_functions=Functions())


class Expression:
    """A JMESPath expression. One that ends in `?` may find nothing."""

    # Not a dataclass: msgspec would read a dataclass from a map and not from a text.
    __slots__ = ("_compiled", "optional", "path", "text")

    def __init__(self, text: str) -> None:
        """Raises BadExpression if the text is no expression."""
        import jmespath  # only inputs with described kinds need it
        from jmespath.exceptions import JMESPathError

        self.text = text
        self.optional = text.rstrip().endswith("?")
        inner = text.rstrip().removesuffix("?")
        # The steps of a plain path such as spec.template; None for any other expression.
        self.path = tuple(inner.split(".")) if _PLAIN_PATH.fullmatch(inner) else None
        try:
            self._compiled = jmespath.compile(inner)
        except JMESPathError as fault:
            reason = str(fault).splitlines()[0].removeprefix("Invalid jmespath expression: ").rstrip(": ")
            raise BadExpression(f"{text!r} is not a JMESPath expression: {reason}") from None

    def find(self, variables: Variables) -> Any:
        """Returns what the expression finds; None if it finds nothing. Raises BadExpression if it cannot be applied."""
        if self.path is not None:  # most expressions of a pod; it saves a third of the time
            found: Any = variables
            for step in self.path:
                found = found.get(step) if isinstance(found, dict) else None
            return found
        from jmespath.exceptions import JMESPathError

        try:
            return self._compiled.search(variables, options=_options())
        except (JMESPathError, ArithmeticError, RecursionError, TypeError, ValueError) as fault:
            raise BadExpression(f"{self.text!r} cannot be applied: {str(fault).splitlines()[0]}") from None


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
    match = re.fullmatch(r"(\d+)([kmgt]?)b?", text.strip().lower(), re.ASCII)
    if match is None:
        raise TypeError(f"{text!r} is not a size of memory such as 512m or 4g")
    number = int(match[1])
    return number // 1024 if match[2] == "k" else number * {"": 1, "m": 1, "g": 1024, "t": 1024**2}[match[2]]


def _shown(value: object) -> str:
    return "nothing" if value is None else f"a {type(value).__name__}"
