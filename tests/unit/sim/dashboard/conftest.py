"""A dashboard of a small cluster with a hostile name in every place that a user can write."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from builders.manifests import group, node, pod, queue
from fakes.dashboard_site import InThread, Site, source_of
from muster.config import DEFAULT
from muster.sim.dashboard import worker
from muster.sim.inputs import ConfigText, default_config

HOSTILE = "<img src=x onerror=alert(1)>\"'&</script><script>alert(2)</script>"
SPREAD = ConfigText(DEFAULT + "\n# another one\n", "spread.yaml")


@pytest.fixture(scope="package", autouse=True)
def in_this_process() -> Iterator[None]:
    """A process takes a second to start; test_worker.py has a real one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(worker, "WorkerProcess", InThread)
        yield


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    notes = {"note": HOSTILE, "volcano.sh/x": HOSTILE}
    objects = [
        node("n1", cpu=4, annotations=notes), node("n2", cpu=4), queue("a", weight=9), group("g", "a", minMember=3),
        *(pod(f"g-{i}", "g", cpu=2, annotations=notes) for i in range(3)),
        pod("huge", cpu=1, memory="17Gi", annotations=notes),
        pod("asks", cpu=1, nodeSelector={"pool": HOSTILE}), pod("old", on="n2", cpu=1),
    ]  # fmt: skip
    with Site(source_of(objects, default_config(), SPREAD)) as made:
        yield made
