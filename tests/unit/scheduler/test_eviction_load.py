"""The load of the live eviction churn: arrivals at 130 % of the capacity, gangs and priorities, at both scales."""

from __future__ import annotations

import pytest
import yaml

from live.eviction_load import HIGH, LOW, MIDDLE, PRIORITIES, QUEUES, Gang, Scale, gangs, singles
from live.eviction_trial import FAST, ORDERS, RECOMMENDED, TIERS, configuration
from muster.cycle.configure import configure
from muster.model.finding import Severity

RECORD = Scale(nodes=300, gangs=200, seconds=150, plain_every=1.0)
SCALES = pytest.mark.parametrize("scale", [FAST, RECORD], ids=["fast", "record"])


@SCALES
def test_gangs_arrive_at_130_percent_of_the_capacity(scale: Scale) -> None:
    made = gangs(scale, 12)
    fill = [gang for gang in made if gang.arrives == 0][:-1]  # the first gang that arrives later does so at once
    assert 0.8 * scale.cpus < sum(gang.size * gang.cpu for gang in fill) <= scale.cpus
    later = made[len(fill) :]
    work = sum(gang.size * gang.cpu * gang.runs_for for gang in later)
    assert work / scale.seconds / scale.cpus == pytest.approx(1.3, abs=0.15)
    assert all(gang.arrives < scale.seconds for gang in made)


@SCALES
def test_half_of_the_gangs_are_strict_and_all_have_8_to_64_pods(scale: Scale) -> None:
    made = gangs(scale, 12)
    assert len(made) == scale.gangs
    assert sum(gang.minimum == gang.size for gang in made) == scale.gangs // 2
    assert all(8 <= gang.size <= 64 for gang in made)
    assert {gang.queue for gang in made} == set(QUEUES)


@SCALES
def test_only_plain_pods_have_the_highest_priority(scale: Scale) -> None:
    """Pods that no gang can keep waiting by a right of its own."""
    assert max(PRIORITIES, key=lambda name: PRIORITIES[name]) == HIGH
    assert {gang.priority for gang in gangs(scale, 12)} == {LOW, MIDDLE}
    made = singles(scale, 12)
    assert {one.pod("d")["spec"]["priorityClassName"] for one in made} == {HIGH}
    assert len(made) == scale.seconds - 1


def test_a_seed_gives_the_same_load_again() -> None:
    assert gangs(FAST, 3) == gangs(FAST, 3) != gangs(FAST, 4)


def test_a_pod_names_its_group_and_takes_a_second_to_stop() -> None:
    gang = Gang("g1", 0.0, 10.0, 8, 4, 2, "serving", "low")
    assert gang.group("d")["spec"] == {"minMember": 4, "queue": "serving", "priorityClassName": "low"}
    made = gang.pod("d", "g1-0")
    assert made["metadata"]["annotations"] == {
        "scheduling.k8s.io/group-name": "g1", "live.muster.test/stops-after": "1s",
    }  # fmt: skip
    assert made["spec"]["containers"][0]["resources"]["requests"]["cpu"] == "2"


@pytest.mark.parametrize("tiers", TIERS)
@pytest.mark.parametrize("order", ORDERS)
def test_every_configuration_has_the_plugins_of_the_recommended_one(order: str, tiers: str) -> None:
    recommended, _ = configure(RECOMMENDED.read_text("utf-8"), RECOMMENDED.name)
    config, message = configure(configuration(order, tiers), "churn")
    assert [str(finding) for finding in message if finding.severity is Severity.ERROR] == []
    assert [plugin.name for plugin in config.plugins()] == [plugin.name for plugin in recommended.plugins()]
    assert len(config.tiers) == (1 if tiers == "single-tier" else 2)
    assert sorted(config.actions) == sorted(recommended.actions)


def test_the_first_order_and_the_usual_tiers_are_the_recommended_configuration() -> None:
    recommended = yaml.safe_load(RECOMMENDED.read_text("utf-8"))
    assert yaml.safe_load(configuration("allocate-first", "usual-tiers")) == recommended
