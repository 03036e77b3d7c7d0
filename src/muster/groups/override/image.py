"""An image's name in its parts, `[registry/]repository[:tag][@digest]`, and the changes that an overrider makes."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

__all__ = ["COMPONENTS", "OPERATORS", "Image", "changed", "parse"]

COMPONENTS = ("Registry", "Repository", "Tag")
OPERATORS = ("add", "replace", "remove")
_TAG = re.compile(r"\w[\w.-]{0,127}", re.ASCII)
_DIGEST = re.compile(r"[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,}")


@dataclass(frozen=True, slots=True)
class Image:
    """The parts; what is not there is empty."""

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
    """Only a first part with a dot or a colon, or `localhost`, is a registry: `ubuntu/nginx` has none."""
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
    """The image after an overrider; the operators and components are known to be right."""
    if component == "Registry":
        value = value.rstrip("/")
        new = {"add": image.registry + value, "replace": value, "remove": ""}[operator]
        return replace(image, registry=new)
    if component == "Repository":
        return replace(image, repository=image.repository + value if operator == "add" else value)
    if operator == "remove":
        # Karmada drops only one of the two; an image without its tag is meant to have neither.
        return replace(image, tag="", digest="")
    # The design writes a digest as @sha256:…
    value = value[1:] if value[:1] in ("@", ":") else value
    return _tagged(image, (image.tag or image.digest) + value if operator == "add" else value)


def _tagged(image: Image, value: str) -> Image:
    """Karmada: what is neither a tag nor a digest changes nothing."""
    if _TAG.fullmatch(value):
        return replace(image, tag=value, digest="")
    if _DIGEST.fullmatch(value):
        return replace(image, tag="", digest=value)
    return image
