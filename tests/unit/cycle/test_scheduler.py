"""A Scheduler is immutable, and each leadership term builds its own from the configuration."""

from __future__ import annotations

import pytest

from muster.cycle.scheduler import Scheduler
from muster.process.logs import Log
from muster.scheduler.cache import Cache
from muster.scheduler.configuration import read_config
from muster.scheduler.decider import Decider
from muster.scheduler.metrics import Metrics


def test_a_scheduler_cannot_be_changed_after_it_was_built() -> None:
    scheduler = Scheduler(read_config(None).config)
    assert isinstance(scheduler.tiers, tuple) and all(isinstance(tier, tuple) for tier in scheduler.tiers)
    assert isinstance(scheduler.actions, tuple)
    for name in ("config", "tiers", "actions"):
        with pytest.raises(AttributeError, match="immutable"):
            setattr(scheduler, name, getattr(scheduler, name))


def test_two_terms_share_the_configuration_and_no_plugin() -> None:
    loaded = read_config(None)

    def plugins_of_a_term() -> set[int]:
        decider = Decider(Cache(("muster",)), loaded, "me", 10.0, Metrics(), Log(-1))
        deciders.append(decider)
        return {id(plugin) for tier in decider._scheduler.tiers for plugin in tier}

    deciders: list[Decider] = []
    first, second = plugins_of_a_term(), plugins_of_a_term()
    assert first and second and not first & second
    assert loaded == read_config(None)
