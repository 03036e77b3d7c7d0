"""Manifests: what is good is kept, what is bad is reported with its place, and the order does not matter."""

from __future__ import annotations

import gzip
import json
from textwrap import dedent

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.cluster.manifests import Manifests, read
from muster.groups.applications import replicas_of
from muster.model.core import Node, Pod
from muster.model.finding import Finding
from muster.model.kinds import KINDS
from muster.model.meta import kind_name
from muster.model.scheduling import PodGroup, Queue

NODE = "apiVersion: v1\nkind: Node\nmetadata: {name: n1}\nstatus: {allocatable: {cpu: 4, pods: 110}}\n"
POD = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {containers: [{name: c, image: i}]}\n"


def of(text: str, name: str = "cluster.yaml") -> Manifests:
    return read([(name, dedent(text).encode())])


def only(manifests: Manifests) -> Finding:
    assert len(manifests.findings) == 1, manifests.findings
    return manifests.findings[0]


def test_objects_are_found_by_kind_and_key_with_their_place() -> None:
    manifests = of(f"{NODE}---\n{POD}")
    assert list(manifests.of(Node)) == ["n1"]
    assert list(manifests.of(Pod)) == ["default/a"]
    assert manifests.where["Pod", "default/a"] == ("cluster.yaml", 6)
    assert manifests.findings == []


def test_what_the_api_server_would_fill_in_is_filled_in() -> None:
    manifests = of(f"{NODE}---\n{POD}")
    pod = manifests.of(Pod)["default/a"]
    assert (pod.metadata.namespace, pod.metadata.uid, pod.metadata.creation_timestamp) == ("default", "default/a", None)
    assert manifests.of(Node)["n1"].metadata.uid == "n1"


def test_lists_are_opened_and_typed_lists_lend_their_kind() -> None:
    manifests = of(
        """\
        apiVersion: v1
        kind: List
        items:
        - {apiVersion: v1, kind: Node, metadata: {name: n1}}
        - {apiVersion: v1, kind: Service, metadata: {name: s}}
        ---
        apiVersion: v1
        kind: PodList
        items:
        - metadata: {name: a}
        - metadata: {name: b}
        ---
        apiVersion: v1
        kind: NodeList
        items:
        """
    )
    assert manifests.findings == []
    assert list(manifests.of(Node)) == ["n1"]
    assert list(manifests.of(Pod)) == ["default/a", "default/b"]
    assert manifests.where["Pod", "default/b"] == ("cluster.yaml", 11)


def test_empty_documents_are_nothing_and_other_kinds_are_counted() -> None:
    manifests = of("---\n---\nnull\n---\napiVersion: v1\nkind: Service\nmetadata: {name: s}\n")
    assert manifests.objects == {}
    assert manifests.findings == []
    assert manifests.skipped == {"Service (v1)": 1}


def test_an_old_version_of_a_known_kind_is_reported() -> None:
    finding = only(of("apiVersion: scheduling.volcano.sh/v1alpha1\nkind: Queue\nmetadata: {name: q}\n"))
    assert (finding.severity, finding.code, finding.line) == ("warning", "version", 1)
    assert "scheduling.volcano.sh/v1beta1" in finding.fix


def test_broken_yaml_is_reported_and_the_rest_is_kept() -> None:
    manifests = of(f"{NODE}---\nfoo: [\n---\n{POD}")
    finding = only(manifests)
    assert (finding.severity, finding.code, finding.file) == ("error", "yaml", "cluster.yaml")
    assert list(manifests.of(Node)) == ["n1"]
    assert list(manifests.of(Pod)) == ["default/a"]


@pytest.mark.parametrize(
    ("line", "code", "path"),
    [
        ("metadata: {name: a, labels: {rack: 7}}", "type", "metadata.labels[rack]"),
        ("spec: {containers: {name: c}}", "type", "spec.containers"),
        ("spec: {containers: [{resources: {requests: {cpu: -1}}}]}", "value", "requests[cpu]"),
        ("spec: {containers: [{resources: {limits: {memory: 1GB}}}]}", "value", "limits[memory]"),
        ("spec: {containers: [{resources: {requests: {widgets: many}}}]}", "value", "requests[widgets]"),
        ("spec: {overhead: {cpu: 1e99}}", "value", "spec.overhead[cpu]"),
        ("spec: {tolerations: [{key: a, operator: Is}]}", "value", "spec.tolerations[0].operator"),
        (
            "spec: {affinity: {podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{}]}}}",
            "value",
            "topologyKey",
        ),
        ("spec: {topologySpreadConstraints: [{maxSkew: 0}]}", "value", "topologySpreadConstraints[0].maxSkew"),
        ("status: {startTime: noon}", "value", "status.startTime"),
    ],
)
def test_a_pod_that_cannot_be_is_reported_and_left_out(line: str, code: str, path: str) -> None:
    text = f"apiVersion: v1\nkind: Pod\n{line}\n"
    if not line.startswith("metadata"):
        text += "metadata: {name: a}\n"
    manifests = of(f"{NODE}---\n{text}")
    finding = only(manifests)
    assert (finding.severity, finding.code, finding.line) == ("error", code, 8)
    assert finding.object == "Pod default/a"
    assert path in finding.message
    assert finding.fix
    assert manifests.of(Pod) == {}
    assert list(manifests.of(Node)) == ["n1"]


@pytest.mark.parametrize(
    ("text", "path"),
    [
        (
            "{apiVersion: v1, kind: Node, metadata: {name: n}, status: {allocatable: {cpu: x}}}",
            "status.allocatable[cpu]",
        ),
        (
            "{apiVersion: v1, kind: Node, metadata: {name: n}, spec: {taints: [{key: a, effect: No}]}}",
            "taints[0].effect",
        ),
        (
            "{apiVersion: scheduling.volcano.sh/v1beta1, kind: Queue, metadata: {name: q}, "
            "spec: {guarantee: {resource: {cpu: -4}}}}",
            "spec.guarantee.resource[cpu]",
        ),
        (
            "{apiVersion: scheduling.volcano.sh/v1beta1, kind: PodGroup, metadata: {name: g}, spec: {minMember: -1}}",
            "spec.minMember",
        ),
        (
            "{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: b}, spec: {minAvailable: half}}",
            "spec.minAvailable",
        ),
        (
            "{apiVersion: apps/v1, kind: Deployment, metadata: {name: d}, "
            "spec: {template: {spec: {containers: [{resources: {requests: {cpu: lots}}}]}}}}",
            "spec.template.spec.containers[0].resources.requests[cpu]",
        ),
        (
            "{apiVersion: batch/v1, kind: CronJob, metadata: {name: c}, "
            "spec: {jobTemplate: {spec: {parallelism: -2}}}}",
            "spec.jobTemplate.spec.parallelism",
        ),
        (
            "{apiVersion: v1, kind: PersistentVolume, metadata: {name: v}, spec: {capacity: {storage: big}}}",
            "spec.capacity[storage]",
        ),
        (
            "{apiVersion: topology.volcano.sh/v1alpha1, kind: HyperNode, metadata: {name: h}, "
            "spec: {members: [{type: Node, selector: {regexMatch: {pattern: '('}}}]}}",
            "spec.members[0].selector.regexMatch.pattern",
        ),
    ],
)
def test_other_objects_that_cannot_be_are_reported_and_left_out(text: str, path: str) -> None:
    manifests = of(text)
    finding = only(manifests)
    assert finding.severity == "error"
    assert path in finding.message
    assert manifests.objects == {}


def test_the_line_is_that_of_the_field() -> None:
    finding = only(
        of(
            """\
            apiVersion: v1
            kind: Pod
            metadata:
              name: a
            spec:
              containers:
              - name: c
                resources:
                  requests:
                    cpu: 1
                    memory: 3GB
            """
        )
    )
    assert finding.line == 11


def test_odd_but_valid_objects_are_fine() -> None:
    manifests = of(
        """\
        {apiVersion: scheduling.volcano.sh/v1beta1, kind: PodGroup, metadata: {name: g}, spec: {minMember: 0}}
        ---
        {apiVersion: scheduling.volcano.sh/v1beta1, kind: Queue, metadata: {name: q}}
        ---
        {apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: b}, spec: {selector: {matchLabels: {a: b}}}}
        """
    )
    assert manifests.findings == []
    assert manifests.of(PodGroup)["default/g"].spec.min_member == 0
    assert list(manifests.of(Queue)) == ["q"]


def test_a_nameless_object_is_reported() -> None:
    finding = only(of("apiVersion: v1\nkind: Pod\nmetadata: {generateName: a-}\n"))
    assert (finding.severity, finding.code, finding.line) == ("error", "name", 3)


def test_an_object_that_is_there_twice_is_reported_with_both_places() -> None:
    other = NODE.replace("cpu: 4", "cpu: 8")
    manifests = read([("a.yaml", NODE.encode()), ("b.yaml", other.encode())])
    finding = only(manifests)
    assert (finding.severity, finding.code) == ("error", "duplicate")
    assert {finding.file, finding.message.rpartition(" ")[2].partition(":")[0]} == {"a.yaml", "b.yaml"}
    turned = read([("b.yaml", other.encode()), ("a.yaml", NODE.encode())])
    assert turned.objects == manifests.objects


def test_two_pods_cannot_have_one_uid() -> None:
    manifests = of(
        "{apiVersion: v1, kind: Pod, metadata: {name: b, uid: u}}\n---\n"
        "{apiVersion: v1, kind: Pod, metadata: {name: a, uid: u}}\n"
    )
    finding = only(manifests)
    assert (finding.code, finding.object, finding.line) == ("duplicate", "Pod default/b", 1)
    assert list(manifests.of(Pod)) == ["default/a"]
    assert ("Pod", "default/b") not in manifests.where


def test_the_findings_name_the_errors_of_the_designs_queue_sample() -> None:
    manifests = of(
        """\
        apiVersion: scheduling.volcano.sh/v1beta1
        kind: Queue
        metadata:
          name: default
          spec:
            weight: 1
        """
    )
    finding = only(manifests)
    assert (finding.severity, finding.code, finding.line) == ("error", "unknown-field", 5)
    assert "indented too far" in finding.fix
    assert list(manifests.of(Queue)) == ["default"]


def test_a_misspelt_field_of_a_custom_resource_gets_the_nearest_name() -> None:
    text = "{apiVersion: scheduling.volcano.sh/v1beta1, kind: Queue, metadata: {name: q}, spec: {wieght: 2}}"
    assert only(of(text)).fix == "did you mean weight?"


@pytest.mark.parametrize(
    ("text", "severity"), [("actions: allocate\n", "notice"), ("kind: Pod\n", "error"), ("- 1\n", "error")]
)
def test_what_is_no_object_is_reported(text: str, severity: str) -> None:
    assert only(of(text)).severity == severity


def test_json_is_read_like_yaml() -> None:
    value = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "labels": {"x": 1}}}
    finding = only(read([("a.json", json.dumps(value, indent=1).encode())]))
    assert finding.line == 7
    assert "metadata.labels[x]" in finding.message


def test_a_snapshot_is_one_object_a_line() -> None:
    lines = [{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}} for name in ("a", "b")]
    data = gzip.compress(b"\n".join([json.dumps(lines[0]).encode(), b"{", json.dumps(lines[1]).encode(), b""]))
    manifests = read([("snap.gz", data)])
    assert list(manifests.of(Pod)) == ["default/a", "default/b"]
    assert manifests.where["Pod", "default/b"] == ("snap.gz", 3)
    finding = only(manifests)
    assert (finding.severity, finding.code, finding.line) == ("error", "snapshot", 2)


def test_packed_yaml_is_read_too() -> None:
    assert list(read([("a.yaml.gz", gzip.compress(NODE.encode()))]).of(Node)) == ["n1"]


CUT_OFF = gzip.compress(b"{}", mtime=0)[:-6]


@pytest.mark.parametrize("data", [CUT_OFF, b"\x1f\x8brubbish", b"kind: \xff\n", b"\xff\xfek\0"])
def test_bytes_that_are_no_text_are_reported(data: bytes) -> None:
    assert only(read([("f", data)])).severity == "error"


def test_the_clock_starts_at_the_latest_timestamp() -> None:
    manifests = of(
        """\
        {apiVersion: v1, kind: Pod, metadata: {name: a, creationTimestamp: "2026-01-01T00:00:00Z"}}
        ---
        {apiVersion: v1, kind: Pod, metadata: {name: b}, status: {startTime: "2026-01-01T00:01:00Z"}}
        ---
        {apiVersion: v1, kind: Pod, metadata: {name: c},
         status: {conditions: [{type: Ready, lastTransitionTime: "2026-01-01T00:00:30Z"}]}}
        """
    )
    assert manifests.latest == 1767225660.0
    assert of(NODE).latest == 0.0


DOCUMENTS = [NODE, POD, POD.replace("name: a", "name: b"), NODE.replace("cpu: 4", "cpu: 5"), "kind: [\n", "a: 1\n"]


@given(st.permutations(DOCUMENTS))
def test_the_objects_do_not_depend_on_the_order_of_documents(documents: list[str]) -> None:
    plain = of("---\n".join(DOCUMENTS))
    turned = of("---\n".join(documents))
    assert turned.objects == plain.objects
    assert [list(turned.objects), list(turned.of(Pod))] == [list(plain.objects), list(plain.of(Pod))]
    assert sorted(f.code for f in turned.findings) == sorted(f.code for f in plain.findings)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=4),
    lambda below: st.lists(below, max_size=3) | st.dictionaries(st.text(max_size=4), below, max_size=3),
    max_leaves=6,
)
FIELDS = [
    ("metadata",),
    ("metadata", "labels"),
    ("metadata", "ownerReferences"),
    ("spec",),
    ("spec", "containers"),
    ("spec", "affinity"),
    ("spec", "template"),
    ("spec", "capability"),
    ("spec", "minMember"),
    ("spec", "overrideRules"),
    ("spec", "tasks"),
    ("status",),
    ("status", "allocatable"),
    ("status", "conditions"),
    ("items",),
]


@given(st.sampled_from([*KINDS, "List", "PodList"]), st.sampled_from(FIELDS), JSON)
def test_any_value_of_a_field_is_read_or_reported(kind: str, path: tuple[str, ...], anything: object) -> None:
    version = KINDS[kind]().api_version if kind in KINDS else "v1"
    named = kind_name(KINDS[kind]) if kind in KINDS else kind
    value: dict[str, object] = {"apiVersion": version, "kind": named, "metadata": {"name": "x"}}
    inner = value
    for step in path[:-1]:
        below = inner.setdefault(step, {})
        assert isinstance(below, dict)
        inner = below
    inner[path[-1]] = anything
    manifests = read([("x.json", json.dumps(value).encode())])
    assert list(manifests) or manifests.findings or kind.endswith("List")


def test_objects_of_a_kind_that_the_config_map_names_are_read() -> None:
    text = (
        "{apiVersion: apps.kruise.io/v1alpha1, kind: CloneSet, metadata: {name: c}, "
        "spec: {replicas: 3, template: {}}}\n---\n"
        "{apiVersion: apps.kruise.io/v1beta1, kind: CloneSet, metadata: {name: d}, "
        "spec: {replicas: 3, template: {}}}\n---\n"
        "{apiVersion: v1, kind: ConfigMap, metadata: {name: groupmanagement-config, namespace: kubeedge}, data: "
        '{config.yaml: "applications: [{group: apps.kruise.io, version: v1alpha1, kind: CloneSet}]"}}\n'
    )
    manifests = read([("all.yaml", text.encode())])
    found = manifests.objects["CloneSet.apps.kruise.io"]
    assert list(found) == ["default/c"]
    assert replicas_of(found["default/c"]) == 3
    assert manifests.skipped == {"CloneSet (apps.kruise.io/v1beta1)": 1}


def test_a_config_map_that_cannot_be_used_is_reported_and_names_no_kinds() -> None:
    text = (
        "{apiVersion: apps.kruise.io/v1alpha1, kind: CloneSet, metadata: {name: c}, spec: {replicas: 3}}\n---\n"
        "{apiVersion: v1, kind: ConfigMap, metadata: {name: groupmanagement-config}, data: "
        '{config.yaml: "applications: [{kind: CloneSet}]"}}\n'
    )
    manifests = read([("all.yaml", text.encode())])
    assert [(f.severity, f.line, f.code) for f in manifests.findings] == [("warning", 3, "configured-kinds")]
    assert "applications[0]" in manifests.findings[0].message
    assert manifests.skipped == {"CloneSet (apps.kruise.io/v1alpha1)": 1}
