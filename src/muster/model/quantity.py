"""Kubernetes quantities, exactly: `250m`, `1.5Gi`, `2e3`. No floating point enters; rounding is always up."""

from __future__ import annotations

import re
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache

from muster.model.meta import Quantity

# The largest amount of one resource in its internal unit: it, and the sum of a few, fit into 64 bits.
LARGEST = 2**60
# More than any quantity needs, and little enough for a hostile manifest.
_MAX_CHARS = 64
_LARGEST_EXPONENT = 64
_MAX_SHORT = 6  # digits that people read at a glance

_NUMBER = re.compile(r"([+-]?)(\d+\.?\d*|\.\d+)(?:(Ki|Mi|Gi|Ti|Pi|Ei|[numkMGTPE])|[eE]([+-]?\d+))?", re.ASCII)
_WHOLE_DIGITS = 18  # of a number in an annotation or a name
_FACTOR: dict[str | None, Fraction | int] = {
    None: 1,
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 10**3),
    "k": 10**3,
    "M": 10**6,
    "G": 10**9,
    "T": 10**12,
    "P": 10**15,
    "E": 10**18,
    "Ki": 2**10,
    "Mi": 2**20,
    "Gi": 2**30,
    "Ti": 2**40,
    "Pi": 2**50,
    "Ei": 2**60,
}
_EXAMPLES = "write a number such as 2, 500m or 1Gi"
_MAX_KEPT = 4096  # quantities whose numbers are kept: with own requests for each pod they would be many, and of no use
_BINARY = ("Ei", "Pi", "Ti", "Gi", "Mi", "Ki")


class QuantityError(ValueError):
    """Raised for an invalid quantity, with the fix. The caller that knows the field adds its path."""

    def __init__(self, message: str, fix: str = "") -> None:
        self.message = message
        self.fix = fix
        super().__init__(f"{message}: {fix}" if fix else message)


def parse(value: Quantity) -> Fraction | int:
    """Returns the number of a quantity, an int if it is whole. It may be negative: the caller decides about that."""
    if isinstance(value, bool):
        raise QuantityError(f"{str(value).lower()} is not a quantity", _EXAMPLES)
    if isinstance(value, int):
        return value
    text = value if isinstance(value, str) else repr(value)
    match = _NUMBER.fullmatch(text) if len(text) <= _MAX_CHARS else None
    if match is None:
        raise _not_a_quantity(text)
    sign, digits, suffix, exponent = match.groups()
    factor = _FACTOR[suffix]
    if exponent is None and isinstance(factor, int) and digits.isdigit():
        return int(sign + digits if sign else digits) * factor
    number = Fraction(digits)
    if exponent is not None:
        power = int(exponent)
        if abs(power) > _LARGEST_EXPONENT:
            raise QuantityError(f"{text!r} is out of range", f"the exponent may be {_LARGEST_EXPONENT} at most")
        number *= Fraction(10) ** power
    else:
        number *= factor
    if sign == "-":
        number = -number
    return number.numerator if number.denominator == 1 else number


def _not_a_quantity(text: str) -> QuantityError:
    shown = repr(text) if len(text) <= _MAX_CHARS else f"{text[:20]!r}…"
    if re.fullmatch(r"[\d.]+\s*K", text):
        fix = "the suffix for thousand is k, for 1024 it is Ki"
    elif re.fullmatch(r"[\d.]+\s*[KMGTP]i?B", text, re.IGNORECASE):
        fix = "leave out the B, and use Ki, Mi, Gi or k, M, G"
    else:
        fix = _EXAMPLES
    return QuantityError(f"{shown} is not a quantity", fix)


@lru_cache(maxsize=_MAX_KEPT)
def units(value: Quantity) -> int:
    """Returns the quantity in whole units (bytes, pods), rounded up."""
    return _within(_ceiling(parse(value)), value)


@lru_cache(maxsize=_MAX_KEPT)
def milli(value: Quantity) -> int:
    """Returns the quantity in thousandths, rounded up."""
    if isinstance(value, str) and value.endswith("m") and value[:-1].isascii() and value[:-1].isdigit():
        return _within(int(value[:-1]) if len(value) <= _MAX_CHARS else LARGEST + 1, value)
    return _within(_ceiling(parse(value) * 1000), value)


def whole(text: str) -> int | None:
    """Returns the whole number in the text of an annotation or a name; None if it is none or out of range."""
    digits = text.removeprefix("-")
    return int(text) if digits.isdigit() and digits.isascii() and len(digits) <= _WHOLE_DIGITS else None


def _ceiling(number: Fraction | int) -> int:
    return number if isinstance(number, int) else -(-number.numerator // number.denominator)


def _within(amount: int, value: Quantity) -> int:
    if abs(amount) > LARGEST:
        raise QuantityError(f"{value!r} is out of range", "leave it out if no limit is meant")
    return amount


def canonical(name: str, amount: int) -> str:
    """Formats an amount of the resource `name`, given in muster's internal unit, exactly, as in a manifest."""
    if name == "memory":
        return _bytes(amount)
    if name == "pods":
        return str(amount)
    if amount % 1000:
        return f"{amount}m"
    whole = amount // 1000
    return _bytes(whole) if name == "ephemeral-storage" or name.startswith("hugepages-") else str(whole)


def exact(name: str, amount: float) -> str:
    """Formats an amount of the resource `name` as a quantity without rounding, also one that is not whole."""
    if amount == int(amount):
        return canonical(name, int(amount))
    return f"{Decimal(amount):f}{'' if name in ('memory', 'pods') else 'm'}"


def display(name: str, amount: float) -> str:
    """Formats an amount for people: as in a manifest (`500m`, `1536Mi`) if that is short, else rounded."""
    if amount == int(amount):
        text = canonical(name, int(amount))
        if len(text.rstrip("KMGTPEim")) <= _MAX_SHORT:
            return text
    return rounded(name, amount)


def rounded(name: str, amount: float) -> str:
    """Formats an amount of the resource `name`, rounded to six digits: cores, bytes, whole devices."""
    if name == "memory":
        return _rounded_bytes(amount)
    if name == "pods":
        return _rounded(amount)
    if name == "ephemeral-storage" or name.startswith("hugepages-"):
        return _rounded_bytes(amount / 1000)
    return _rounded(amount / 1000)


def _rounded_bytes(amount: float) -> str:
    for suffix in _BINARY:
        size = int(_FACTOR[suffix])
        if abs(amount) >= size:
            return f"{amount / size:.6g}{suffix}"
    return _rounded(amount)


def _rounded(amount: float) -> str:
    return f"{amount:.6g}" if abs(amount) < 1e6 else f"{amount:.0f}"


def _bytes(amount: int) -> str:
    if amount:
        for suffix in _BINARY:
            whole, rest = divmod(amount, int(_FACTOR[suffix]))
            if rest == 0:
                return f"{whole}{suffix}"
    return str(amount)
