"""Plain values become objects, or a sentence that says which field cannot be read."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from muster.model import kinds
from muster.model.core import Node, Pod
from muster.model.groups import OverridePolicy, PropagationPolicy
from muster.model.meta import kind_name
from muster.model.scheduling import PodGroup, Queue
from muster.model.shape import Problem, problems, steps
from muster.model.storage import CSINode
from muster.model.topology import HyperNode, Topology


def plain_pod(**parts: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, **parts}


def test_every_kind_is_found_under_its_own_apiversion_and_empty_objects_load() -> None:
    for name, cls in kinds.KINDS.items():
        version, kind = cls().api_version, kind_name(cls)
        assert kinds.find(version, kind) is cls
        loaded = kinds.decode({"apiVersion": version, "kind": kind})
        assert (loaded.api_version, loaded.kind) == (version, kind)
        assert kinds.table_name(version.rpartition("/")[0], kind) == name


def test_a_kind_of_another_group_is_not_ours() -> None:
    assert kinds.find("scheduling.k8s.io/v1alpha1", "PodGroup") is None
    with pytest.raises(Problem, match="muster does not read PodGroup"):
        kinds.decode({"apiVersion": "scheduling.k8s.io/v1alpha1", "kind": "PodGroup"})


def test_both_topologies_are_read_and_remember_which_they_are() -> None:
    for version in ("kueue.x-k8s.io/v1alpha1", "kai.scheduler/v1alpha1"):
        value = {"apiVersion": version, "kind": "Topology", "spec": {"levels": [{"nodeLabel": "zone"}]}}
        topology = kinds.decode(value)
        assert isinstance(topology, Topology)
        assert [level.node_label for level in topology.spec.levels] == ["zone"]
        assert kinds.plain(topology)["apiVersion"] == version


def test_spelling_that_is_not_camel_case_is_kubernetes_own() -> None:
    value = plain_pod(
        spec={
            "containers": [{"ports": [{"hostPort": 80, "hostIP": "10.0.0.1"}]}],
            "volumes": [{"awsElasticBlockStore": {"volumeID": "v"}}, {"gcePersistentDisk": {"pdName": "d"}}],
        }
    )
    read = kinds.decode_as(Pod, value)
    assert read.spec.containers[0].ports[0].host_ip == "10.0.0.1"
    assert [v.aws_elastic_block_store.volume_id for v in read.spec.volumes if v.aws_elastic_block_store] == ["v"]
    assert [v.gce_persistent_disk.pd_name for v in read.spec.volumes if v.gce_persistent_disk] == ["d"]


def test_an_object_written_plainly_reads_as_the_same_object() -> None:
    value = plain_pod(
        spec={
            "nodeSelector": {"disk": "ssd"},
            "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}, "env": [{"name": "A"}]}],
            "affinity": {
                "podAntiAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": [
                        {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "web"}}}
                    ]
                }
            },
        }
    )
    read = kinds.decode(value)
    assert kinds.decode(kinds.plain(read)) == read
    assert kinds.plain(read)["spec"] == value["spec"]


def test_fields_the_model_does_not_have_are_passed_over() -> None:
    read = kinds.decode_as(Node, {"spec": {"podCIDR": "10.0.0.0/24"}, "status": {"nodeInfo": {"a": 1}}})
    assert read == Node()


def test_null_is_an_absent_field_as_the_api_server_has_it() -> None:
    value = plain_pod(spec={"tolerations": None, "priority": None, "containers": [{"name": "c", "resources": None}]})
    value["metadata"] = {"name": "a", "labels": None, "annotations": {"note": None}, "creationTimestamp": None}
    read = kinds.decode_as(Pod, value)
    assert (read.metadata.labels, read.spec.tolerations, read.spec.priority) == ({}, [], None)
    assert read.metadata.annotations == {"note": ""}
    assert read.spec.containers[0].name == "c"


def test_json_text_is_read_like_a_plain_value() -> None:
    text = b'{"metadata": {"name": "n1", "labels": null}, "spec": {"drivers": null}}'
    assert kinds.decode_json(CSINode, text).metadata.name == "n1"
    with pytest.raises(Problem, match=r"metadata\.labels\[a\]: must be a string"):
        kinds.decode_json(CSINode, b'{"metadata": {"labels": {"a": 1}}}')


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (plain_pod(metadata={"labels": {"rack": 7}}), 'metadata.labels[rack]: must be a string: quote it: "7"'),
        (plain_pod(metadata={"labels": {"gpu": True}}), 'metadata.labels[gpu]: must be a string: quote it: "true"'),
        (plain_pod(metadata={"annotations": {"a": {}}}), "metadata.annotations[a]: must be a string, not a mapping"),
        (plain_pod(spec={"containers": {"name": "c"}}), "spec.containers: must be a list, not a mapping"),
        (plain_pod(spec={"containers": [None]}), "spec.containers[0]: is empty"),
        (plain_pod(spec={"containers": [{"args": [1]}]}), "spec.containers[0].args[0]: must be a string"),
        (plain_pod(spec={"priority": "high"}), "spec.priority: must be a whole number"),
        (plain_pod(spec={"priority": 10**30}), "spec.priority: is out of range"),
        (plain_pod(spec={"hostNetwork": "yes"}), "spec.hostNetwork: must be true or false"),
        (
            plain_pod(spec={"containers": [{"resources": {"limits": {"cpu": ["1"]}}}]}),
            "spec.containers[0].resources.limits[cpu]: must be a quantity, not a list",
        ),
        (plain_pod(spec="text"), 'spec: must be a mapping, not the text "text"'),
    ],
)
def test_a_field_of_the_wrong_type_is_named_in_kubernetes_spelling(value: dict[str, Any], message: str) -> None:
    with pytest.raises(Problem) as refused:
        kinds.decode(value)
    assert str(refused.value).startswith(message)


def test_all_fields_of_the_wrong_type_can_be_had_at_once() -> None:
    value = plain_pod(metadata={"labels": {"a": 1, "b": 2}}, spec={"priority": []})
    assert [problem.path for problem in problems(Pod, value)] == [
        "metadata.labels[a]",
        "metadata.labels[b]",
        "spec.priority",
    ]


def test_a_path_leads_back_to_its_keys_and_indices() -> None:
    assert steps("spec.containers[0].resources.requests[nvidia.com/gpu]") == [
        "spec",
        "containers",
        0,
        "resources",
        "requests",
        "nvidia.com/gpu",
    ]


def test_unknown_fields_of_a_queue_are_reported_even_where_the_design_itself_put_them() -> None:
    value = {
        "metadata": {"name": "default", "managedFields": [], "spec": {"weight": 1}},
        "spec": {"wieght": 2, "affinity": {"nodeGroupAffinity": {"required": ["a"]}}},
        "status": {"anything": 1},
    }
    assert [unknown.path for unknown in kinds.unknown_fields(Queue, value)] == [
        "metadata.spec",
        "spec.wieght",
        "spec.affinity.nodeGroupAffinity.required",
    ]


def test_unknown_fields_of_kubernetes_own_kinds_are_not_found_here_but_in_fields() -> None:
    assert kinds.unknown_fields(Pod, plain_pod(spec={"dnsPolicy": "None", "wieght": 1})) == []


def test_both_spellings_of_sub_groups_are_known() -> None:
    value = {
        "spec": {
            "minMember": 2,
            "minTaskMember": {"worker": 2},
            "networkTopology": {"mode": "soft", "highestTierAllowed": 2},
            "subGroupPolicy": [{"name": "p", "subGroupSize": 2, "labelSelector": {"matchLabels": {"a": "b"}}}],
            "subGroups": [{"name": "s", "minMember": 1, "topologyConstraint": {"requiredTopologyLevel": "rack"}}],
        }
    }
    group = kinds.decode_as(PodGroup, value)
    assert kinds.unknown_fields(PodGroup, value) == []
    assert group.spec.sub_group_policy[0].sub_group_size == 2
    assert group.spec.sub_groups[0].topology_constraint is not None


def test_the_designs_override_policy_is_known_in_both_forms() -> None:
    rule = {"imageOverrider": [{"component": "Registry", "operator": "replace", "value": "r.io"}]}
    patch = {"path": "/spec/x", "operator": "add", "value": None}
    value = {"spec": {"overrideRules": [rule, {"targetNodeGroup": ["b"], "overriders": {"plaintext": [patch]}}]}}
    policy = kinds.decode_as(OverridePolicy, value)
    assert kinds.unknown_fields(OverridePolicy, value) == []
    direct, nested = policy.spec.override_rules
    assert direct.image_overrider[0].value == "r.io"
    assert nested.overriders is not None
    assert nested.overriders.plaintext[0].value is None
    without = kinds.decode_as(OverridePolicy, {"spec": {"overrideRules": [{"plaintext": [{"path": "/x"}]}]}})
    assert without.spec.override_rules[0].plaintext[0].value is msgspec.UNSET


def test_propagation_and_hypernodes_read_their_lists() -> None:
    policy = kinds.decode_as(
        PropagationPolicy,
        {"spec": {"staticWeightList": [{"nodeGroupNames": ["a"], "weight": 2}], "numRange": [{"max": 0}]}},
    )
    assert policy.spec.static_weight_list[0].weight == 2
    assert (policy.spec.num_range[0].min, policy.spec.num_range[0].max) == (0, 0)
    leaf = kinds.decode_as(
        HyperNode,
        {"spec": {"tier": 1, "members": [{"type": "Node", "selector": {"exactMatch": {"name": "n1"}}}]}},
    )
    exact = leaf.spec.members[0].selector.exact_match
    assert exact is not None
    assert exact.name == "n1"
