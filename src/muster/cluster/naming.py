"""Names that look like Kubernetes' and are the same every time."""

from __future__ import annotations

import hashlib

import msgspec

from muster.model.core import PodTemplateSpec

# Kubernetes: the letters of generated names, without vowels and look-alikes.
_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
_encode = msgspec.json.Encoder(order="sorted").encode
# Kubernetes: a generated name has at most 63 characters.
_LONGEST = 63
TEMPLATE_HASH = "pod-template-hash"


def letters(seed: str, count: int = 5) -> str:
    """So many letters that depend on nothing but the seed."""
    number = int.from_bytes(hashlib.blake2b(seed.encode(), digest_size=8).digest(), "big")
    found = []
    for _ in range(count):
        number, place = divmod(number, len(_LETTERS))
        found.append(_LETTERS[place])
    return "".join(found)


def generated(prefix: str, seed: str) -> str:
    """`prefix` with five letters after it."""
    return f"{prefix[: _LONGEST - 6]}-{letters(seed)}"


def template_hash(template: PodTemplateSpec) -> str:
    """Letters for a pod template; a hash it carries already does not count."""
    plain = msgspec.to_builtins(template)
    plain.get("metadata", {}).get("labels", {}).pop(TEMPLATE_HASH, None)
    return letters(_encode(plain).decode(), 9)
