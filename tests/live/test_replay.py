"""A replay of a recorded run of the live scheduler starts the jobs in the same order.

`python bench/live replay` does the same for an hour; bench/records has its record.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from live.api import Api, Plain, place
from live.muster_process import Scheduler
from live.recorded_load import CONFIG, LiveJobs, Scale, cluster, cluster_objects, create_cluster, load_trace
from live.recorded_run import Recorder
from live.start_order import compared, csv_of, replayed
from muster.sim.traces.read import read_trace

pytestmark = pytest.mark.usefixtures("crds")

SCALE = Scale(nodes=4, seconds=55, mean=8, shortest=2, longest=15, gap=0.5, load=1.3, most_pods=4)
SEED = 3


@pytest.fixture
def made(api: Api) -> Iterator[list[Plain]]:
    """The nodes, queues and priority classes of the run."""
    created = cluster(SCALE, load_trace(SCALE, SEED))
    create_cluster(api, created)
    yield created
    for one in created:
        api.delete(place(one))


def test_a_replay_of_a_recorded_run_has_the_same_order_of_starts(
    api: Api, namespace: str, made: list[Plain], scheduler_kubeconfig: Path, tmp_path: Path
) -> None:
    planned = load_trace(SCALE, SEED)
    objects = cluster_objects(api)
    with Scheduler(scheduler_kubeconfig, config=CONFIG) as scheduler:
        jobs = LiveJobs(planned, made, namespace)
        recorded = Recorder(api, scheduler, namespace, planned, jobs, SCALE.gap).play(SCALE.seconds)
        assert scheduler.metric("muster_faults_total") == 0
    file = tmp_path / "recorded.csv"
    file.write_bytes(csv_of(recorded.trace(planned)))
    trace = read_trace([str(file)])
    live = recorded.start_by_name(planned)
    assert len(live) > 20
    waits = [live[name] - submit for name, submit in zip(trace.names, trace.submit, strict=True) if name in live]
    assert sum(wait > 1 for wait in waits) > 5  # an order that is not that of the submissions
    found = compared(live, replayed(trace, objects, CONFIG, recorded.end - trace.epoch))
    assert found.equal, found
    assert found.most_difference_s < 1, found
