"""Writes plain values as YAML text that `yamltext` reads back as the same values."""

from __future__ import annotations

from typing import Any

import yaml

from muster.model.yamlscalar import resolve

__all__ = ["dump", "dump_all"]


class _Writer(yaml.CSafeDumper):
    """PyYAML's writer; it quotes texts that would be read as something else and never writes an alias."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _text(writer: _Writer, text: str) -> yaml.ScalarNode:
    style = None
    if not isinstance(resolve(text), str):
        style = '"'
    elif "\n" in text and not any(line.endswith((" ", "\t")) for line in text.splitlines()):
        style = "|"
    return writer.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Writer.add_representer(str, _text)


def dump(value: Any) -> str:
    """One value, its keys in the order given."""
    return dump_all([value])


def dump_all(values: list[Any]) -> str:
    """Several documents."""
    text: str = yaml.dump_all(
        values, Dumper=_Writer, sort_keys=False, allow_unicode=True, width=2**20, explicit_start=len(values) > 1
    )
    return text
