"""Image references, `[registry/]repository[:tag][@digest]`: parsing, the changes of an overrider, and the grammar that
container runtimes accept."""

from __future__ import annotations

import re

from msgspec import Struct
from msgspec.structs import replace

__all__ = ["COMPONENTS", "OPERATORS", "Image", "bad_value", "changed", "parse", "unusable"]

COMPONENTS = ("Registry", "Repository", "Tag")
OPERATORS = ("add", "replace", "remove")
_TAG = re.compile(r"\w[\w.-]{0,127}", re.ASCII)
_DIGEST = re.compile(r"[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,}")
_DIGITS = {"sha256": 64, "sha384": 96, "sha512": 128}
_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?"
_HOST = re.compile(rf"(?:{_LABEL}(?:\.{_LABEL})*|\[[0-9a-fA-F:]+\])(?::[0-9]+)?")
_WORD = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_REPOSITORY = re.compile(rf"{_WORD}(?:/{_WORD})*")
_PIECE = re.compile(r"[A-Za-z0-9._:/@+\[\]-]+")
_MAX_NAME_CHARS = 255


class Image(Struct, frozen=True):
    """The components of an image reference; absent components are empty."""

    registry: str
    repository: str
    tag: str = ""
    digest: str = ""

    def __str__(self) -> str:
        front = f"{self.registry}/" if self.registry else ""
        tag = f":{self.tag}" if self.tag else ""
        digest = f"@{self.digest}" if self.digest else ""
        return f"{front}{self.repository}{tag}{digest}"


def parse(text: str) -> Image:
    """Parses a reference. Only a first component with a dot or a colon, or `localhost`, is a registry."""
    name, _, digest = text.partition("@")
    tag = ""
    colon = name.rfind(":")
    if colon > name.rfind("/"):
        name, tag = name[:colon], name[colon + 1 :]
    first, slash, rest = name.partition("/")
    if slash and ("." in first or ":" in first or first == "localhost"):
        return Image(first, rest, tag, digest)
    return Image("", name, tag, digest)


def changed(image: Image, component: str, operator: str, value: str) -> Image:
    """The image after an overrider, whose operator and component must be valid."""
    if component == "Registry":
        value = value.rstrip("/")
        new = {"add": image.registry + value, "replace": value, "remove": ""}[operator]
        return replace(image, registry=new)
    if component == "Repository":
        return replace(image, repository=image.repository + value if operator == "add" else value)
    if operator == "remove":
        # Karmada drops only one of the two; an image without its tag should have neither.
        return replace(image, tag="", digest="")
    # The design writes a digest as @sha256:…
    value = value[1:] if value[:1] in ("@", ":") else value
    return _tagged(image, (image.tag or image.digest) + value if operator == "add" else value)


def _tagged(image: Image, value: str) -> Image:
    """Karmada: a value that is neither a tag nor a digest changes nothing."""
    if _TAG.fullmatch(value):
        return replace(image, tag=value, digest="")
    if _DIGEST.fullmatch(value):
        return replace(image, tag="", digest=value)
    return image


# --- validation


def unusable(reference: str) -> str:
    """Why a container runtime does not accept the reference; empty: it does."""
    found = parse(reference)
    if "@" in reference and not _is_digest(found.digest):
        return f"{found.digest!r} is not a digest (ALGORITHM:HEX)"
    if not found.digest and "@" not in reference and reference.endswith(":"):
        return "the tag after : is empty"
    if found.tag and not _TAG.fullmatch(found.tag):
        return f"{found.tag!r} is not a tag (at most 128 letters, digits, _ . -; not . or - first)"
    if found.registry and not _HOST.fullmatch(found.registry):
        return f"{found.registry!r} is not a registry (HOST[:PORT])"
    if not _REPOSITORY.fullmatch(found.repository):
        return f"{found.repository!r} is not a repository (lower case letters, digits, and . _ - between them, by /)"
    if len(found.registry) + len(found.repository) > _MAX_NAME_CHARS:
        return f"the name is longer than {_MAX_NAME_CHARS} characters"
    return ""


def bad_value(component: str, operator: str, value: str) -> str:
    """Why no image can have the value of an overrider; empty: one can. Added values are checked with the result."""
    if operator == "add":
        return "" if _PIECE.fullmatch(value) else f"{value!r} has characters that no image has"
    if component == "Registry":
        host, slash, path = value.rstrip("/").partition("/")
        fits = _HOST.fullmatch(host) and (not slash or _REPOSITORY.fullmatch(path))
        return "" if fits else f"{value!r} is not a registry (HOST[:PORT][/PATH])"
    if component == "Repository":
        return "" if _REPOSITORY.fullmatch(value) else f"{value!r} is not a repository (lower case, parts by /)"
    text = value[1:] if value[:1] in ("@", ":") else value
    return "" if _TAG.fullmatch(text) or _is_digest(text) else f"{value!r} is neither a tag nor a digest"


def _is_digest(text: str) -> bool:
    algorithm, _, number = text.partition(":")
    return bool(_DIGEST.fullmatch(text)) and len(number) == _DIGITS.get(algorithm, len(number))
