"""The line that the issue draws: 500 applications in 20 groups, under 5 seconds of CPU, and no writes at rest."""

from __future__ import annotations

from muster.sim.bench import controllers


def test_a_policy_change_costs_little_and_a_cluster_at_rest_nothing() -> None:
    told = controllers.measure()
    missed = {name: told[name] for name, most in controllers.FLOORS.items() if told[name] > most}
    assert missed == {}
    assert controllers.APPS == 500 and controllers.GROUPS == 20
