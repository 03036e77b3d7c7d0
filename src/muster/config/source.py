"""Finding the configuration in what was given: a ``scheduler.yaml`` itself, or the ConfigMap that carries one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from muster.model.yamltext import Document, YamlError, load_all

__all__ = ["Source", "find_configuration", "key_of_configuration"]

SHAPE = "a mapping with `actions` and `tiers`"


@dataclass(frozen=True)
class Source:
    """The configuration's top-level mapping, and the line in the file for each path in it."""

    value: dict[str, Any]
    name: str
    line_of: Callable[[Sequence[str | int]], int]


def find_configuration(text: str, name: str) -> Source:
    """The configuration in a text; ``YamlError`` says what is there instead."""
    documents = load_all(text, name)
    if not documents:
        raise YamlError(name, 1, f"the configuration is empty: it should be {SHAPE}")
    for document in documents:
        if isinstance(document.value, dict) and document.value.get("kind") == "ConfigMap":
            return _unwrap(document, text, name)
    if len(documents) > 1:
        raise YamlError(name, documents[1].line, "a configuration is one document: remove what follows the first")
    document = documents[0]
    return Source(_mapping(document, name, document.line), name, document.line_of)


def key_of_configuration(keys: Iterable[str]) -> str:
    """Volcano: a ConfigMap has the configuration under a key that ends in .conf. Empty if there is none."""
    return min((key for key in keys if key.endswith(".conf")), default="")


def _unwrap(config_map: Document, text: str, name: str) -> Source:
    data = config_map.value.get("data")
    key = key_of_configuration(data) if isinstance(data, dict) else ""
    if not key:
        raise YamlError(name, config_map.line, "the ConfigMap has no key that ends in .conf under `data`")
    at = config_map.line_of(("data", key))
    inner = data[key]
    if not isinstance(inner, str):
        raise YamlError(name, at, f"{key} should be a text: write `{key}: |` and indent the configuration below it")
    # In a block (`|`) the text stands line by line under its key; in quotes its lines are not to be found again.
    lines = [line.strip() for line in inner.split("\n")]
    below = [line.strip() for line in text.split("\n")[at : at + len(lines)]]
    in_block = all(a == b for a, b in zip(lines, below, strict=False) if a)

    def outer(line: int) -> int:
        return at + line if in_block else at

    try:
        documents = load_all(inner, name)
    except YamlError as error:
        raise YamlError(name, outer(error.line), f"in {key}: {error.message}") from None
    if not documents:
        raise YamlError(name, at, f"{key} is empty: it should be {SHAPE}")
    document = documents[0]
    return Source(_mapping(document, name, outer(document.line)), name, lambda path: outer(document.line_of(path)))


def _mapping(document: Document, name: str, line: int) -> dict[str, Any]:
    value = document.value
    if not isinstance(value, dict):
        raise YamlError(name, line, f"the configuration should be {SHAPE}, not {_kind(value)}")
    kind = value.get("kind")
    if isinstance(kind, str) and "actions" not in value and "tiers" not in value:
        raise YamlError(name, line, f"this is a manifest of kind {kind}, not a configuration: it should be {SHAPE}")
    return value


def _kind(value: object) -> str:
    if isinstance(value, list):
        return "a list"
    return f"the single value {value!r}"
