"""Flags are derived from typed settings: type, default, range and order are those of the fields."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

import click
import pytest
from click.testing import CliRunner, Result

from muster.cli.flags import flags
from muster.groupctl.controllers import throttle
from muster.groupctl.controllers.settings import ControllerSettings
from muster.groupctl.webhook.settings import WebhookSettings
from muster.process.settings import NAMESPACED, ClusterSettings, Flag, LeaseSettings, SettingError


@dataclass(frozen=True, kw_only=True)
class Settings:
    names: Annotated[tuple[str, ...], Flag("--name", metavar="NAME", help="Names.")] = ("a",)
    lease: LeaseSettings
    count: Annotated[int, Flag("-n", "--count", minimum=1, metavar="N", help="How many.")]
    rate: Annotated[float, Flag("--rate", positive=True, metavar="R", help="How fast.")] = 1.0
    dry_run: Annotated[bool, Flag("--dry-run", help="Write nothing.")] = False
    place: Annotated[str, Flag("--place", metavar=NAMESPACED, literals=("none",), help="Where.")] = field(
        default_factory=lambda: "home/made"
    )
    internal: int = 7

    def __post_init__(self) -> None:
        if self.dry_run and self.rate > 5:
            raise SettingError("--dry-run and a --rate above 5 exclude each other")


def parsed(*arguments: str) -> tuple[Result, Settings | None]:
    found: list[Settings] = []

    @click.command()
    @flags(Settings, "sample")
    def command(settings: Settings) -> None:
        found.append(settings)

    return CliRunner().invoke(command, list(arguments)), found[0] if found else None


def test_what_is_not_given_has_the_default_of_its_field() -> None:
    _, settings = parsed("--count", "3")
    assert settings is not None
    assert (settings.names, settings.count, settings.rate, settings.dry_run) == (("a",), 3, 1.0, False)
    assert (settings.place, settings.internal) == ("home/made", 7)
    assert settings.lease.elect and settings.lease.key.endswith("/muster-sample") and settings.lease.identity


def test_what_is_given_is_converted_to_the_type_of_its_field() -> None:
    _, settings = parsed(
        "-n", "2", "--name", "b", "--name", "c", "--rate", "2.5", "--dry-run", "--no-leader-elect",
        "--lease-name", "home/other", "--place", "none",
    )  # fmt: skip
    assert settings is not None
    assert (settings.names, settings.count, settings.rate, settings.dry_run) == (("b", "c"), 2, 2.5, True)
    assert (settings.lease.elect, settings.lease.key, settings.place) == (False, "home/other", "none")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "Missing option '-n' / '--count'"),
        (("--count", "0"), "0 is not in the range x>=1"),
        (("--count", "1", "--rate", "0"), "0.0 is not in the range x>0"),
        (("--count", "1", "--place", "here"), "--place is NAMESPACE/NAME"),
        (("--count", "1", "--lease-duration", "5"), "--lease-duration must be longer"),
        (("--count", "1", "--dry-run", "--rate", "6"), "exclude each other"),
    ],
)
def test_what_no_field_accepts_is_a_usage_error(arguments: tuple[str, ...], message: str) -> None:
    result, settings = parsed(*arguments)
    assert result.exit_code == 2 and settings is None and message in result.stderr


def test_the_help_has_the_flags_in_the_order_of_the_fields() -> None:
    text = " ".join(parsed("--help")[0].stdout.split())
    places = [text.index(name) for name in ("--name", "--leader-elect", "--lease-name", "--count", "--rate", "--place")]
    assert places == sorted(places) and "Default: muster-sample" in text and "[default: a]" in text


def test_the_defaults_of_evictions_are_those_of_the_controllers() -> None:
    """The settings modules import nothing of muster but other settings, so they repeat these numbers."""
    lease = LeaseSettings(part="controllers")
    settings = ControllerSettings(ClusterSettings(), lease)
    given = (settings.settle, settings.eviction_rate, settings.eviction_burst)
    assert given == (throttle.STABLE_BEFORE_EVICTION_S, throttle.EVICTIONS_PER_SECOND, throttle.EVICTION_BURST)
    webhook = WebhookSettings(cluster=ClusterSettings(), lease=lease)
    assert webhook.readmit_after == throttle.REPLACEMENT_READY_S
