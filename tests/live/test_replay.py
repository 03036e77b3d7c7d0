"""A replay of a recorded run of the live scheduler starts the jobs in the same order.

`python bench/live replay` does the same for an hour; bench/records has its record.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from live.api import Api, Plain, place
from live.muster_process import Scheduler
from live.recorded_load import CONFIG, LiveJobs, Scale, cluster, create_cluster, load_trace
from live.recorded_run import Recorder
from live.recording import read_recording, waits, write_recording
from live.start_order import compared, replayed

pytestmark = [pytest.mark.alone, pytest.mark.usefixtures("crds")]

SCALE = Scale(nodes=4, seconds=55, mean=8, shortest=2, longest=15, gap=0.5, load=1.3, most_pods=4)
SEED = 3


@pytest.fixture
def made(api: Api) -> Iterator[list[Plain]]:
    """The nodes, queues and priority classes of the run."""
    created = cluster(SCALE.nodes, load_trace(SCALE, SEED))
    create_cluster(api, created)
    yield created
    for one in created:
        api.delete(place(one))


def test_a_replay_of_a_recorded_run_has_the_same_order_of_starts(
    api: Api, namespace: str, made: list[Plain], scheduler_kubeconfig: Path, tmp_path: Path
) -> None:
    planned = load_trace(SCALE, SEED)
    with Scheduler(scheduler_kubeconfig, config=CONFIG) as scheduler:
        jobs = LiveJobs(planned, made, namespace)
        run = Recorder(api, scheduler, namespace, planned, jobs, SCALE.gap).play(SCALE.seconds)
        assert scheduler.metric("muster_faults_total") == 0
    write_recording(tmp_path, run.recording(planned))
    recording = read_recording(tmp_path, run.recording(planned).seconds)
    assert len(recording.starts) > 20
    assert waits(recording)["jobs that waited 1 s and longer"] > 3  # so that the order is not that of the submissions
    found = compared(recording, replayed(recording, made, CONFIG))
    assert found.equal, found
    assert found.most_difference_s < 1, found
