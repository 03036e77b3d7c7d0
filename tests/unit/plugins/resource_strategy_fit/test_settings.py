"""The arguments of resource-strategy-fit: all spellings mean the same, and faults are reported with their line."""

from __future__ import annotations

from typing import Any

import pytest

from muster.config.types import Arguments
from muster.plugins.resource_strategy_fit.settings import LEAST, MOST, Preference, Settings, read


def understood(**arguments: Any) -> Settings:
    return read(Arguments(arguments))


def faults(arguments: dict[str, Any]) -> list[str]:
    given = Arguments(arguments, file="s.yaml")
    read(given)
    return [finding.message for finding in given.findings]


FLAT = {
    "sra.policy": "retention",
    "sra.resources": "nvidia.com/t4, nvidia.com/a10",
    "sra.retention.weight": 2,
    "sra.retention.nvidia.com/t4": 1,
    "sra.retention.nvidia.com/a10": 3,
}
NESTED = {
    "sra": {
        "policy": "retention",
        "resources": "nvidia.com/t4, nvidia.com/a10",
        "retention": {"weight": 2, "nvidia.com/t4": 1, "nvidia.com/a10": 3},
    }
}
TODAY = {
    "sra": {
        "enable": True,
        "resources": "nvidia.com/t4, nvidia.com/a10",
        "weight": 2,
        "resourceWeight": {"nvidia.com/t4": 1, "nvidia.com/a10": 3},
    }
}


@pytest.mark.parametrize("spelling", [FLAT, NESTED, TODAY], ids=["flat", "nested", "today"])
def test_every_spelling_of_retention_means_the_same(spelling: dict[str, Any]) -> None:
    settings = understood(**spelling)
    assert (settings.retention_weight, settings.scarce) == (2, {"nvidia.com/t4": 1, "nvidia.com/a10": 3})
    assert faults(spelling) == []


@pytest.mark.parametrize(
    "spelling",
    [
        {"sra.policy": "proportional", "sra.resources": "x.io/g", "sra.proportional.x.io/g.cpu": 8},
        {"sra": {"policy": "proportional", "resources": "x.io/g", "proportional": {"x.io/g.cpu": 8}}},
        {"proportional": {"enable": True, "resources": "x.io/g", "resourceProportion": {"x.io/g.cpu": 8}}},
    ],
    ids=["flat", "nested", "today"],
)
def test_every_spelling_of_proportional_means_the_same(spelling: dict[str, Any]) -> None:
    assert understood(**spelling).kept == {"x.io/g": {"cpu": 8, "memory": 1}}
    assert faults(spelling) == []


def test_both_policies_can_be_on_together() -> None:
    settings = understood(sra={"policy": "retention, proportional", "resources": "x.io/g"})
    assert (settings.retention_weight, settings.scarce) == (1, {"x.io/g": 1})
    assert settings.kept == {"x.io/g": {"cpu": 1, "memory": 1}}


def test_volcanos_retention_is_off_without_a_weight_and_a_policy_is_not() -> None:
    assert understood(sra={"enable": True, "resources": "x.io/g"}).retention_weight == 0
    assert understood(sra={"policy": "retention", "resources": "x.io/g"}).retention_weight == 1
    assert (
        understood(sra={"policy": "retention", "resources": "x.io/g", "retention": {"weight": 0}}).retention_weight == 0
    )


def test_without_resources_cpu_and_memory_are_spread() -> None:
    assert understood().preferences == {"cpu": Preference(LEAST, 1), "memory": Preference(LEAST, 1)}


def test_the_exact_name_comes_before_the_longest_prefix() -> None:
    settings = understood(
        resources={
            "nvidia.com/*": {"type": LEAST, "weight": 1},
            "nvidia.com/gpu-*": {"type": MOST, "weight": 2},
            "nvidia.com/gpu-a": {"type": MOST, "weight": 3},
        }
    )
    assert settings.preference("nvidia.com/gpu-a") == Preference(MOST, 3)
    assert settings.preference("nvidia.com/gpu-b") == Preference(MOST, 2)
    assert settings.preference("nvidia.com/t4") == Preference(LEAST, 1)
    assert settings.preference("cpu") is None


@pytest.mark.parametrize("pattern", ["*", "c*u", "*u", "**", "a*b*"])
def test_other_patterns_are_dropped_and_reported(pattern: str) -> None:
    settings = understood(resources={pattern: {"type": MOST}, "cpu": {"type": MOST}})
    assert list(settings.preferences) == ["cpu"]
    assert len(faults({"resources": {pattern: {}}})) == 1


@pytest.mark.parametrize(
    ("arguments", "reported"),
    [
        ({"resourceStrategyFitWeight": -1}, "resourceStrategyFitWeight is -1, which is less than 0: using 10"),
        ({"resourceStrategyFitWeight": "10"}, "resourceStrategyFitWeight is the text '10'"),
        ({"resources": {"cpu": {"type": "Most"}}}, "resources.cpu.type is 'Most'"),
        ({"resources": {"cpu": {"weight": -2}}}, "resources.cpu.weight is -2"),
        ({"resources": {"cpu": {"wieght": 2}}}, "resources.cpu.wieght is not known"),
        ({"resources": {"cpu": 3}}, "resources.cpu is 3, which is not a mapping"),
        ({"resources": [1]}, "resources is [1], which is not a mapping"),
        ({"sra": 3}, "sra is 3, which is not a mapping"),
        ({"sra": {"policy": "retantion", "resources": "x.io/g"}}, "sra.policy names the policy retantion"),
        ({"sra.policy": "retention"}, "sra.policy has no effect: sra.resources names no resource"),
        ({"sra.resources": "x.io/g"}, "sra.resources has no effect without sra.policy"),
        ({"sra": {"policy": "retention", "resources": "x.io/g, x.io/g"}}, "sra.resources lists x.io/g 2 times"),
        ({**NESTED, "sra.retention.weight": 3}, "sra.retention.weight is given twice"),
        ({**FLAT, "sra.retention.x.io/g": 3}, "sra.retention.x.io/g is not listed in sra.resources: ignored"),
        ({**FLAT, "sra.retention.nvidia.com/t4": -3}, "sra.retention.nvidia.com/t4 is -3"),
        (
            {"sra": {"policy": "proportional", "resources": "x.io/g", "proportional": {"x.io/g.disk": 8}}},
            "sra.proportional.x.io/g.disk does not end in .cpu or .memory",
        ),
        (
            {"proportional": {"enable": True, "resources": "x.io/g", "resourceProportion": {"x.io/h.cpu": 8}}},
            "proportional.resourceProportion.x.io/h.cpu is not listed in proportional.resources",
        ),
    ],
)
def test_a_fault_is_reported_with_the_path_it_has(arguments: dict[str, Any], reported: str) -> None:
    (message,) = faults(arguments)
    assert message.startswith(reported)


def test_faults_fall_back_as_documented() -> None:
    settings = understood(
        resourceStrategyFitWeight=-4,
        resources={"cpu": {"type": "Most", "weight": -1}},
        sra={"policy": "retention", "resources": "x.io/g", "retention": {"x.io/g": -1}},
        proportional={"enable": True, "resources": "x.io/g", "resourceProportion": {"x.io/g.cpu": -8}},
    )
    assert settings.strategy_weight == 10
    assert settings.preferences == {"cpu": Preference(LEAST, 1)}
    assert settings.scarce == {"x.io/g": 1}
    assert settings.kept == {"x.io/g": {"cpu": 1, "memory": 1}}


def test_what_was_understood_reads_as_the_same_again() -> None:
    settings = understood(
        resourceStrategyFitWeight=7,
        resources={"nvidia.com/*": {"type": MOST, "weight": 2}},
        sra={"policy": "retention,proportional", "resources": ["x.io/g"], "retention": {"weight": 4, "x.io/g": 2}},
    )
    assert understood(**settings.as_arguments()) == settings


@pytest.mark.parametrize("spelling", [FLAT, NESTED, TODAY], ids=["flat", "nested", "today"])
def test_where_only_sra_is_configured_the_strategy_scores_are_off(spelling: dict[str, Any]) -> None:
    assert understood(**spelling).strategy_weight == 0
    assert understood(**spelling, resources={"cpu": {"type": MOST}}).strategy_weight == 10
    assert understood(**spelling, resourceStrategyFitWeight=3).strategy_weight == 3
    assert understood().strategy_weight == 10


@pytest.mark.parametrize(
    ("more", "output"),
    [
        ({"resourceStrategyFitWeight": 0}, None),
        ({"resourceStrategyFitWeight": 1}, "resourceStrategyFitWeight outweighs retention: strategy scores differ by "
         "up to 100 points, a scarce resource makes 50 (sra.retention.weight 2; nvidia.com/t4: 1, nvidia.com/a10: 3)"),
        ({"resources": {"cpu": {"weight": 1}}}, "resources has resourceStrategyFitWeight 10 by default, which "
         "outweighs retention: strategy scores differ by up to 1000 points, a scarce resource makes 50 "
         "(sra.retention.weight 2; nvidia.com/t4: 1, nvidia.com/a10: 3)"),
    ],
)  # fmt: skip
def test_strategy_scores_that_outweigh_retention_are_named_with_the_weights(
    more: dict[str, Any], output: str | None
) -> None:
    assert faults({**FLAT, **more}) == ([] if output is None else [output])


def test_the_weight_that_is_named_is_enough() -> None:
    given = Arguments({**FLAT, "resourceStrategyFitWeight": 3})
    read(given)
    assert given.findings[0].fix == "give sra.retention.weight: 12, or resourceStrategyFitWeight: 0"
    assert faults({**FLAT, "resourceStrategyFitWeight": 3, "sra.retention.weight": 12}) == []
    assert faults({**FLAT, "resourceStrategyFitWeight": 3, "sra.retention.weight": 11}) != []


def test_a_pattern_in_the_scarce_resources_is_reported() -> None:
    assert faults({"sra.policy": "retention", "sra.resources": "nvidia.com/*"}) == [
        "sra.resources lists nvidia.com/*: patterns are not read here, so it names no resource"
    ]
