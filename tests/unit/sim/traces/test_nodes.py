"""Lists of nodes and manifests become nodes."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from muster.model.core import Node
from muster.model.finding import InputError
from muster.sim.traces.nodes import read_nodes

OPENB = "sn,cpu_milli,memory_mib,gpu,model\nopenb-node-0000,64000,262144,2,P100\nopenb-node-0001,32000,1,0,\n"


def nodes(folder: Path, text: str | bytes, name: str = "nodes") -> list[Node]:
    (folder / name).write_bytes(text.encode() if isinstance(text, str) else text)
    return read_nodes([str(folder / name)])


def shown(node: Node) -> tuple[object, ...]:
    offered = node.status.allocatable
    model = node.metadata.labels.get("nvidia.com/gpu.product")
    return node.metadata.name, offered["cpu"], offered.get("memory"), offered.get("nvidia.com/gpu"), model


def test_openb(tmp_path: Path) -> None:
    found = [shown(node) for node in nodes(tmp_path, gzip.compress(OPENB.encode()))]
    assert found == [
        ("openb-node-0000", "64000m", 262144 * 2**20, 2, "P100"), ("openb-node-0001", "32000m", 2**20, None, None)
    ]  # fmt: skip
    assert nodes(tmp_path, OPENB)[0].status.allocatable["pods"] == 110


def test_pai_spot_and_our_own_columns(tmp_path: Path) -> None:
    pai = nodes(tmp_path, "machine,gpu_type,cap_cpu,cap_mem,cap_gpu\nAB12,V100M32,96,512,8\n")
    assert shown(pai[0]) == ("ab12", "96000m", 512 * 2**30, 8, "V100M32")
    spot = nodes(tmp_path, "gpu_model,gpu_capacity_num,cpu_num,node_name\nTesla T4,4,192,0\n")
    assert shown(spot[0]) == ("node-0", "192000m", None, 4, "Tesla-T4")
    own = nodes(tmp_path, "name,cpu,memory_gib,gpus,pods\na,4,8,0,20\n")
    assert shown(own[0]) == ("a", "4000m", 8 * 2**30, None, None) and own[0].status.allocatable["pods"] == 20


def test_a_cluster_specification_of_tiresias(tmp_path: Path) -> None:
    spec = "num_switch,num_node_p_switch,num_gpu_p_node,num_cpu_p_node,mem_p_node\n2,16,4,128,254"
    found = nodes(tmp_path, spec)
    assert len(found) == 32 and shown(found[31]) == ("node-0031", "128000m", 254 * 2**30, 4, None)


def test_manifests_are_read_as_they_are(tmp_path: Path) -> None:
    manifest = "kind: Node\napiVersion: v1\nmetadata: {name: n1}\nstatus: {allocatable: {cpu: 8}}\n"
    assert shown(nodes(tmp_path, manifest)[0])[:2] == ("n1", 8)
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "n.yaml").write_text(manifest)
    assert [node.metadata.name for node in read_nodes([str(tmp_path / "folder")])] == ["n1"]


def test_the_name_of_the_gpu_resource_can_be_another(tmp_path: Path) -> None:
    (tmp_path / "nodes.csv").write_text(OPENB)
    assert read_nodes([str(tmp_path / "nodes.csv")], "amd.com/gpu")[0].status.allocatable["amd.com/gpu"] == 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (OPENB + "n2,x,1,1,\n", "nodes:4: error: cpu_milli is not a number"),
        (OPENB + "n2,1,1\n", "nodes:4: error: the row has 3 columns"),
        (OPENB.splitlines()[0], "there is no node"),
        ("a,b,c\n1,2,3\n", "the columns are those of no list of nodes"),
        ("name,cpu,gpus\na,1,0.5\n", "whole number of GPUs"),
        ("num_switch,num_node_p_switch,num_gpu_p_node,num_cpu_p_node,mem_p_node\n2,-1,4,128,254", "no size"),
        ("kind: Pod\napiVersion: v1\nmetadata: {name: p}\nspec: {containers: [{name: c}]}\n", "there is no node"),
        (b"\x1f\x8b damaged", "cannot be read"),
        ("", "no usable object"),
        (": [", "error"),
    ],
)
def test_what_is_no_list_of_nodes_is_refused(tmp_path: Path, text: str | bytes, message: str) -> None:
    with pytest.raises(InputError, match=message):
        nodes(tmp_path, text)


def test_nodes_of_two_files_must_have_different_names(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).write_text(OPENB)
    with pytest.raises(InputError, match="openb-node-0000"):
        read_nodes([str(tmp_path / "a"), str(tmp_path / "b")])
