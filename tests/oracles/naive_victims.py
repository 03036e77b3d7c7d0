"""Who may go for whom, plainly: each plugin's answer, how answers combine, and the order of victims."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cmp_to_key

from oracles.naive import Amounts, Task, World, at_most

_CRITICAL = ("system-cluster-critical", "system-node-critical")


def answer(world: World, plugin: str, rule: str, claimer: Task, candidates: Sequence[Task]) -> list[bool] | None:
    if plugin == "gang":
        return _gang(candidates)
    if plugin == "conformance":
        return [t.pod.spec.priority_class_name not in _CRITICAL for t in candidates]
    if plugin == "priority" and rule == "preempt":
        return [
            t.priority < claimer.priority if t.job is claimer.job else t.job.priority < claimer.job.priority
            for t in candidates
        ]
    if plugin == "drf" and rule == "preempt":
        return _drf(world, claimer, candidates)
    if plugin == "proportion" and rule == "reclaim":
        return _proportion(world, candidates)
    return None


def _gang(candidates: Sequence[Task]) -> list[bool]:
    left = {t.job.key: t.job.ready for t in candidates}
    answers = []
    for task in candidates:
        spare = left[task.job.key] > task.job.least
        left[task.job.key] -= spare
        answers.append(spare)
    return answers


def _less(left: Amounts, right: dict[str, int]) -> Amounts:
    return {name: left.get(name, 0) - right.get(name, 0) for name in {*left, *right}}


def _drf(world: World, claimer: Task, candidates: Sequence[Task]) -> list[bool]:
    mine = claimer.job.allocated("Pipelined")
    for name, amount in claimer.request.items():
        mine[name] = mine.get(name, 0) + amount
    share = world.share(claimer.job, mine)
    left = {t.job.key: t.job.allocated("Pipelined") for t in candidates}
    answers = []
    for task in candidates:
        left[task.job.key] = _less(left[task.job.key], task.request)
        other = world.share(task.job, left[task.job.key])
        answers.append(share < other or abs(share - other) <= 1e-6)
    return answers


def _proportion(world: World, candidates: Sequence[Task]) -> list[bool]:
    queues = {t.job.group.spec.queue for t in candidates}
    held = {q: world.held(q) for q in queues}
    answers = []
    for task in candidates:
        queue = task.job.group.spec.queue
        beyond = not at_most(held[queue], world.deserved[queue])
        if beyond:
            held[queue] = _less(held[queue], task.request)
        answers.append(beyond)
    return answers


def chosen(world: World, rule: str, claimer: Task, candidates: Sequence[Task]) -> list[Task]:
    """In victim order, those that the first tier with a result gives up."""
    ordered = in_order(world, candidates)
    for tier in world.config.tiers:
        result: list[Task] | None = None
        for option in tier.plugins:
            message = answer(world, option.name, rule, claimer, ordered)
            if message is None:
                continue
            named = [t for t, given in zip(ordered, message, strict=True) if given]
            if not named:
                result = None  # an empty answer ends the tier
                break
            result = named if result is None else [t for t in result if t in named] or None
        if result:
            return result
    return []


def in_order(world: World, candidates: Sequence[Task]) -> list[Task]:
    def before(a: Task, b: Task) -> int:
        if a.job is not b.job:
            left, right = a.job.group.spec.queue, b.job.group.spec.queue
            if left != right:
                return -world.queue_cmp(left, right)
            mine, other = world.job_key(a.job), world.job_key(b.job)
            if mine != other:
                return 1 if mine < other else -1
        return -world.task_cmp(a, b)

    return sorted(candidates, key=cmp_to_key(before))
