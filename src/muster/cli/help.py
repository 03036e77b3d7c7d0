"""What `--help` shows: complete sentences, commands by group, and an example of each command."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import click

MAX_SENTENCE_CHARS = 1_000  # click cuts the sentence about a command at this number of characters


class Command(click.Command):
    """A command with an example: a line that a user can type."""

    def __init__(self, *args: Any, example: str, **others: Any) -> None:
        super().__init__(*args, **others)
        self.example = example

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        super().format_help_text(ctx, formatter)
        write_examples(formatter, [self.example])


class Group(click.Group):
    """A command with subcommands, which its help shows with a complete sentence each."""

    command_class = Command

    def __init__(self, *args: Any, example: str = "", **others: Any) -> None:
        super().__init__(*args, **others)
        self.example = example

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        super().format_help_text(ctx, formatter)
        write_examples(formatter, [self.example])

    def sections(self) -> Mapping[str, Iterable[str]]:
        """Returns the headings of the help with the commands below each."""
        return {"Commands": self.commands}

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        sections = self.sections()
        widest = max(len(name) for names in sections.values() for name in names)
        for heading, names in sections.items():
            found = ((name, self.get_command(ctx, name)) for name in names)
            rows = [
                (name.ljust(widest), command.get_short_help_str(MAX_SENTENCE_CHARS))
                for name, command in found if command is not None
            ]  # fmt: skip
            with formatter.section(heading):
                formatter.write_dl(rows)


def write_examples(formatter: click.HelpFormatter, examples: Iterable[str]) -> None:
    """Writes commands as they are typed: they are not wrapped."""
    lines = [line for line in examples if line]
    if lines:
        with formatter.section("Example" if len(lines) == 1 else "Examples"):
            for line in lines:
                formatter.write(f"{'':>{formatter.current_indent}}{line}\n")
