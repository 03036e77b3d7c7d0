"""The options of a part of which one replica is active at a time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

if TYPE_CHECKING:
    from muster.process.leadership import LeaseSettings

Command = Callable[..., None]


def lease(part: str) -> Callable[[Command], Command]:
    """`--leader-elect`, `--lease-name` and its times; the command gets them together as `lease`."""

    def add(command: Command) -> Command:
        @wraps(command)
        def gathered(
            *, leader_elect: bool, lease_name: str | None, lease_duration: float, lease_renew_deadline: float,
            lease_retry_period: float, identity: str | None, **others: Any,
        ) -> None:  # fmt: skip
            if not lease_duration > lease_renew_deadline > lease_retry_period:
                raise click.UsageError("--lease-duration must be longer than --lease-renew-deadline, and that longer "
                                       "than --lease-retry-period")  # fmt: skip
            if lease_name is not None and lease_name.count("/") != 1:
                raise click.UsageError("--lease-name is NAMESPACE/NAME")

            def settings() -> LeaseSettings:
                from muster.cli.install.parts import labels_of
                from muster.cli.live import own_namespace
                from muster.process.leadership import LeaseSettings

                key = lease_name or f"{own_namespace()}/muster-{part}"
                times = (lease_duration, lease_renew_deadline, lease_retry_period)
                made = LeaseSettings(key, leader_elect, *times, labels=labels_of(part))
                return replace(made, identity=identity) if identity else made

            command(lease=settings, **others)

        made: Command = gathered
        for option in reversed(_options(part)):
            made = option(made)
        return made

    return add


def _options(part: str) -> list[Callable[[Command], Command]]:
    return [
        click.option("--leader-elect/--no-leader-elect", default=True, show_default=True,
                     help="Take part in an election, so that of several replicas one is active."),
        click.option("--lease-name", metavar="NS/NAME", help="The Lease that is held by the one that is active. "
                     f"Default: muster-{part} in the namespace muster runs in, else in kube-system."),
        click.option("--lease-duration", type=click.FloatRange(min=1), default=15.0, show_default=True,
                     metavar="SECONDS", help="How long one that is not heard of keeps the lease."),
        click.option("--lease-renew-deadline", type=click.FloatRange(min=0.5), default=10.0, show_default=True,
                     metavar="SECONDS", help="One that could not renew for so long sends nothing more."),
        click.option("--lease-retry-period", type=click.FloatRange(min=0.1), default=2.0, show_default=True,
                     metavar="SECONDS", help="How often the lease is renewed, or asked for."),
        click.option("--identity", metavar="NAME", help="Our name on the Lease. A process started again under the name "
                     "of one that has ended takes up its Lease at once; no two may have it at a time. Default: one of "
                     "its own."),
    ]  # fmt: skip


def lease_is_named() -> bool:
    """Was --lease-name given to the command that runs?"""
    return click.get_current_context().get_parameter_source("lease_name") is ParameterSource.COMMANDLINE
