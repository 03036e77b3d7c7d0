"""Waits grow, stay under their limit and respect the server's wish."""

from __future__ import annotations

from random import Random

from muster.kube.backoff import Backoff


def test_waits_double_up_to_the_limit_and_are_spread() -> None:
    backoff = Backoff(0.1, 1.0, Random(1))
    spans = [0.1, 0.2, 0.4, 0.8, 1.0, 1.0]
    waits = [backoff.next() for _ in spans]
    assert all(span / 2 <= wait <= span for span, wait in zip(spans, waits, strict=True))
    assert len(set(waits)) == len(waits)


def test_after_a_success_it_begins_again() -> None:
    backoff = Backoff(0.1, 1.0, Random(1))
    for _ in range(5):
        backoff.next()
    backoff.reset()
    assert backoff.next() <= 0.1


def test_the_servers_wish_is_the_least() -> None:
    assert 2.0 <= Backoff(0.1, 1.0, Random(1)).next(2.0) <= 2.4
