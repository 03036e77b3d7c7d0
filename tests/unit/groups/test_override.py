"""Editions of a pod template."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import msgspec
import pytest

from muster.groups.override import OverrideError, edition, faults
from muster.groups.override.image import changed, parse
from muster.groups.override.json_patch import PointerError
from muster.groups.override.policy import in_pod, warnings
from muster.model.groups import OverridePolicySpec

SHA = "sha256:" + "0123456789abcdef" * 4
TEMPLATE: dict[str, Any] = {
    "metadata": {"labels": {"app": "a"}},
    "spec": {
        "containers": [
            {"name": "web", "image": "docker.io/library/nginx:1.25", "args": ["-v", "-x"]},
            {"name": "side", "image": "side"},
        ],
        "initContainers": [{"name": "init", "image": "init:1"}],
    },
}


def policy(*rules: dict[str, Any]) -> OverridePolicySpec:
    return msgspec.convert({"overrideRules": list(rules)}, OverridePolicySpec)


def made(*rules: dict[str, Any], group: str = "hangzhou", template: dict[str, Any] = TEMPLATE) -> dict[str, Any]:
    before = deepcopy(template)
    found = edition(policy(*rules), [group], template).template
    assert template == before
    return found


def patch(path: str, operator: str, **value: Any) -> dict[str, Any]:
    return {"plaintext": [{"path": path, "operator": operator, **value}]}


def image(component: str, operator: str, value: str = "", **more: Any) -> dict[str, Any]:
    return {"imageOverrider": [{"component": component, "operator": operator, "value": value, **more}]}


class TestImages:
    @pytest.mark.parametrize(
        ("text", "parts"),
        [
            ("nginx", ("", "nginx", "", "")),
            ("ubuntu/nginx:1", ("", "ubuntu/nginx", "1", "")),
            ("localhost/nginx", ("localhost", "nginx", "", "")),
            ("host:5000/a/b", ("host:5000", "a/b", "", "")),
            (f"reg.io/a:1@{SHA}", ("reg.io", "a", "1", SHA)),
            (f"a@{SHA}", ("", "a", "", SHA)),
        ],
    )
    def test_a_name_is_taken_apart_and_put_together_again(self, text: str, parts: tuple[str, ...]) -> None:
        found = parse(text)
        assert (found.registry, found.repository, found.tag, found.digest) == parts
        assert str(found) == text

    @pytest.mark.parametrize(
        ("before", "component", "operator", "value", "after"),
        [
            ("nginx", "Registry", "add", "reg.io", "reg.io/nginx"),
            ("reg.io/nginx", "Registry", "add", ":5000", "reg.io:5000/nginx"),
            (f"reg.io/nginx:1@{SHA}", "Registry", "replace", "other.io/mirror/", f"other.io/mirror/nginx:1@{SHA}"),
            ("reg.io/nginx:1", "Registry", "remove", "ignored", "nginx:1"),
            ("reg.io/nginx:1", "Repository", "add", "/alpine", "reg.io/nginx/alpine:1"),
            ("reg.io/nginx:1", "Repository", "replace", "x", "reg.io/x:1"),
            ("nginx:1", "Tag", "add", "-alpine", "nginx:1-alpine"),
            ("nginx", "Tag", "add", "v2", "nginx:v2"),
            (f"nginx:1@{SHA}", "Tag", "replace", "2", "nginx:2"),
            ("nginx:1", "Tag", "replace", f"@{SHA}", f"nginx@{SHA}"),
            ("nginx:1", "Tag", "replace", ":2", "nginx:2"),
            ("nginx:1", "Tag", "replace", "no tag", "nginx:1"),
            (f"nginx:1@{SHA}", "Tag", "remove", "", "nginx"),
        ],
    )
    def test_a_part_is_changed(self, before: str, component: str, operator: str, value: str, after: str) -> None:
        assert str(changed(parse(before), component, operator, value)) == after

    def test_all_containers_are_changed_but_init_containers_only_if_asked(self) -> None:
        spec = made(image("Registry", "replace", "r.io"))["spec"]
        assert [c["image"] for c in spec["containers"]] == ["r.io/library/nginx:1.25", "r.io/side"]
        assert spec["initContainers"][0]["image"] == "init:1"
        spec = made(image("Registry", "replace", "r.io", includeInitContainers=True))["spec"]
        assert spec["initContainers"][0]["image"] == "r.io/init:1"

    @pytest.mark.parametrize("path", ["spec/initContainers/0/image", "/spec/template/spec/initContainers/0/image"])
    def test_a_predicate_means_one_image(self, path: str) -> None:
        spec = made(image("Tag", "replace", "2", predicate={"path": path}))["spec"]
        assert spec["initContainers"][0]["image"] == "init:2"
        assert spec["containers"] == TEMPLATE["spec"]["containers"]

    @pytest.mark.parametrize("path", ["/spec/containers/7/image", "/spec/containers/0/args", "/spec/containers/0"])
    def test_a_predicate_that_is_no_image_fails(self, path: str) -> None:
        with pytest.raises(OverrideError, match=r"imageOverrider\[0\]"):
            made(image("Tag", "replace", "2", predicate={"path": path}))


class TestCommands:
    def test_items_are_appended_or_taken_out(self) -> None:
        web = made({"argsOverrider": [{"containerName": "web", "operator": "add", "value": ["-v"]}]})
        assert web["spec"]["containers"][0]["args"] == ["-v", "-x", "-v"]
        web = made({"argsOverrider": [{"containerName": "web", "operator": "remove", "value": ["-v", "-x"]}]})
        assert web["spec"]["containers"][0]["args"] == []
        side = made({"commandOverrider": [{"containerName": "side", "operator": "add", "value": ["sh"]}]})
        assert side["spec"]["containers"][1]["command"] == ["sh"]

    def test_nothing_to_change_changes_nothing(self) -> None:
        assert made({"argsOverrider": [{"containerName": "web", "operator": "add"}]}) == TEMPLATE
        rules = policy({"argsOverrider": [{"containerName": "nobody", "operator": "add", "value": ["x"]}]})
        found = edition(rules, ["g"], TEMPLATE)
        assert found.template == TEMPLATE
        assert found.warnings == [
            "spec.overrideRules[0].argsOverrider[0]: there is no container nobody; nothing is changed"
        ]


class TestPatches:
    def test_a_path_is_the_pods_own_or_the_workloads(self) -> None:
        for path in ("/spec/nodeSelector", "/spec/template/spec/nodeSelector"):
            assert made(patch(path, "add", value={"a": "b"}))["spec"]["nodeSelector"] == {"a": "b"}
        cron = "/spec/jobTemplate/spec/template/metadata/labels/x~1y"
        assert made(patch(cron, "add", value="z"))["metadata"]["labels"] == {"app": "a", "x/y": "z"}

    @pytest.mark.parametrize(
        ("path", "operator", "value", "args"),
        [
            ("/spec/containers/0/args/0", "add", "new", ["new", "-v", "-x"]),
            ("/spec/containers/0/args/-", "add", "new", ["-v", "-x", "new"]),
            ("/spec/containers/0/args/2", "add", "new", ["-v", "-x", "new"]),
            ("/spec/containers/0/args/1", "replace", "new", ["-v", "new"]),
            ("/spec/containers/0/args/1", "update", "new", ["-v", "new"]),
            ("/spec/containers/0/args", "add", None, None),
        ],
    )
    def test_a_value_comes_to_its_place(self, path: str, operator: str, value: Any, args: Any) -> None:
        assert made(patch(path, operator, value=value))["spec"]["containers"][0]["args"] == args

    def test_what_is_there_is_removed(self) -> None:
        assert "args" not in made(patch("/spec/containers/0/args", "remove"))["spec"]["containers"][0]

    @pytest.mark.parametrize(
        ("path", "operator", "value"),
        [
            ("/spec/nodeSelector/a", "add", "b"),
            ("/spec/hostname", "replace", "b"),
            ("/spec/hostname", "remove", None),
            ("/spec/containers/0/args/3", "add", "x"),
            ("/spec/containers/0/args/-", "replace", "x"),
            ("/spec/containers/01/image", "replace", "x"),
            ("/spec/containers/0/image/x", "add", "x"),
        ],
    )
    def test_a_path_that_leads_nowhere_fails_and_names_its_rule(self, path: str, operator: str, value: Any) -> None:
        with pytest.raises(OverrideError, match=r"overrideRules\[0\]\.plaintext\[0\]"):
            made(patch(path, operator, value=value))

    @pytest.mark.parametrize(
        "path", ["/spec/replicas", "/metadata/name", "/status/phase", "/spec", "", "spec/hostname", "/spec/~2"]
    )
    def test_only_fields_of_the_pod_have_a_path(self, path: str) -> None:
        with pytest.raises(PointerError):
            in_pod(path)
        assert faults(policy(patch(path, "add", value=1)))


class TestRules:
    def test_rules_apply_in_the_order_written_and_images_before_patches(self) -> None:
        rule = {**patch("/spec/containers/1/image", "replace", value="last"), **image("Registry", "replace", "r.io")}
        spec = made(rule, {"targetNodeGroup": ["Hangzhou"], **image("Tag", "replace", "9")})["spec"]
        assert [c["image"] for c in spec["containers"]] == ["r.io/library/nginx:9", "last:9"]

    def test_a_rule_for_other_groups_does_not_apply(self) -> None:
        rule = {"targetNodeGroup": ["beijing"], **image("Tag", "replace", "9")}
        assert made(rule) == TEMPLATE
        assert made({**rule, "targetNodeGroup": ["beijing", "hangzhou"]}) != TEMPLATE

    def test_both_ways_of_writing_a_rule_are_read_those_beside_after_those_under(self) -> None:
        rule = {**image("Tag", "add", "-b"), "overriders": image("Tag", "add", "-a")}
        assert made(rule)["spec"]["containers"][0]["image"].endswith("nginx:1.25-a-b")
        assert ["overriders" in t.message for t in warnings(policy(rule))] == [True]

    def test_the_groups_name_stands_for_itself_in_values_never_in_paths(self) -> None:
        rule = {
            **image("Registry", "replace", "{{nodegroup}}.registry.io"),
            "argsOverrider": [{"containerName": "web", "operator": "add", "value": ["--at={{nodegroup}}"]}],
            **patch("/metadata/annotations", "add", value={"{{nodegroup}}": [{"in": "{{nodegroup}}"}]}),
        }
        found = made(rule)
        assert found["spec"]["containers"][1]["image"] == "hangzhou.registry.io/side"
        assert found["spec"]["containers"][0]["args"][-1] == "--at=hangzhou"
        assert found["metadata"]["annotations"] == {"hangzhou": [{"in": "hangzhou"}]}
        with pytest.raises(OverrideError):
            made(patch("/spec/{{nodegroup}}", "add", value=1), group="hostname")

    def test_a_pod_in_several_groups_has_the_rules_of_all_of_them(self) -> None:
        rules = [{"targetNodeGroup": [g], **image("Tag", "add", "-{{nodegroup}}")} for g in ("arm", "city", "other")]
        found = edition(policy(*rules), ["arm", "city"], TEMPLATE).template
        assert found["spec"]["containers"][0]["image"].endswith(":1.25-arm-city")

    def test_a_failure_leaves_nothing_half_done(self) -> None:
        before = deepcopy(TEMPLATE)
        with pytest.raises(OverrideError):
            edition(policy(image("Tag", "replace", "9"), patch("/spec/hostname", "remove")), ["g"], TEMPLATE)
        assert before == TEMPLATE

    @pytest.mark.parametrize(
        ("rule", "message"),
        [
            (image("Registry", "replace"), "must not be empty"),
            (image("Repository", "remove"), "without a repository"),
            (image("Colour", "add", "x"), "'Colour' is none of"),
            (image("Tag", "update", "x"), "'update' is none of"),
            ({"argsOverrider": [{"containerName": "a", "operator": "replace"}]}, "'replace' is none of add, remove"),
            (patch("/spec/hostname", "add"), "add needs one"),
            (patch("/spec/hostname", "remove", value="x"), "must be empty for remove"),
            (patch("/spec/hostname", "", value="x"), "is missing"),
        ],
    )
    def test_faults_are_found_before_anything_is_applied(self, rule: dict[str, Any], message: str) -> None:
        (fault,) = faults(policy(rule))
        assert message in fault.message and fault.path.startswith("spec.overrideRules[0].")
        with pytest.raises(OverrideError):
            made({"targetNodeGroup": ["another"], **rule})


class TestResult:
    @pytest.mark.parametrize(
        ("path", "operator", "value", "message"),
        [
            ("/spec/containers", "replace", [], "no containers"),
            ("/spec/containers/0/image", "replace", "", "container web has no image"),
            ("/spec/containers/1/name", "replace", "web", "two containers called web"),
            ("/spec/initContainers/0/name", "remove", None, "without a name"),
        ],
    )
    def test_the_result_is_still_a_pod(self, path: str, operator: str, value: Any, message: str) -> None:
        with pytest.raises(OverrideError, match=message):
            made(patch(path, operator, value=value))

    @pytest.mark.parametrize(
        "reference",
        ["nginx latest", "Nginx", "r.io/A", "nginx:", "nginx:-1", "nginx@sha256:12", "r_r.io/a", "a//b", "a:b:c", "/a"],
    )
    def test_an_image_has_the_grammar_of_references(self, reference: str) -> None:
        with pytest.raises(OverrideError, match="container web: image"):
            made(patch("/spec/containers/0/image", "replace", value=reference))

    @pytest.mark.parametrize(
        "reference", ["nginx", "a/b/c:1_2.3-x", f"[::1]:5000/a@{SHA}", "localhost/a__b", f"r.io:5000/a-b--c:1@{SHA}"]
    )
    def test_an_image_that_can_be_pulled_is_taken(self, reference: str) -> None:
        assert made(patch("/spec/containers/0/image", "replace", value=reference))

    @pytest.mark.parametrize(
        ("component", "value"),
        [("Tag", "no tag"), ("Registry", "http://r.io"), ("Repository", "Nginx"), ("Tag", "@sha256:12")],
    )
    def test_an_image_overrider_s_value_is_a_part_of_an_image(self, component: str, value: str) -> None:
        (fault,) = faults(policy(image(component, "replace", value)))
        assert fault.path == "spec.overrideRules[0].imageOverrider[0].value" and repr(value) in fault.message
        assert not faults(policy(image("Tag", "replace", "{{nodegroup}}-1")))
        assert not faults(policy(image("Registry", "replace", "r.io:5000/mirror/")))
