"""A pod requests what Kubernetes says it requests."""

from __future__ import annotations

import pytest

from muster.model.core import Container, PodSpec, ResourceRequirements
from muster.model.meta import ResourceList
from muster.model.quantity import QuantityError
from muster.model.requests import amounts, nonzero, requests

MI = 2**20


def container(limits: ResourceList | None = None, restart_policy: str = "", **asked: str | int) -> Container:
    return Container(
        resources=ResourceRequirements(requests=dict(asked), limits=limits or {}), restart_policy=restart_policy
    )


def test_cpu_is_in_thousandths_memory_in_bytes_and_every_pod_is_one_pod() -> None:
    assert requests(PodSpec(containers=[container(cpu="1500m", memory="64Mi")])) == {
        "cpu": 1500,
        "memory": 64 * MI,
        "pods": 1,
    }


def test_a_pod_that_asks_for_nothing_is_still_one_pod() -> None:
    assert requests(PodSpec(containers=[Container()])) == {"pods": 1}
    assert requests(PodSpec()) == {"pods": 1}


def test_extended_resources_huge_pages_and_disk_are_in_thousandths() -> None:
    asked: ResourceList = {"nvidia.com/gpu": 2, "hugepages-2Mi": "4Mi", "ephemeral-storage": 1}
    spec = PodSpec(containers=[Container(resources=ResourceRequirements(requests=asked))])
    assert requests(spec) == {
        "nvidia.com/gpu": 2000,
        "hugepages-2Mi": 4 * MI * 1000,
        "ephemeral-storage": 1000,
        "pods": 1,
    }


def test_names_that_are_no_node_resource_are_dropped() -> None:
    assert amounts({"widgets": 1, "count/pods": 3, "storage": "1Gi", "cpu": 1}) == {"cpu": 1000}


def test_a_missing_request_is_the_limit() -> None:
    spec = PodSpec(containers=[container(limits={"cpu": 4, "nvidia.com/gpu": 1}, cpu=2)])
    assert requests(spec) == {"cpu": 2000, "nvidia.com/gpu": 1000, "pods": 1}


def test_containers_add_up_and_an_init_container_counts_where_it_asks_for_more() -> None:
    spec = PodSpec(
        containers=[container(cpu=1, memory="1Mi"), container(cpu=1, memory="1Mi")],
        init_containers=[container(cpu=3), container(memory="1Mi")],
    )
    assert requests(spec) == {"cpu": 3000, "memory": 2 * MI, "pods": 1}


def test_a_sidecar_runs_beside_the_containers_and_beside_later_init_containers() -> None:
    spec = PodSpec(
        containers=[container(cpu=1)],
        init_containers=[container(cpu=4), container(cpu=1, restart_policy="Always"), container(cpu=4)],
    )
    # Before the sidecar 4, with it 4 + 1, running 1 + 1.
    assert requests(spec)["cpu"] == 5000


def test_two_sidecars_and_a_container_add_up() -> None:
    sidecars = [container(cpu=1, restart_policy="Always"), container(cpu=2, restart_policy="Always")]
    assert requests(PodSpec(containers=[container(cpu=1)], init_containers=sidecars))["cpu"] == 4000


def test_overhead_comes_on_top() -> None:
    spec = PodSpec(containers=[container(cpu=1)], overhead={"cpu": "250m", "memory": "1Mi"})
    assert requests(spec) == {"cpu": 1250, "memory": MI, "pods": 1}


def test_the_pods_own_resources_override_cpu_memory_and_huge_pages_only() -> None:
    own = ResourceRequirements(requests={"cpu": 8, "nvidia.com/gpu": 7})
    spec = PodSpec(containers=[container(cpu=1, memory="1Mi")], resources=own, overhead={"cpu": 1})
    assert requests(spec) == {"cpu": 9000, "memory": MI, "pods": 1}


def test_a_limit_of_the_whole_pod_is_its_request_only_if_no_container_asks() -> None:
    own = ResourceRequirements(limits={"cpu": 8, "memory": "8Mi"})
    assert requests(PodSpec(containers=[container(cpu=1)], resources=own)) == {
        "cpu": 1000,
        "memory": 8 * MI,
        "pods": 1,
    }


def in_scores(spec: PodSpec) -> tuple[int, int]:
    return nonzero(spec, requests(spec))


def test_scores_think_of_a_container_without_a_request_as_a_small_one() -> None:
    assert in_scores(PodSpec(containers=[Container(), container(cpu=1)])) == (1100, 400 * MI)
    assert in_scores(PodSpec(containers=[container(memory="1Mi")])) == (100, MI)
    assert in_scores(PodSpec(containers=[container(cpu=0, memory=0)])) == (0, 0)


def test_scores_think_the_same_of_init_containers() -> None:
    spec = PodSpec(containers=[container(cpu="50m", memory="1Mi")], init_containers=[Container()])
    assert in_scores(spec) == (100, 200 * MI)


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        (PodSpec(containers=[container(cpu="x")]), "spec.containers[0].resources.requests[cpu]"),
        (PodSpec(containers=[container(), container(cpu=-1)]), "spec.containers[1].resources.requests[cpu]"),
        (PodSpec(containers=[container(limits={"cpu": "1K"})]), "spec.containers[0].resources.limits[cpu]"),
        (PodSpec(init_containers=[container(memory="1Gb")]), "spec.initContainers[0].resources.requests[memory]"),
        (PodSpec(overhead={"cpu": "?"}), "spec.overhead[cpu]"),
        (PodSpec(resources=ResourceRequirements(limits={"cpu": "?"})), "spec.resources.limits[cpu]"),
    ],
)
def test_a_bad_request_is_named_by_its_path(spec: PodSpec, path: str) -> None:
    with pytest.raises(QuantityError) as refused:
        requests(spec)
    assert str(refused.value).startswith(f"{path}: ")


def test_a_pod_cannot_ask_for_more_than_a_column_holds() -> None:
    with pytest.raises(QuantityError, match="spec: requests more memory in all"):
        requests(PodSpec(containers=[container(memory="1Ei"), container(memory="1Ei")]))
