"""What a pod asks of GPUs, by annotations and resources."""

from __future__ import annotations

import pytest

from builders.manifests import node, pod, state_of
from muster.plugins.gpu_share.requests import GpuRequest, models_of, request_of


def asked(requests: dict[str, object] | None = None, **notes: str) -> GpuRequest:
    """Annotations are written with `_` for a hyphen."""
    annotations = {key.replace("_", "-"): value for key, value in notes.items()}
    state = state_of(node("n"), pod("p", requests=requests or {"cpu": 1}, annotations=annotations))
    task = state.tasks["default/p"]
    return request_of(task.shape, task.annotations)


def test_whole_gpus() -> None:
    assert asked({"nvidia.com/gpu": 2}) == GpuRequest(2, 1000)
    assert asked({"volcano.sh/gpu-number": 3}) == GpuRequest(3, 1000, volcano=True)
    assert asked() == GpuRequest()


@pytest.mark.parametrize(
    ("text", "milli"), [("0.5", 500), ("1", 1000), ("1.0", 1000), (".25", 250), ("0.0001", 1), ("0.3333", 334)]
)
def test_a_fraction_is_rounded_up_to_thousandths(text: str, milli: int) -> None:
    assert asked(gpu_fraction=text) == GpuRequest(1, milli)


@pytest.mark.parametrize("text", ["0", "1.001", "-0.5", "abc", "", "50%", "0x1", "1e-1", "٠.٥", "9" * 99, " 0.5"])
def test_a_bad_fraction_is_a_fault(text: str) -> None:
    assert "annotation gpu-fraction" in asked(gpu_fraction=text).fault


@pytest.mark.parametrize("text", ["0", "-1", "4Gi", "4000.5", "", "x"])
def test_a_bad_amount_of_memory_is_a_fault(text: str) -> None:
    assert "annotation gpu-memory" in asked(gpu_memory=text).fault


def test_memory_is_rounded_up_by_the_size_of_the_card() -> None:
    request = asked(gpu_memory="4000")
    assert request == GpuRequest(1, 0, 4000)
    assert [request.parts(card) for card in (16000, 16384, 4000)] == [250, 245, 1000]
    assert request.parts(3999) > 1000
    assert request.parts(0) > 1000, "the memory of the card is not known"
    assert asked({"volcano.sh/gpu-memory": 6000}) == GpuRequest(1, 0, 6000, volcano=True)


def test_parts_of_several_gpus() -> None:
    assert asked(gpu_fraction="0.5", gpu_fraction_num_devices="2") == GpuRequest(2, 500)
    for bad in ("0", "17", "x", "-1", ""):
        assert "gpu-fraction-num-devices" in asked(gpu_fraction="0.5", gpu_fraction_num_devices=bad).fault


def test_several_ways_at_once_are_a_fault() -> None:
    assert "several ways" in asked({"nvidia.com/gpu": 1}, gpu_fraction="0.5").fault
    assert "several ways" in asked(gpu_memory="1", gpu_fraction="0.5").fault
    assert "several ways" in asked({"volcano.sh/gpu-number": 1, "volcano.sh/gpu-memory": 1}).fault
    assert "not a whole number" in asked({"nvidia.com/gpu": "500m"}).fault


def test_models_of_a_pod() -> None:
    def models(**spec: object) -> tuple[str, ...]:
        return models_of(state_of(pod("p", **spec)).tasks["default/p"].shape)

    def affinity(*terms: list[str]) -> dict[str, object]:
        found = [
            {"matchExpressions": [{"key": "nvidia.com/gpu.product", "operator": "In", "values": term}] if term else []}
            for term in terms
        ]
        required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": found}}
        return {"nodeAffinity": required}

    assert models() == ()
    assert models(nodeSelector={"nvidia.com/gpu.product": "T4"}) == ("T4",)
    assert models(affinity=affinity(["T4", "A100"])) == ("A100", "T4")
    assert models(affinity=affinity(["T4"], [])) == (), "the second term allows any model"
