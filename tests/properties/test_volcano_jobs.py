"""A Job of Volcano is scheduled like the PodGroup and the pods that Volcano's controller would create for it."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from builders.manifests import node
from muster import simulate
from muster.cluster import volcano_objects
from muster.model import volcano_job
from muster.model.kinds import decode_as, plain
from strategies.profiles import examples

TASKS = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4), st.integers(0, 3)), min_size=1, max_size=3)


@examples(60)
@given(TASKS, st.integers(0, 9), st.lists(st.integers(1, 6), min_size=1, max_size=3))
def test_a_job_is_bound_like_its_objects(tasks: list[tuple[int, int, int]], least: int, nodes: list[int]) -> None:
    job: dict[str, Any] = {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": "j", "namespace": "d"},
        "spec": {
            "minAvailable": min(least, sum(replicas for replicas, _, _ in tasks)),
            "tasks": [
                {
                    "replicas": replicas,
                    "minAvailable": min(minimum, replicas),
                    "template": {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": str(cpu)}}}]}},
                }
                for replicas, minimum, cpu in tasks
            ],
        },
    }
    made = decode_as(volcano_job.Job, {**job, "metadata": {**job["metadata"], "uid": "d/j"}})
    spec = volcano_objects.with_defaults(made.spec)
    group = plain(volcano_objects.pod_group(made, spec, {}))
    pods = [plain(volcano_objects.pod(made, spec, one, i, "j")) for one in spec.tasks for i in range(one.replicas)]
    for obj in (group, *pods):
        del obj["metadata"]["ownerReferences"]
    cluster = [node(f"n{i}", cpu=cpu) for i, cpu in enumerate(nodes)]
    as_job = simulate([*cluster, job])
    as_objects = simulate([*cluster, group, *pods])
    assert as_job.binds == as_objects.binds
    assert as_job.pending.keys() == as_objects.pending.keys()
