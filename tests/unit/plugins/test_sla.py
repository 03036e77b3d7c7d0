"""sla: deadlines of waiting groups."""

from __future__ import annotations

import math

import pytest

from builders.manifests import node, queue, state_of
from builders.queued_jobs import job, of, option, session
from muster.engine.core.hooks import Vote
from muster.plugins.sla import Sla, duration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1h15m", 4500),
        ("300ms", 0.3),
        ("1.5h", 5400),
        ("90s", 90),
        ("", None),
        ("5", None),
        ("5x", None),
        ("-1s", None),
    ],
)
def test_durations_as_go_writes_them(text: str, seconds: float | None) -> None:
    assert duration(text) == (None if seconds is None else pytest.approx(seconds))


def sla(now: float = 0.0, waiting: str | None = None, **notes: dict[str, str]) -> tuple[Sla, dict[str, float]]:
    """Jobs created at the epoch, each with its annotations; the plugin, and each job's key."""
    state = state_of(node(cpu=10), queue("q"), *(job(name, annotations=given) for name, given in notes.items()))
    arguments = {} if waiting is None else {"sla-waiting-time": waiting}
    plugin = session(state, option("sla", arguments), now=now).plugins[0]
    assert isinstance(plugin, Sla)
    return plugin, {name: plugin.job_key(of(state, name)) for name in notes}


def test_earlier_deadlines_first_and_no_limit_last() -> None:
    _, keys = sla(a={"sla-waiting-time": "1h"}, b={"volcano.sh/sla-waiting-time": "1m"}, c={})
    assert keys == {"a": 3600, "b": 60, "c": math.inf}


def test_the_argument_holds_for_groups_that_say_nothing() -> None:
    _, keys = sla(waiting="2m", a={"sla-waiting-time": "1h"}, c={}, bad={"sla-waiting-time": "soon"})
    assert keys == {"a": 3600, "c": 120, "bad": 120}


def test_an_unusable_argument_is_warned_of_and_ignored() -> None:
    given = option("sla", {"sla-waiting-time": "0s"})
    session(state_of(node(cpu=10), queue("q")), given)
    assert "no duration above 0" in given.arguments.findings[0].message


@pytest.mark.parametrize(("now", "vote"), [(59.0, Vote.ABSTAIN), (60.0, Vote.PERMIT), (1e6, Vote.PERMIT)])
def test_past_its_deadline_a_group_is_admitted_and_kept(now: float, vote: Vote) -> None:
    state = state_of(node(cpu=10), queue("q"), job("a", annotations={"sla-waiting-time": "1m"}))
    plugin = session(state, "sla", now=now).plugins[0]
    assert isinstance(plugin, Sla)
    assert (plugin.enqueueable(of(state, "a")), plugin.pipelined(of(state, "a"))) == (vote, vote)


def test_without_a_limit_it_never_speaks() -> None:
    state = state_of(node(cpu=10), queue("q"), job("a"))
    plugin = session(state, "sla", now=1e9).plugins[0]
    assert isinstance(plugin, Sla)
    assert plugin.enqueueable(of(state, "a")) == Vote.ABSTAIN
