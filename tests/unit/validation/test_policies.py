"""What `muster validate` says of policies."""

from __future__ import annotations

from builders.files import manifests, scheduler
from builders.manifests import manifest, node
from builders.node_groups import GROUP, REQUIRED, REQUIRED_OVERRIDE
from muster.model.finding import Finding
from muster.sim.validate import validate_cluster

WITH = 'actions: "allocate"\ntiers:\n- plugins:\n  - name: propagation\n'
WITHOUT = 'actions: "allocate"\ntiers:\n- plugins:\n  - name: predicates\n'


def found(configuration: str, *documents: dict[str, object]) -> list[Finding]:
    return validate_cluster(scheduler(configuration), manifests(node("n1", cpu=4), *documents), ("muster",))


def app(**labels: str) -> dict[str, object]:
    return manifest("apps/v1", "Deployment", "web", labels=labels, spec={"replicas": 0})


def policy(weight: int) -> dict[str, object]:
    entries = [{"nodeGroupNames": ["Edge"], "weight": weight}]
    return manifest(f"{GROUP}/v1alpha1", "PropagationPolicy", "pp", spec={"staticWeightList": entries})


def test_a_policy_that_cannot_be_used_is_an_error_at_the_place_of_the_field() -> None:
    (error,) = [f for f in found(WITH, policy(-1)) if f.severity == "error"]
    assert (error.object, error.code, error.line) == ("PropagationPolicy default/pp", "policy", 4)
    assert error.message == "spec.staticWeightList[0].weight: -1 is negative"


def test_groups_that_are_not_there_and_odd_spellings_are_warned_of() -> None:
    messages = [f.message for f in found(WITH, policy(1)) if f.severity == "warning"]
    assert any("there is no node group edge: its share waits" in m for m in messages)
    assert any("names node group 'Edge'; using 'edge'" in m for m in messages)


def test_an_application_whose_policy_does_not_exist_gets_the_nearest_name() -> None:
    finding = next(f for f in found(WITH, policy(1), app(**{REQUIRED: "pp-2"})) if f.code == "no-policy")
    assert finding.object == "Deployment default/web"
    assert finding.fix == "did you mean pp?"


def test_policies_that_no_plugin_obeys_are_reported() -> None:
    asking = app(**{REQUIRED: "pp"})
    assert any(f.code == "no-plugin" for f in found(WITHOUT, policy(1), asking))
    assert not any(f.code == "no-plugin" for f in found(WITH, policy(1), asking))


def test_faults_of_overrides_are_errors() -> None:
    rules = [{"imageOverrider": [{"component": "Tag", "operator": "add", "value": ""}]}]
    override = manifest(f"{GROUP}/v1alpha1", "OverridePolicy", "op", spec={"overrideRules": rules})
    errors = [f for f in found(WITH, override, app(**{REQUIRED_OVERRIDE: "op"})) if f.severity == "error"]
    assert [f.message for f in errors] == ["spec.overrideRules[0].imageOverrider[0].value: must not be empty for add"]


def test_a_policy_whose_name_no_label_can_carry_is_warned_of() -> None:
    long = manifest(f"{GROUP}/v1alpha1", "OverridePolicy", "p" * 64, spec={})
    (warning,) = [f for f in found(WITH, long) if f.code == "policy"]
    assert (warning.severity, warning.object) == ("warning", f"OverridePolicy default/{'p' * 64}")
    assert "no label value" in warning.message
