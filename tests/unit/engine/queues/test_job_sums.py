"""Sums over jobs that are kept from cycle to cycle equal a full count."""

from __future__ import annotations

import random
from collections.abc import Mapping

from builders.manifests import node, pod, queue, state_of, typed
from builders.small_cluster import member_pod, pod_group
from muster.engine.core.jobs import Job
from muster.engine.core.podgroups import QUEUE_NAME
from muster.engine.core.resources import add
from muster.engine.queues.accounts import elastic, still_reserved
from muster.engine.queues.job_sums import JobSums
from muster.workloads import MIN_MEMBER_ANNOTATIONS


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


def test_whatever_happens_to_plain_pods_their_sums_follow() -> None:
    dice = random.Random(11)
    state = state_of(queue("default"), queue("q"), *(node(f"n{i}") for i in range(3)))
    sums, met = JobSums(parts), set()
    for _ in range(400):
        for _ in range(dice.randint(1, 12)):
            name = f"p{dice.randrange(16)}"
            key = f"default/{name}"
            task = state.tasks.get(key)
            job = task.job if task is not None else None
            what = dice.choice([0, 1, 1, 1, 2, 2, 2, 3, 3, 3])
            if what == 0:
                state.remove("Pod", key)
            elif what == 1 and job is not None:
                job.phase = dice.choice(["Pending", "Inqueue", "Inqueue", "Running"])
                job.mark_changed()
            elif what == 2 and task is not None and job is not None:
                task.gated = not task.gated  # as a back-off marks it for a cycle
                job.mark_changed()
            else:
                queued = {QUEUE_NAME: dice.choice(["default", "q"])}
                notes = queued if dice.random() < 0.5 else {**queued, MIN_MEMBER_ANNOTATIONS[0]: "2"}
                on, cpu = dice.choice(["", "", "", "n0"]), dice.randrange(1, 3)
                one = pod(name, on=on, cpu=cpu, annotations=notes, labels={"app": dice.choice("ab")})
                state.upsert("Pod", key, typed(one))
        state.refresh()
        sums.follow(state)
        for name in ("default", "q"):
            jobs = {key: job for key, job in state.jobs.items() if job.queue_name == name}
            assert some(sums.of(name)) == anew(jobs)
            met.add(str(anew(jobs)))
    assert len(met) > 100


def test_the_sums_are_the_callers_own() -> None:
    state = state_of(queue("default"), node("n0"), pod_group("g"), member_pod("g-0", "g", on="n0", cpu="2"))
    sums = JobSums(parts)
    sums.follow(state)
    for read in (lambda: sums.of("default"), sums.total):
        read()[0]["cpu"] = 0
        assert read()[0]["cpu"] == 2000
