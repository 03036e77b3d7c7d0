"""docs/reference/commands.md: every command with its arguments and options, from click."""

from __future__ import annotations

import re
from collections.abc import Iterator

import click

from muster.cli import GROUPS, main
from reference_pages.tables import paragraph, table


def page() -> str:
    """The page."""
    lines = [
        "# Command line", "",
        *paragraph(
            "Every command with its arguments and options, as `muster COMMAND --help` shows them. "
            "[Exit codes](exit-codes.md) and the [keys of JSON answers](json.md) have pages of their own. This page is "
            "written from the code."
        ),
    ]  # fmt: skip
    context = click.Context(main, info_name="muster")
    for group, verbs in GROUPS.items():
        lines += ["", f"## {group}"]
        for verb in verbs:
            command = main.get_command(context, verb)
            assert command is not None
            lines += _command(command, verb, context)
    return "\n".join(lines) + "\n"


def _command(command: click.Command, name: str, parent: click.Context) -> Iterator[str]:
    context = click.Context(command, info_name=name, parent=parent)
    yield from ("", f"### muster {context.command_path.removeprefix('muster ')}", "")
    yield from ("```", " ".join(command.get_usage(context).removeprefix("Usage: ").split()), "```", "")
    yield _text(command.help or "")
    rows = [_option(option, context) for option in command.params if isinstance(option, click.Option)]
    if shown := [row for row in rows if row]:
        yield from ("", *table(["option", "meaning"], shown))
    if isinstance(command, click.Group):
        for sub in command.list_commands(context):
            found = command.get_command(context, sub)
            assert found is not None
            yield from _command(found, sub, context)


def _text(text: str) -> str:
    paragraphs = re.split(r"\n\s*\n", text.replace("\b", "").strip())
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)


def _option(option: click.Option, context: click.Context) -> list[str]:
    record = option.get_help_record(context)
    if record is None:
        return []
    names, meaning = record
    return [f"`{' '.join(names.split())}`", " ".join(meaning.split())]
