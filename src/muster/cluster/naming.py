"""Generates names like those of Kubernetes, but deterministic."""

from __future__ import annotations

import hashlib

import msgspec

from muster.model.core import PodTemplateSpec

# Kubernetes: the letters of generated names, without vowels and look-alikes.
_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
_encode = msgspec.json.Encoder(order="sorted").encode
# Kubernetes: a generated name has at most 63 characters.
_MAX_NAME_CHARS = 63
TEMPLATE_HASH = "pod-template-hash"


def letters(seed: str, count: int = 5) -> str:
    """Returns letters that depend only on the seed."""
    number = int.from_bytes(hashlib.blake2b(seed.encode(), digest_size=8).digest(), "big")
    found = []
    for _ in range(count):
        number, place = divmod(number, len(_LETTERS))
        found.append(_LETTERS[place])
    return "".join(found)


def generated(prefix: str, seed: str) -> str:
    """Returns `prefix` followed by five letters."""
    return f"{prefix[: _MAX_NAME_CHARS - 6]}-{letters(seed)}"


def template_hash(template: PodTemplateSpec) -> str:
    """Returns the hash of a pod template; a hash label in it is ignored."""
    plain = msgspec.to_builtins(template)
    plain.get("metadata", {}).get("labels", {}).pop(TEMPLATE_HASH, None)
    return letters(_encode(plain).decode(), 9)
