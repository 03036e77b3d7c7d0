"""Turns the names of a trace into names that Kubernetes accepts, without collisions."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from hashlib import sha256

__all__ = ["job_names", "label_value", "valid_names"]

MAX_NAME_CHARS = 63
MAX_JOB_NAME_CHARS = 52  # the name of a pod adds a number
_HASH_DIGITS = 8
_VALID = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_NOT_IN_NAMES = re.compile(r"[^a-z0-9]+")
_NOT_IN_LABELS = re.compile(r"[^A-Za-z0-9._-]+")


def valid_names(originals: Iterable[str], kind: str, most: int = MAX_NAME_CHARS) -> dict[str, str]:
    """Returns a DNS label for each distinct original; different originals get different names.

    A valid name is kept. Another one is written in lower case with hyphens; if two would then be the same, a hash of
    the original is added to those that were changed. `kind` is the name of an original that has no usable character.
    The result does not depend on the order.
    """
    distinct = sorted(set(originals))
    plain = {original: _plain(original, most) or kind for original in distinct}
    count: dict[str, int] = {}
    for name in plain.values():
        count[name] = count.get(name, 0) + 1
    names = {original: name for original, name in plain.items() if original == name or count[name] == 1}
    taken = set(names.values())
    for original in distinct:
        if original not in names:
            names[original] = _hashed(original, plain[original], most, taken)
            taken.add(names[original])
    return names


def job_names(originals: Sequence[str]) -> list[str]:
    """Returns a unique name for each job: a number is added to a name that occurs again; "" gets a numbered name."""
    names = valid_names((name for name in originals if name), "job", MAX_JOB_NAME_CHARS)
    taken = set(names.values())
    occurred: dict[str, int] = {}
    made: list[str] = []
    for i, original in enumerate(originals):
        name = unique = names[original] if original else f"job-{i:06d}"
        number = occurred.get(name, 0) + 1 if original else 1
        if number > 1 or (not original and name in taken):
            number = max(number, 2)
            while (unique := f"{name[: MAX_JOB_NAME_CHARS - 8]}-{number}") in taken:
                number += 1
            taken.add(unique)
        if original:
            occurred[name] = number
        made.append(unique)
    return made


def label_value(text: str) -> str:
    """Returns a valid label value, as NVIDIA's feature discovery writes GPU models: hyphens instead of blanks."""
    return _NOT_IN_LABELS.sub("-", text)[:MAX_NAME_CHARS].strip("-._")


def _plain(original: str, most: int) -> str:
    if len(original) <= most and _VALID.fullmatch(original):
        return original
    return _NOT_IN_NAMES.sub("-", original.lower()).strip("-")[:most].rstrip("-")


def _hashed(original: str, plain: str, most: int, taken: set[str]) -> str:
    digits = sha256(original.encode(errors="surrogatepass")).hexdigest()
    length = _HASH_DIGITS
    while True:
        name = f"{plain[: most - length - 1].rstrip('-')}-{digits[:length]}"
        if name not in taken:
            return name
        length += 1
