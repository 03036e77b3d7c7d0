"""Loads the configuration of a command: that of -c, else the one that a snapshot or the live cluster names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from muster.cli.reading import BadInput, config_text, print_findings
from muster.model.finding import InputError

if TYPE_CHECKING:
    from muster.cycle.scheduler import Scheduler
    from muster.engine.core.state import Objects
    from muster.sim.inputs import ConfigText, LoadedConfig


def config_from_flag(config: str | None) -> ConfigText | None:
    """Reads the configuration of -c. It is read before everything else, because it has precedence."""
    from muster.sim.inputs import ConfigText

    return None if config is None else ConfigText(config_text(config), config)


def config_from_objects(objects: Objects, scheduler_names: Sequence[str]) -> ConfigText:
    """Returns the configuration that the snapshot or the live cluster names, else the built-in default."""
    from muster.sim.inputs import config_for

    try:
        return config_for(objects, scheduler_names)
    except InputError as fault:
        raise BadInput(f"muster: {fault}") from None


def scheduler_of(config: str | None) -> Scheduler:
    """Builds a scheduler with the configuration of -c, or with the built-in one."""
    from muster.sim.inputs import default_config

    return load_and_report(config_from_flag(config) or default_config()).scheduler


def load_and_report(text: ConfigText) -> LoadedConfig:
    """Builds a scheduler with that configuration; prints what the loader and the plugins find on stderr."""
    from muster.sim.inputs import load_config

    try:
        loaded = load_config(text)
    except InputError as fault:
        print_findings(fault.findings)
        raise BadInput(f"muster: {fault.message}") from None
    print_findings(loaded.findings)
    warn(loaded)
    return loaded


def warn(loaded: LoadedConfig) -> None:
    """Prints the warnings of a configuration on stderr."""
    for warning in loaded.warnings:
        click.echo(f"warning: {warning}", err=True)
