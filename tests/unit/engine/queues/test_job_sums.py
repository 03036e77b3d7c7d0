"""Sums over jobs that are kept from cycle to cycle equal a full count."""

from __future__ import annotations

import random
from collections.abc import Mapping

from builders.manifests import node, queue, state_of
from builders.small_cluster import member_pod, pod_group
from muster.engine.core.jobs import Job
from muster.engine.core.resources import add
from muster.engine.queues.accounts import elastic, still_reserved
from muster.engine.queues.job_sums import JobSums


def parts(job: Job) -> tuple[Mapping[str, int], ...]:
    return job.allocated, job.total, still_reserved(job), elastic(job)


def anew(jobs: Mapping[str, Job]) -> list[dict[str, int]]:
    sums: list[dict[str, int]] = [{}, {}, {}, {}]
    for job in jobs.values():
        for one, part in zip(sums, parts(job), strict=True):
            add(one, part)
    return some(sums)


def some(sums: list[dict[str, int]]) -> list[dict[str, int]]:
    return [{name: amount for name, amount in one.items() if amount} for one in sums or [{}, {}, {}, {}]]


def test_whatever_happens_to_jobs_their_sums_follow() -> None:
    dice = random.Random(7)
    state = state_of(queue("default"), *(node(f"n{i}") for i in range(3)))
    sums = JobSums(parts)
    for _ in range(400):
        name, what = f"g{dice.randrange(4)}", dice.randrange(6)
        key, member = f"d/{name}", f"{name}-{dice.randrange(5)}"
        if what == 0:
            group = pod_group(name, members=dice.randrange(1, 4))
            group.spec.min_resources = {"cpu": str(dice.randrange(6))}  # type: ignore[attr-defined]
            state.upsert("PodGroup", key, group)
        elif what == 1:
            state.remove("PodGroup", key)
        elif what == 2:
            state.remove("Pod", f"d/{member}")
        elif what == 3 and key in state.jobs:
            state.jobs[key].phase = dice.choice(["Pending", "Inqueue", "Running"])
            state.jobs[key].mark_changed()
        else:
            on = dice.choice(["", "n0", "n1", "n2"])
            state.upsert("Pod", f"d/{member}", member_pod(member, name, on=on, cpu=str(dice.randrange(1, 4))))
        state.refresh()
        sums.follow(state)
        assert some(sums.of("default")) == some(sums.total()) == anew(state.jobs)


def test_the_sums_are_the_callers_own() -> None:
    state = state_of(queue("default"), node("n0"), pod_group("g"), member_pod("g-0", "g", on="n0", cpu="2"))
    sums = JobSums(parts)
    sums.follow(state)
    for read in (lambda: sums.of("default"), sums.total):
        read()[0]["cpu"] = 0
        assert read()[0]["cpu"] == 2000
