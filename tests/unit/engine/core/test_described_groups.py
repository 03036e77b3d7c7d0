"""The group of pods of a described workload."""

from __future__ import annotations

from builders.manifests import pod
from muster.engine.core.state import State
from muster.model.core import Pod
from muster.model.kinds import decode_as
from muster.workloads.table import KindTable


def test_a_workload_with_a_bad_quantity_does_not_stop_the_scheduler() -> None:
    """The API server checks the quantities of pods, but not those of a custom resource."""

    def template(cpu: str) -> dict[str, object]:
        return {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]}}

    spec = {
        "headGroupSpec": {"template": template("1")},
        "workerGroupSpecs": [{"groupName": "w", "replicas": 2, "template": template("much")}],
    }
    value = {"metadata": {"name": "ray", "namespace": "default", "uid": "u"}, "spec": spec}
    kind = KindTable().types()["ray.io/v1", "RayCluster"]
    state = State()
    state.upsert(kind.__name__, "default/ray", decode_as(kind, value))
    head = decode_as(Pod, pod("head", labels={"ray.io/cluster": "ray", "ray.io/group": "headgroup"}))
    state.upsert("Pod", "default/head", head)
    (job,) = state.jobs.values()
    assert (job.min_available, job.min_resources) == (3, {"cpu": 1000})
