"""What holds for topology910 over any stream of jobs, ends, terminations and faults, with a device plugin that lags."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from builders.ascend import RESOURCE, board, chip_group, chip_pod, names, state_of
from muster.config.loader import load
from muster.cycle.registry import known
from muster.cycle.scheduler import Scheduler
from muster.engine.core.nodes import MoveKind
from muster.engine.core.plan import Plan
from muster.engine.core.state import State
from muster.engine.devices.boards import ids_of, read_chips
from muster.model.core import Node, Pod, PriorityClass
from muster.model.kinds import decode_as
from muster.plugins.topology910 import Topology910
from strategies.profiles import examples

CONFIG = """
actions: "allocate, preempt"
tiers:
- plugins:
  - name: priority
  - name: gang
    enablePreemptable: false
  - name: topology910
- plugins:
  - name: predicates
  - name: nodeorder
  - name: binpack
"""
RINGS = (frozenset(range(4)), frozenset(range(4, 8)))
BOARDS = ("n0", "n1")
CYCLE: tuple[object, ...] = ("cycle",)
requests = st.sampled_from([(1,), (1,), (2,), (2,), (4,), (4,), (8,), (8, 8), (3,), (2, 2)])
jobs = st.tuples(st.just("job"), requests, st.integers(0, 1))
others = st.one_of(
    st.tuples(st.sampled_from(["end", "terminate", "remove"]), st.integers(0, 30)),
    st.tuples(st.sampled_from(["list", "list-early"]), st.sampled_from(BOARDS)),
    st.tuples(st.sampled_from(["fault", "network"]), st.integers(0, 15)),
)
# Some jobs, a cycle, then more of everything: a stream of single events would seldom fill a board.
events = st.lists(
    st.tuples(st.lists(jobs, max_size=4), st.lists(others, max_size=3)).map(lambda both: [*both[0], *both[1], CYCLE]),
    min_size=1,
    max_size=8,
).map(lambda rounds: [event for events in rounds for event in events])


@dataclass
class World:
    """A cluster whose device plugin reports only when asked, and everything that chips were given to."""

    scheduler: Scheduler
    state: State
    names_faults: bool = True  # is there a list of unhealthy chips?
    faulty: dict[str, set[int]] = field(default_factory=lambda: {name: set() for name in BOARDS})
    no_network: dict[str, set[int]] = field(default_factory=lambda: {name: set() for name in BOARDS})
    listed: dict[str, list[int]] = field(default_factory=lambda: {name: list(range(8)) for name in BOARDS})
    jobs: int = 0
    now: float = 1000.0

    @property
    def pods(self) -> list[Pod]:
        return [task.pod for task in self.state.tasks.values() if task.pod.spec.node_name]

    def live(self, node: str) -> list[Pod]:
        return [p for p in self.pods if p.spec.node_name == node and p.status.phase not in ("Succeeded", "Failed")]

    def happen(self, event: tuple[object, ...]) -> None:
        match event:
            case ("job", tuple() as sizes, int() as priority):
                name, self.jobs = f"j{self.jobs}", self.jobs + 1
                self.state.upsert("PodGroup", f"d/{name}", chip_group(name, len(sizes), ("", "urgent")[priority]))
                for i, size in enumerate(sizes):
                    self.put(chip_pod(f"{name}-{i}", size, job=name, priority=priority))
            case ("end" | "terminate" | "remove" as how, int() as which) if self.pods:
                self.finish(how, sorted(self.pods, key=lambda p: p.metadata.name)[which % len(self.pods)])
            case ("fault" | "network" as how, int() as which):
                chips = (self.faulty if how == "fault" else self.no_network)[BOARDS[which // 8]]
                chips.symmetric_difference_update({which % 8})
                self.listed[BOARDS[which // 8]] = [i for i in self.listed[BOARDS[which // 8]] if i not in chips]
                self.show(BOARDS[which // 8])
            case ("list" | "list-early" as how, str() as name):
                self.relist(name, early=how == "list-early")
            case ("cycle",):
                self.cycle()

    def put(self, made: Pod) -> None:
        self.state.upsert("Pod", f"d/{made.metadata.name}", made)

    def finish(self, how: str, old: Pod) -> None:
        if how == "remove":
            self.state.remove("Pod", f"d/{old.metadata.name}")
        elif how == "end":
            self.put(replace(old, status=replace(old.status, phase="Succeeded")))
        else:
            self.put(replace(old, metadata=replace(old.metadata, deletion_timestamp="2026-01-01T00:00:00Z")))

    def relist(self, name: str, *, early: bool) -> None:
        """The device plugin looks again; an early one calls chips of terminating pods free already."""
        holders = [p for p in self.live(name) if not (early and p.metadata.deletion_timestamp)]
        held = {i for p in holders for i in chips_of(p)}
        self.listed[name] = [i for i in range(8) if i not in held and i not in self.faulty[name]]
        self.show(name)

    def show(self, name: str) -> None:
        faulty = sorted(self.faulty[name])
        self.state.upsert(
            "Node",
            name,
            board(
                name,
                self.listed[name],
                8 - len(faulty),
                faulty if self.names_faults else (),
                sorted(self.no_network[name]),
            ),
        )

    def cycle(self) -> None:
        self.now += 1
        before = self.columns()
        plan = self.scheduler.cycle(self.state, self.now)
        assert self.columns() == before
        self.check_given_back()
        self.check(plan)
        for key, node in plan.binds.items():
            old = self.state.tasks[key].pod
            written = {
                **old.metadata.annotations,
                **{k: v for e in plan.effects.get(key, ()) for k, v in e.values.items()},
            }
            bound = replace(
                old, metadata=replace(old.metadata, annotations=written), spec=replace(old.spec, node_name=node)
            )
            self.put(bound)
        for eviction in plan.evictions:
            self.finish("terminate", self.state.tasks[eviction.pod].pod)
        self.check_holders()

    def columns(self) -> bytes:
        return self.state.nodes.rows.tobytes()

    def check_given_back(self) -> None:
        """After the cycle the boards are as a fresh reading has them: every placement was undone exactly."""
        chips = plugin_of(self.scheduler)
        if not chips.boards.any:
            return

        def seen() -> list[object]:
            found = [b for i in range(len(BOARDS)) if (b := chips.boards.at(i)) is not None]
            columns = [
                chips.boards.numbers(kind, several).tolist() for kind in list(MoveKind)[:2] for several in (False, True)
            ]
            return [(b.free, b.doubtful, b.coming, b.reserved, b.waits) for b in found] + columns

        left = seen()
        self.scheduler.session(self.state, self.now).close()
        assert seen() == left

    def check(self, plan: Plan) -> None:
        for key, node in plan.binds.items():
            task = self.state.tasks[key]
            given, want = set(plan.devices[key]), task.shape.amounts[RESOURCE] // 1000
            assert len(given) == len(plan.devices[key]) == want
            assert not given & self.faulty[node]
            assert given <= set(self.listed[node])
            assert task.job is not None
            if len(task.job.tasks) > 1:
                assert not given & self.no_network[node]
            if want <= 4:
                assert any(given <= ring for ring in RINGS)
            else:
                assert given == set(range(8))
        assert not plan.devices.keys() - plan.binds.keys()

    def check_holders(self) -> None:
        for name in BOARDS:
            held = [i for p in self.live(name) for i in chips_of(p)]
            assert len(held) == len(set(held)), "a chip is held twice"
            times = [p.metadata.annotations["predicate-time"] for p in self.live(name)]
            assert len(times) == len(set(times))


def chips_of(holder: Pod) -> list[int]:
    return ids_of(read_chips(holder.metadata.annotations.get(RESOURCE, ""), "Ascend910-", 8))


def plugin_of(scheduler: Scheduler) -> Topology910:
    (found,) = (p for tier in scheduler.tiers for p in tier if isinstance(p, Topology910))
    return found


def world(*, names_faults: bool = True) -> World:
    config, findings = load(CONFIG, "scheduler.yaml", known())
    assert not findings
    state = state_of(*(board(name) for name in BOARDS))
    state.upsert("PriorityClass", "urgent", decode_as(PriorityClass, {"metadata": {"name": "urgent"}, "value": 100}))
    return World(Scheduler(config), state, names_faults)


@examples(150)
@given(events, st.booleans())
def test_no_chip_is_used_twice_and_every_pod_has_its_rings(
    stream: list[tuple[object, ...]], names_faults: bool
) -> None:
    here = world(names_faults=names_faults)
    for event in stream:
        here.happen(event)


@examples(50)
@given(events, st.booleans())
def test_a_node_recovers_by_itself_once_its_list_is_true(stream: list[tuple[object, ...]], names_faults: bool) -> None:
    here = world(names_faults=names_faults)
    for event in stream:
        here.happen(event)
    for name in BOARDS:
        here.relist(name, early=False)
    for key in [key for key, task in here.state.tasks.items() if not task.pod.spec.node_name]:
        here.state.remove("Pod", key)  # a pod for which others were evicted holds free chips by its promise
    session = here.scheduler.session(here.state, here.now)
    boards = plugin_of(here.scheduler).boards
    for i, name in enumerate(BOARDS):
        at = boards.at(i)
        if at is not None:
            assert at.waits == ""
            assert set(ids_of(at.free)) == set(here.listed[name])
    session.close()


free_chips = st.lists(st.sets(st.integers(0, 7)), min_size=1, max_size=6)


@examples(60)
@given(free_chips, st.sampled_from([1, 2, 4, 8]), st.booleans())
def test_answers_for_a_slice_are_those_for_all(free: list[set[int]], want: int, later: bool) -> None:
    objects: list[Node | Pod] = [chip_pod("p", want)]
    for i, chips in enumerate(free):
        objects.append(board(f"n{i}", names(sorted(chips))))
        if len(chips) < 8:
            objects.append(chip_pod(f"busy{i}", 8 - len(chips), on=f"n{i}"))
    state = state_of(*objects)
    here = world()
    session = here.scheduler.session(state, 0.0)
    chips = plugin_of(here.scheduler)
    task, nodes = state.tasks["d/p"], state.nodes
    whole = nodes.everything()
    index = np.arange(len(nodes))[::-2]
    part = nodes.some(index)
    whole.kind = part.kind = MoveKind.PIPELINE if later else MoveKind.ALLOCATE
    for term in chips.filters():
        assert (term.filter(task, whole).code[index] == term.filter(task, part).code).all()
    for scorer in chips.scorers():
        assert (scorer.raw(task, whole)[index] == scorer.raw(task, part)).all()
    session.close()
