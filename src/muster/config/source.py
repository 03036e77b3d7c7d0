"""Finds the configuration in a text: a ``scheduler.yaml`` itself, or a ConfigMap that contains one."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from muster.model.core import ConfigMap
from muster.model.yamltext import Document, YamlError, load_all

__all__ = ["NoConfiguration", "ConfigSource", "content_of", "find_configuration", "key_of_configuration"]

SHAPE = "a mapping with `actions` and `tiers`"
_KEYS = ("actions", "tiers")
LineOf = Callable[[Sequence[str | int]], int]


class ConfigSource(Struct, frozen=True):
    """The top-level mapping of a configuration, and the line in the file for each path in it."""

    value: dict[str, Any]
    name: str
    line_of: LineOf


def find_configuration(text: str, name: str) -> ConfigSource:
    """Returns the configuration in a text; raises ``YamlError`` with what the text contains instead."""
    documents = load_all(text, name)
    if not documents:
        raise YamlError(name, 1, f"the configuration is empty: it should be {SHAPE}")
    maps = list(_config_maps(documents))
    if maps:
        # The other ConfigMaps of a release (admission, dashboard) contain something else.
        config_map = max(maps, key=lambda one: _holds_configuration(one.data))
        return _unwrap(config_map, text, name)
    if len(documents) > 1:
        for document in documents:
            _refuse_manifest(document.value, name, document.line)
        raise YamlError(name, documents[1].line, "a configuration is one document: remove what follows the first")
    document = documents[0]
    return ConfigSource(_mapping(document, name, document.line), name, document.line_of)


def key_of_configuration(data: Mapping[str, object]) -> str:
    """Returns the key of a ConfigMap's data that has the configuration; empty if there is none.

    Volcano takes a key that ends in .conf. If there are several, the key whose text is a configuration is used.
    """
    keys = [key for key in data if isinstance(key, str) and (key.endswith(".conf") or _is_configuration(data[key]))]
    return min(keys, key=lambda key: (not _is_configuration(data[key]), not key.endswith(".conf"), key), default="")


class NoConfiguration(Exception):
    """Raised for a ConfigMap without a configuration; the message has the reason."""


def content_of(there: ConfigMap, key: str = "") -> bytes:
    """Returns the configuration in a ConfigMap of the cluster, under this key or a key that ends in .conf."""
    keys = [*there.data, *there.binary_data]
    named = key or key_of_configuration({**dict.fromkeys(keys, ""), **there.data})
    if named in there.data:
        return there.data[named].encode()
    if named in there.binary_data:  # where clients of the API server put data that is not text
        try:
            return base64.b64decode(there.binary_data[named])
        except binascii.Error:
            raise NoConfiguration(f"{named} is no base64") from None
    has = f"it has {', '.join(sorted(keys))}" if keys else "it is empty"
    raise NoConfiguration(f"the ConfigMap has no key {key or 'that ends in .conf'}: {has}")


class _ConfigMap(Struct, frozen=True):
    data: Mapping[str, Any]
    line: int
    line_of: LineOf


def _config_maps(documents: Sequence[Document]) -> Iterator[_ConfigMap]:
    """Yields the ConfigMaps of all documents, including those in a List (`kubectl get -o yaml`)."""
    for document in documents:
        items = document.value.get("items") if isinstance(document.value, dict) else None
        found: list[tuple[tuple[str | int, ...], object]] = [((), document.value)]
        if isinstance(items, list):
            found = [(("items", i), item) for i, item in enumerate(items)]
        for at, value in found:
            if isinstance(value, dict) and value.get("kind") == "ConfigMap":
                data = value.get("data")
                yield _ConfigMap(data if isinstance(data, dict) else {}, *_place(document, at))


def _place(document: Document, at: tuple[str | int, ...]) -> tuple[int, LineOf]:
    return document.line_of(at) if at else document.line, lambda path: document.line_of((*at, *path))


def _holds_configuration(data: Mapping[str, Any]) -> tuple[bool, bool]:
    """Returns a rank: higher if the ConfigMap has a configuration, lower if only a key for a configuration."""
    key = key_of_configuration(data)
    return bool(key) and _is_configuration(data[key]), bool(key)


def _is_configuration(text: object) -> bool:
    if not isinstance(text, str) or not any(key in text for key in _KEYS):
        return False
    try:
        documents = load_all(text, "")
    except YamlError:
        return False
    return bool(documents) and isinstance(documents[0].value, dict) and any(key in documents[0].value for key in _KEYS)


def _unwrap(config_map: _ConfigMap, text: str, name: str) -> ConfigSource:
    data = config_map.data
    key = key_of_configuration(data)
    if not key:
        has = f"it has {', '.join(sorted(map(str, data)))}" if data else "it is empty"
        message = f"the ConfigMap has no key that ends in .conf and none with `actions` under `data`: {has}"
        raise YamlError(name, config_map.line, message)
    at = config_map.line_of(("data", key))
    inner = data[key]
    if not isinstance(inner, str):
        raise YamlError(name, at, f"{key} should be a text: write `{key}: |` and indent the configuration below it")
    # A block (`|`) has the text line by line under its key; of a quoted text the lines are not known.
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
    mapping = _mapping(document, name, outer(document.line))
    return ConfigSource(mapping, name, lambda path: outer(document.line_of(path)))


def _mapping(document: Document, name: str, line: int) -> dict[str, Any]:
    value = document.value
    if not isinstance(value, dict):
        raise YamlError(name, line, f"the configuration should be {SHAPE}, not {_kind(value)}")
    _refuse_manifest(value, name, line)
    return value


def _refuse_manifest(value: object, name: str, line: int) -> None:
    kind = value.get("kind") if isinstance(value, dict) else None
    if not isinstance(value, dict) or not isinstance(kind, str) or any(key in value for key in _KEYS):
        return
    if kind == "KubeSchedulerConfiguration":
        raise YamlError(name, line, f"this is the configuration of kube-scheduler; muster's is {SHAPE}")
    article = "an" if kind[:1] in "AEIO" else "a"
    raise YamlError(name, line, f"this is {article} {kind} manifest, not a configuration: give it with -f")


def _kind(value: object) -> str:
    if isinstance(value, list):
        return "a list"
    return f"the single value {value!r}"
