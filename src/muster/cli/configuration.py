"""Which configuration a command uses: that of -c, else the one that a snapshot or the live cluster names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from muster.cli.reading import BadInput, config_text, tell

if TYPE_CHECKING:
    from muster.config.announced import Announced
    from muster.cycle.scheduler import Scheduler
    from muster.model.meta import Object

Objects = Mapping[str, Mapping[str, "Object"]]


@dataclass(frozen=True, slots=True)
class Chosen:
    """A configuration's text and its source; `announced` where a scheduler of the cluster named it."""

    text: str
    source: str
    announced: Announced | None = None
    is_default: bool = False


@dataclass(frozen=True, slots=True)
class Used:
    """A scheduler with its configuration, and how outputs name it."""

    scheduler: Scheduler
    chosen: Chosen
    hash: str

    def as_dict(self) -> dict[str, object]:
        """Under `configuration` of -o json."""
        plain: dict[str, object] = {"source": self.chosen.source, "hash": self.hash}
        one = self.chosen.announced
        return plain if one is None else {**plain, "lease": one.lease, "running": one.running}

    def __str__(self) -> str:
        one = self.chosen.announced
        if one is None:
            return self.chosen.source
        who = "the running scheduler" if one.running else "a scheduler that does not run"
        return f"{self.chosen.source} (hash {self.hash}), of {who} (Lease {one.lease})"


def given(config: str | None) -> Chosen | None:
    """What -c says. It is read before everything else, because it wins."""
    return None if config is None else Chosen(config_text(config), config)


def chosen_from(objects: Objects, scheduler_names: Sequence[str]) -> Chosen:
    """Without -c: what the snapshot or the live cluster names, else the built-in default."""
    from muster.config.announced import announced_in

    found = announced_in(objects)
    if not found:
        return _default()
    ours = [one for one in found if one.lease and set(one.names) & set(scheduler_names)]
    # One that runs counts for more than one that has ended.
    ours = [one for one in ours if one.running] or ours
    if not ours:
        others = [f"{one.lease} ({', '.join(one.names)})" for one in found if one.lease]
        why = f"the schedulers there have other names: {'; '.join(others)}" if others else "no scheduler runs there"
        return _default(f"the cluster names no configuration, {why}")
    if len({(one.source, one.text) for one in ours}) > 1:
        choices = ", ".join(f"{one.source} (Lease {one.lease})" for one in ours)
        raise BadInput(f"muster: the cluster has several schedulers: choose with -c or --scheduler-name: {choices}")
    one = ours[0]
    if one.text is None:
        return _default(f"{one.source}, the configuration of the Lease {one.lease}, is not there (give it with -c)")
    return Chosen(one.text, one.source, one)


def _default(why: str = "") -> Chosen:
    from muster.config import DEFAULT
    from muster.config.announced import BUILT_IN

    if why:
        click.echo(f"warning: {why}; the built-in default is used", err=True)
    return Chosen(DEFAULT, BUILT_IN, is_default=True)


def scheduler_of(config: str | None) -> Scheduler:
    """A scheduler with the configuration of -c, or the built-in one."""
    return used(given(config) or _default()).scheduler


def used(chosen: Chosen) -> Used:
    """A scheduler with that configuration; what the loader and the plugins find is printed on stderr."""
    from muster.cycle.configure import configure
    from muster.cycle.scheduler import Scheduler
    from muster.cycle.validation import effective_hash
    from muster.model.finding import in_order

    config, findings = configure(chosen.text, chosen.source)
    tell(findings)
    if any(finding.severity == "error" for finding in findings):
        one = chosen.announced
        kept = f"; the scheduler of the Lease {one.lease} still uses {one.hash} (give that with -c)" if one else ""
        raise BadInput(f"muster: {chosen.source} cannot be used{kept}")
    scheduler = Scheduler(config)
    tell(in_order(scheduler.findings()))
    digest = effective_hash(scheduler)
    warn_of_another(chosen, digest)
    return Used(scheduler, chosen, digest)


def warn_of_another(chosen: Chosen, digest: str) -> None:
    """The ConfigMap was changed, and the scheduler has refused the change or has not taken it over yet."""
    one = chosen.announced
    if one is not None and one.hash != digest:
        click.echo(
            f"warning: {one.source} has the hash {digest}, but the scheduler of the Lease {one.lease} uses {one.hash}: "
            "it refused the change or has not seen it yet (see the events of the ConfigMap)", err=True,
        )  # fmt: skip
