"""A replay reaches every event of a trace whose times are Unix times."""

from __future__ import annotations

import numpy as np

from builders.manifests import node, tables
from builders.replays import GPU, trace
from muster.sim.inputs import ConfigText, load_config
from muster.sim.replay.node_events import NodeEvent
from muster.sim.replay.run import ReplayOptions, replay

CONFIG = 'actions: "allocate"\ntiers: [{plugins: [{name: gang}, {name: predicates}]}]\n'


def test_times_that_unix_time_rounds_are_reached() -> None:
    """At a Unix time of today, adding and subtracting the epoch does not give back the same fraction of a second."""
    dice = np.random.default_rng(16)
    submit = np.round(np.sort(dice.random(40) * 500), 3).tolist()
    duration = np.round(dice.random(40) * 60 + 1, 3).tolist()
    nodes = tables([node(f"n{i}", cpu=16, resources={GPU: 8}) for i in range(2)])
    events = [NodeEvent(100.123, "n1", joins=False), NodeEvent(200.457, "n1", joins=True)]
    jobs = trace(submit, duration, epoch=1794834544.0)
    done = replay(jobs, nodes, load_config(ConfigText(CONFIG, "scheduler.yaml")), ReplayOptions(node_events=events))
    assert np.isfinite(done.end).all()
    assert np.allclose(done.run - done.lost, duration, atol=1e-5)
