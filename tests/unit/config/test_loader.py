"""Loading Volcano's configuration file: what is accepted, and the findings about the rest."""

from __future__ import annotations

import pytest

from muster.config import DEFAULT, DEFAULT_NAME, Config, Known, load, render, render_text
from muster.config.types import SWITCHES
from muster.model.finding import Finding
from muster.model.yamltext import load_all

NOTHING: frozenset[str] = frozenset()
KNOWN = Known(
    plugins={
        **dict.fromkeys(
            ["priority", "gang", "conformance", "overcommit", "drf", "predicates", "proportion", "nodeorder"], NOTHING
        ),
        "topology": frozenset({"weight"}),
        "nodegroup": NOTHING,
        "topology910": NOTHING,
        "propagation": NOTHING,
        "binpack": frozenset({"binpack.weight", "binpack.resources", "binpack.resources.*"}),
        "resource-strategy-fit": frozenset({"resources", "sra.enable", "sra.weight", "sra.retention.*"}),
        "their-own": frozenset({"*"}),
    },
    actions={
        **dict.fromkeys(["enqueue", "allocate", "backfill", "reclaim"], NOTHING),
        "preempt": frozenset({"predicateErrorCacheEnable"}),
    },
)
OWN = ("nodegroup", "topology", "topology910", "propagation")
TIERS = "tiers:\n- plugins:\n  - name: gang\n"


def read(text: str) -> tuple[Config, list[Finding]]:
    return load(text, "s.yaml", KNOWN)


def only(text: str) -> Finding:
    (finding,) = read(text)[1]
    assert finding.file == "s.yaml"
    return finding


def plugin(lines: str) -> str:
    return "actions: allocate\ntiers:\n- plugins:\n" + "".join(f"  {line}\n" for line in lines.splitlines())


def test_the_default_is_understood_without_a_remark() -> None:
    config, findings = load(DEFAULT, DEFAULT_NAME, KNOWN)
    assert findings == []
    assert config.actions == ("enqueue", "allocate", "backfill")
    assert [[option.name for option in tier.plugins] for tier in config.tiers] == [
        ["priority", "gang", "conformance"],
        ["overcommit", "drf", "predicates", "proportion", "nodeorder", *OWN],
    ]


@pytest.mark.parametrize(
    "actions", ['"enqueue, allocate"', "enqueue,allocate,", "[enqueue, allocate]", "\n- enqueue\n- allocate"]
)
def test_actions_are_separated_by_commas_or_a_list(actions: str) -> None:
    config, findings = read(f"actions: {actions}\n{TIERS}")
    assert (config.actions, findings) == (("enqueue", "allocate"), [])


@pytest.mark.parametrize("actions", ["actions:\n", "actions: ''\n", "actions: []\n", "actions: 5\n"])
def test_no_actions_is_an_error(actions: str) -> None:
    finding = only(actions + TIERS)
    assert (finding.severity, finding.code) == ("error", "no-actions")


def test_tiers_alone_go_with_the_default_actions() -> None:
    config, (finding,) = read(TIERS)
    assert config.actions == ("enqueue", "allocate", "backfill")
    assert (finding.severity, finding.code) == ("warning", "no-actions")


def test_absent_switches_are_on_but_for_two() -> None:
    (option,) = read(plugin("- name: gang"))[0].plugins()
    assert {switch for switch in SWITCHES if not option.enabled(switch)} == {"enableHierarchy", "enabledClusterOrder"}


@pytest.mark.parametrize("switch", SWITCHES)
def test_every_switch_is_known_in_its_own_spelling(switch: str) -> None:
    on, off = (read(plugin(f"- name: gang\n  {switch}: {word}")) for word in ("true", "false"))
    assert on[1] == off[1] == []
    assert next(on[0].plugins()).enabled(switch) is True
    assert next(off[0].plugins()).enabled(switch) is False


def test_a_switch_given_as_text_is_taken_with_a_warning() -> None:
    config, findings = read(plugin('- name: gang\n  enableJobOrder: "false"'))
    assert next(config.plugins()).enabled("enableJobOrder") is False
    assert [(f.severity, f.code, f.line) for f in findings] == [("warning", "switch-value", 5)]


def test_a_switch_that_is_no_boolean_takes_its_default_with_a_warning() -> None:
    config, findings = read(plugin("- name: gang\n  enableHierarchy: 5"))
    assert next(config.plugins()).enabled("enableHierarchy") is False
    assert [(f.severity, f.code, f.line) for f in findings] == [("warning", "switch-value", 5)]


@pytest.mark.parametrize(
    ("text", "line", "code", "fix"),
    [
        ("action: allocate\nactions: allocate\n" + TIERS, 1, "unknown-key", "did you mean actions?"),
        ("actions: enqueue, alocate\n" + TIERS, 1, "unknown-action", "did you mean allocate?"),
        (plugin("- name: bin-pack"), 4, "unknown-plugin", "did you mean binpack?"),
        (plugin("- name: gang\n  enableOverused: true"), 5, "unknown-switch", "did you mean enabledOverused?"),
        (plugin("- name: gang\n  EnableJobOrder: true"), 5, "unknown-switch", "did you mean enableJobOrder?"),
        (plugin("- name: binpack\n  binpack.weight: 1"), 5, "unknown-switch", "move it under `arguments`"),
        (plugin("- name: binpack\n  arguments:\n    binpack.wieght: 1"), 6, "unknown-argument",
         "did you mean binpack.weight?"),
        ("actions: allocate\ntiers:\n- plugin: []\n- plugins:\n  - name: drf\n", 3, "unknown-key",
         "did you mean plugins?"),
        ("actions: allocate\nconfigurations:\n- name: alocate\n" + TIERS, 3, "unknown-action",
         "did you mean allocate?"),
        ("actions: preempt\nconfigurations:\n- name: preempt\n  arguments:\n    predicateErrorCache: true\n" + TIERS,
         5, "unknown-argument", "did you mean predicateErrorCacheEnable?"),
    ],
)  # fmt: skip
def test_an_unknown_name_is_an_error_with_the_nearest_right_one(text: str, line: int, code: str, fix: str) -> None:
    finding = only(text)
    assert (finding.severity, finding.line, finding.code, finding.fix) == ("error", line, code, fix)


def test_a_name_like_no_other_gets_the_whole_list() -> None:
    assert only(f"actions: allocate, zzz\n{TIERS}").fix.startswith("known: allocate, backfill, ")


def test_arguments_of_a_prefix_and_of_third_parties_are_known() -> None:
    text = "- name: binpack\n  arguments: {binpack.resources: a, binpack.resources.a: 2}\n"
    assert read(plugin(text + "- name: their-own\n  arguments: {anything: {goes: 1}}"))[1] == []


def test_keys_under_a_mapping_are_checked_where_their_names_are_known() -> None:
    text = (
        "- name: resource-strategy-fit\n  arguments:\n    resources: {any/name: {type: x}}\n    sra:\n      wieght: 1\n"
    )
    finding = only(plugin(text + "      retention: {nvidia.com/t4: 1}"))
    assert (finding.line, finding.message, finding.fix) == (
        8,
        "unknown argument 'sra.wieght'",
        "did you mean sra.weight?",
    )


def test_arguments_know_their_lines_and_warnings_reach_the_configuration() -> None:
    config, findings = read(
        plugin("- name: binpack\n  arguments:\n    binpack.resources: a\n    binpack.weight: heavy")
    )
    assert findings == []
    option = config.plugin("binpack")
    assert option is not None and option.line == 4
    assert option.arguments.int("binpack.weight", 1) == 1
    assert [(f.object, f.line) for f in config.findings()] == [("plugin binpack", 7)]


def test_volcanos_other_plugins_and_actions_are_skipped_with_a_warning() -> None:
    config, findings = read(
        "actions: allocate, shuffle\ntiers:\n- plugins:\n  - name: tdm\n    enableJobOrder: x\n  - name: gang\n"
    )
    assert (config.actions, [option.name for option in config.plugins()]) == (("allocate",), ["gang"])
    assert [(f.severity, f.code, f.line) for f in findings] == [
        ("warning", "foreign-action", 1),
        ("warning", "foreign-plugin", 4),
    ]
    assert all("in Volcano it" in f.message and f.fix for f in findings)


def test_network_topology_aware_is_served_by_topology() -> None:
    text = "- name: network-topology-aware\n  arguments:\n    weight: 2\n    hypernode.binpack.cpu: 1"
    config, findings = read(plugin(text))
    (option,) = config.plugins()
    assert (option.name, dict(option.arguments)) == ("topology", {"weight": 2})
    assert [(f.severity, f.code, f.line) for f in findings] == [
        ("notice", "served-by", 4),
        ("warning", "foreign-argument", 7),
    ]


def test_a_plugin_listed_twice_counts_once() -> None:
    config, findings = read(plugin("- name: gang\n- name: drf\n- name: gang"))
    assert [option.name for option in config.plugins()] == ["gang", "drf"]
    assert [(f.code, f.line) for f in findings] == [("plugin-twice", 6)]


def test_hierarchical_drf_beside_proportion_is_an_error() -> None:
    text = "- name: proportion\n- name: drf\n  enableHierarchy: true"
    assert (only(plugin(text)).severity, only(plugin(text)).code, only(plugin(text)).line) == (
        "error",
        "drf-hierarchy",
        5,
    )
    assert read(plugin(text.replace("true", "false")))[1] == []
    apart = plugin("- {name: drf, enableHierarchy: true}") + "- plugins:\n  - name: proportion\n"
    assert read(apart)[1] == []


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", 1), ("# nothing\n", 1), ("- a\n", 1), ("hello\n", 1), ("a: [\n", 2), ("a: 1\na: 2\n", 2),
        ("kind: Deployment\nmetadata: {}\n", 1), ("actions: x\n---\nactions: y\n", 3),
        ("kind: ConfigMap\ndata: {a: b}\n", 1), ("kind: ConfigMap\ndata:\n  x.conf: {a: b}\n", 3),
        ("kind: ConfigMap\ndata:\n  x.conf: ''\n", 3), ("kind: ConfigMap\ndata:\n  x.conf: |\n    a: 1\n    a: 2\n", 5),
    ],
)  # fmt: skip
def test_what_is_no_configuration_is_one_clear_error(text: str, line: int) -> None:
    config, (finding,) = read(text)
    assert (finding.severity, finding.code, finding.line) == ("error", "config-unreadable", line)
    assert config == Config()


@pytest.mark.parametrize(
    "text",
    ["tiers: gang\n", "tiers:\n- gang\n", "tiers:\n- plugins: gang\n", "tiers:\n- plugins:\n  - gang\n",
     "tiers:\n- plugins:\n  - {}\n", "tiers:\n- plugins:\n  - {name: gang, arguments: 5}\n",
     TIERS + "configurations: 5\n", TIERS + "configurations:\n- {}\n"],
)  # fmt: skip
def test_a_wrong_shape_is_an_error_not_a_traceback(text: str) -> None:
    findings = read("actions: allocate\n" + text)[1]
    assert ("error", "config-shape") in [(f.severity, f.code) for f in findings]


def test_no_plugins_at_all_is_a_warning() -> None:
    assert (only("actions: allocate\n").severity, only("actions: allocate\n").code) == ("warning", "no-plugins")


def test_metrics_are_tolerated() -> None:
    assert read("actions: allocate\nmetrics: {type: prometheus}\n" + TIERS)[1] == []


def test_a_config_map_is_unwrapped_and_lines_point_into_its_file() -> None:
    text = (
        "apiVersion: v1\nkind: Service\n---\napiVersion: v1\nkind: ConfigMap\ndata:\n  z.conf: ignored\n"
        "  volcano-scheduler.conf: |\n\n    actions: allocate\n    tiers:\n    - plugins:\n      - name: gong\n"
    )
    finding = only(text)
    assert (finding.line, finding.fix) == (13, "did you mean gang?")


def test_a_config_map_in_quotes_points_at_its_key() -> None:
    text = 'kind: ConfigMap\ndata:\n  a: b\n  x.conf: "actions: allocate\\ntiers:\\n- plugins:\\n  - name: gong\\n"\n'
    assert only(text).line == 4


def test_the_effective_configuration_reads_back_as_the_same() -> None:
    text = (
        'actions: [preempt, allocate]\ntiers:\n- plugins:\n  - name: gang\n    enableJobOrder: "no"\n- plugins:\n'
        "  - name: binpack\n    arguments: {binpack.weight: 2, binpack.resources: '1e3'}\n"
        "configurations:\n- name: preempt\n  arguments: {predicateErrorCacheEnable: false}\n"
    )
    config, _ = read(text)
    again, findings = read(render_text(config))
    assert findings == []
    assert render(again) == render(config) == load_all(render_text(config), "f")[0].value
    assert render(config)["actions"] == "preempt, allocate"
    assert render(config)["tiers"][0]["plugins"] == [{"name": "gang", "enableJobOrder": False}]
    assert dict(again.configurations["preempt"]) == {"predicateErrorCacheEnable": False}


def test_compatibility_is_volcano_or_absent_and_is_kept_by_the_effective_configuration() -> None:
    config, findings = read("actions: allocate\ncompatibility: volcano\n" + TIERS)
    assert (config.compatibility, findings) == ("volcano", [])
    again, _ = read(render_text(config))
    assert again.compatibility == render(config)["compatibility"] == "volcano"
    without, _ = read("actions: allocate\n" + TIERS)
    assert without.compatibility == "" and "compatibility" not in render(without)


@pytest.mark.parametrize("value", ["Volcano", "vulcano", "''", "true", "[volcano]", "kueue"])
def test_any_other_compatibility_is_an_error_that_names_the_right_value(value: str) -> None:
    finding = only(f"actions: allocate\ncompatibility: {value}\n" + TIERS)
    assert (finding.severity, finding.code, finding.line) == ("error", "unknown-compatibility", 2)
    assert "`compatibility: volcano`" in finding.fix
