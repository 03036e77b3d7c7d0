"""The naive loops of the actions enqueue, allocate, backfill, reclaim and preempt, over a `naive.World`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cmp_to_key

from muster.config.types import Config
from muster.model.meta import Object
from muster.model.requests import amounts
from oracles.naive import HELD, Amounts, Job, Task, World, asked, total
from oracles.naive_scores import score
from oracles.naive_victims import chosen

Marks = tuple[list[tuple[Task, str, str, bool]], int]


def decide(objects: Iterable[Object], config: Config) -> tuple[dict[str, str], dict[str, str], list[str]]:
    """What is bound, what only reserves capacity until the cycle ends, who is evicted (in order)."""
    world = World(objects, config)
    for name in config.actions:
        {"enqueue": enqueue, "allocate": allocate, "backfill": backfill, "reclaim": reclaim, "preempt": preempt}[name](
            world
        )
    binds = {t.key: t.node for t in world.tasks if t.bound}
    holds = {t.key: t.node for t in world.tasks if t.status in ("Pipelined", "Allocated") and not t.bound}
    return binds, holds, world.evictions


def mark(world: World) -> Marks:
    return [(t, t.status, t.node, t.evicted) for t in world.tasks], len(world.evictions)


def back_to(world: World, marked: Marks) -> None:
    for task, status, node, evicted in marked[0]:
        task.status, task.node, task.evicted = status, node, evicted
    del world.evictions[marked[1] :]


def bind(job: Job) -> None:
    for task in job.tasks:
        task.bound = task.bound or task.status == "Allocated"


def waiting(job: Job) -> list[Task]:
    return [t for t in job.tasks if t.status == "Pending" and not t.pod.spec.scheduling_gates]


# --- enqueue


def least_of(job: Job) -> Amounts:
    return dict(amounts(job.group.spec.min_resources)) if job.group.spec.min_resources else {}


def without_gated(job: Job, found: Amounts) -> Amounts:
    gated = total(t.request for t in job.tasks if t.pod.spec.scheduling_gates)
    return {name: max(amount - gated.get(name, 0), 0) if asked(gated) else amount for name, amount in found.items()}


def enqueue(world: World) -> None:
    reserved: dict[str, Amounts] = {q: {} for q in world.queues}
    elastic: dict[str, Amounts] = {q: {} for q in world.queues}
    for job in world.jobs.values():
        queue, held, least = job.group.spec.queue, job.allocated(), least_of(job)
        if least and (job.phase == "Inqueue" or (job.phase == "Running" and job.count(*HELD) >= job.least)):
            missing = {name: max(amount - held.get(name, 0), 0) for name, amount in least.items()}
            reserved[queue] = total([reserved[queue], without_gated(job, missing)])
        beyond = {name: max(amount - least.get(name, 0), 0) for name, amount in held.items()}
        elastic[queue] = total([elastic[queue], beyond])
    for queue in sorted((q for q in world.queues if world.members(q)), key=cmp_to_key(world.queue_cmp)):
        for job in sorted((j for j in world.members(queue) if j.phase == "Pending"), key=world.full_job_key):
            least = least_of(job)
            if least and world.has("proportion"):
                held, real = world.held(queue), world.real_capability(queue)
                fits = all(
                    amount + held.get(n, 0) + reserved[queue].get(n, 0) - elastic[queue].get(n, 0) <= real.get(n, 0)
                    for n, amount in least.items()
                    if amount and n != "pods"
                )
                if world.queues[queue].status.state not in ("", "Open") or not fits:
                    continue
                reserved[queue] = total([reserved[queue], without_gated(job, least)])
            job.phase = "Inqueue"


# --- allocate and backfill


def allocate(world: World) -> None:
    todo: dict[str, list[Task]] = {}
    for job in world.jobs.values():
        if job.phase == "Pending":
            if "enqueue" in world.config.actions:
                continue
            job.phase = "Inqueue"
        tasks = [t for t in waiting(job) if not t.best_effort]
        if tasks and world.valid(job):
            todo[job.key] = world.in_order(tasks)
    jobs = {world.jobs[key] for key in todo}
    queues = {job.group.spec.queue for job in jobs}
    while queues:
        queue = min(queues, key=cmp_to_key(world.queue_cmp))
        mine = [job for job in jobs if job.group.spec.queue == queue]
        if world.overused(queue) or not mine:
            queues.remove(queue)
            continue
        job = min(mine, key=world.full_job_key)
        if not allocate_job(world, queue, job, todo[job.key]) or not todo[job.key]:
            jobs.remove(job)


def allocate_job(world: World, queue: str, job: Job, tasks: list[Task]) -> bool:
    before = mark(world)
    while tasks:
        task = tasks.pop(0)
        if not world.admits(queue, task):
            continue
        if not place(world, task):
            if job.least == len(job.tasks):
                break
        elif world.ready(job):
            break
    if world.ready(job):
        bind(job)
        return True
    if not world.pipelined(job):
        back_to(world, before)
    return False


def place(world: World, task: Task) -> bool:
    feasible = [n for n in world.nodes if world.fits(task.request, world.future_idle(n)) and world.passes(task, n)]
    now = [n for n in feasible if world.fits(task.request, world.idle(n)) and world.starts(task, n)]
    if not feasible:
        return False
    task.node = best(world, task, now or feasible)
    task.status = "Allocated" if now else "Pipelined"
    return True


def best(world: World, task: Task, nodes: list[str]) -> str:
    scores = {n: score(world, task, n) for n in nodes}
    return min(n for n in nodes if scores[n] == max(scores.values()))


def backfill(world: World) -> None:
    todo: dict[str, list[Task]] = {}
    for job in world.jobs.values():
        if job.phase == "Pending" or not world.valid(job):
            continue
        for task in job.tasks:
            if task.status == "Pipelined" and task.best_effort:
                task.status, task.node = "Pending", ""
        todo[job.key] = world.in_order(t for t in waiting(job) if t.best_effort)
    jobs = [world.jobs[key] for key, tasks in todo.items() if tasks]
    order = [
        job
        for queue in sorted({j.group.spec.queue for j in jobs}, key=cmp_to_key(world.queue_cmp))
        for job in sorted((j for j in jobs if j.group.spec.queue == queue), key=world.full_job_key)
    ]
    for job in order:
        placed = False
        for task in todo[job.key]:
            nodes = [n for n in world.nodes if world.starts(task, n)]
            if nodes:
                task.node, task.status, placed = best(world, task, nodes), "Allocated", True
        if placed and world.ready(job):
            bind(job)


# --- reclaim and preempt


def claimants(world: World) -> list[Job]:
    return [
        job for job in world.jobs.values()
        if job.count("Pending") and job.phase != "Pending" and world.starving(job) and world.valid(job)
    ]  # fmt: skip


def evict_for(world: World, victims: list[Task], enough: Callable[[], bool]) -> list[Task] | None:
    """Evict in order until it is enough, then reprieve whoever is not needed, highest priority first."""
    gone: list[Task] = []
    before = [(t, t.status) for t in victims]
    for victim in victims:
        if enough():
            break
        victim.status, victim.evicted = "Releasing", True
        gone.append(victim)
    was = dict(before)
    if not enough():
        for victim in gone:
            victim.status, victim.evicted = was[victim], False
        return None
    for victim in sorted(gone, key=lambda t: (-t.priority, t.key)) if len(gone) > 1 else ():
        victim.status, victim.evicted = was[victim], False
        if enough():
            gone.remove(victim)
        else:
            victim.status, victim.evicted = "Releasing", True
    return gone


def claim(world: World, task: Task, node: str, victims: list[Task], enough: Callable[[], bool]) -> bool:
    would_free = total([world.future_idle(node), *(t.request for t in victims)])
    if not world.fits(task.request, would_free):
        return False
    gone = evict_for(world, victims, enough)
    if gone is None:
        return False
    world.evictions += [t.key for t in gone]
    task.status, task.node = "Pipelined", node
    return True


def reclaim(world: World) -> None:
    jobs = set(claimants(world))
    queues = {job.group.spec.queue for job in jobs}
    while queues:
        queue = min(queues, key=cmp_to_key(world.queue_cmp))
        mine = [job for job in jobs if job.group.spec.queue == queue]
        if world.overused(queue) or not mine:
            queues.remove(queue)
            continue
        job = min(mine, key=world.full_job_key)
        jobs.remove(job)
        before = mark(world)
        for task in world.in_order(waiting(job)):
            if not world.starving(job):
                break
            reclaim_for(world, queue, task)
        if not world.pipelined(job):
            back_to(world, before)


def reclaim_for(world: World, queue: str, task: Task) -> None:
    if task.pod.spec.preemption_policy == "Never" or not world.admits(queue, task):
        return
    for node in world.nodes:
        others = [
            t for t in world.on(node)
            if t.status == "Running" and preemptable(t) and t.job.group.spec.queue != queue
            and world.queues[t.job.group.spec.queue].spec.reclaimable is not False
        ]  # fmt: skip
        if not others or world.never(task, node):
            continue
        victims = chosen(world, "reclaim", task, others)
        if not victims:
            continue
        if claim(world, task, node, victims, lambda at=node: world.fits(task.request, world.future_idle(at))):  # type: ignore[misc]
            return


def preemptable(task: Task) -> bool:
    return task.pod.metadata.annotations.get("volcano.sh/preemptable", "true") == "true"


def granted(world: World, task: Task, node: str) -> bool:
    fits = world.fits(task.request, world.future_idle(node))
    return world.admits(task.job.group.spec.queue, task) and fits and world.passes(task, node)


def preempt(world: World) -> None:
    starving = claimants(world)
    for queue in world.queues:
        mine = [job for job in starving if job.group.spec.queue == queue]
        tasks = {job.key: world.in_order(waiting(job)) for job in mine}
        todo = set(mine)
        while todo:
            job = min(todo, key=world.full_job_key)
            todo.remove(job)
            before, assigned = mark(world), False
            while tasks[job.key] and world.starving(job):
                task = tasks[job.key].pop(0)
                assigned |= preempt_for(world, queue, task, lambda t, own=job: t.job is not own)  # type: ignore[misc]
            if not world.pipelined(job):
                back_to(world, before)
            elif assigned:
                todo.add(job)
        for job in mine:
            for task in world.in_order(waiting(job)):
                if not preempt_for(world, queue, task, lambda t, own=job: t.job is own):  # type: ignore[misc]
                    break


def preempt_for(world: World, queue: str, task: Task, eligible: Callable[[Task], bool]) -> bool:
    if task.pod.spec.preemption_policy == "Never":
        return False
    for node in sorted(world.nodes, key=lambda n: -score(world, task, n)):
        others = [
            t for t in world.on(node)
            if t.status in ("Bound", "Running") and preemptable(t) and t.job.group.spec.queue == queue
            and eligible(t) and (t.best_effort or not task.best_effort)
        ]  # fmt: skip
        if world.never(task, node):
            continue
        # Volcano: a node that needs no victim is used like any other.
        victims = chosen(world, "preempt", task, others) if others else []
        if claim(world, task, node, victims, lambda at=node: granted(world, task, at)):  # type: ignore[misc]
            return True
    return False
