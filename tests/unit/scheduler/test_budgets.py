"""The protection of pods by budgets follows every change, and looks only at what has changed."""

from __future__ import annotations

import random

from builders.manifests import node, typed
from builders.scheduler_objects import budget, waiting
from muster.engine.core.state import State
from muster.model.core import Pod, PodDisruptionBudget
from muster.model.meta import LabelSelector, LabelSelectorRequirement
from muster.model.selectors import matches
from muster.scheduler.budgets import BudgetProtection

SELECTORS = [
    LabelSelector(match_labels={"app": "a"}),
    LabelSelector(match_labels={"app": "b", "tier": "x"}),
    LabelSelector(match_expressions=[LabelSelectorRequirement(key="tier", operator="Exists")]),
    LabelSelector(),
    None,
]


def labelled(name: str, namespace: str, labels: dict[str, str], on: str = "n1") -> Pod:
    made = waiting(name, on=on)
    made.metadata.namespace, made.metadata.labels = namespace, labels
    return made


def budget_of(name: str, namespace: str, selector: LabelSelector | None, allowed: int) -> PodDisruptionBudget:
    made = budget(name, allowed)
    made.metadata.namespace, made.metadata.name, made.spec.selector = namespace, name, selector
    return made


def protected(state: State) -> set[str]:
    return {key for key, task in state.tasks.items() if not task.preemptable}


def should_be_protected(state: State) -> set[str]:
    """The rule, asked of every pod and every budget."""
    found = set()
    for key, task in state.tasks.items():
        over = [
            b for b in state.objects["PodDisruptionBudget"].values()
            if isinstance(b, PodDisruptionBudget) and b.metadata.namespace == task.namespace
            and matches(b.spec.selector, task.labels)
        ]  # fmt: skip
        if task.pod.spec.node_name and (len(over) > 1 or any(not b.status.disruptions_allowed for b in over)):
            found.add(key)
    return found


def test_after_any_change_the_same_pods_are_protected_as_after_a_full_search() -> None:
    dice = random.Random(7)
    state, budgets = State(), BudgetProtection()
    state.load({"Node": {"n1": typed(node("n1", cpu="900"))}})
    met = set()
    for _ in range(400):
        for _ in range(dice.randint(0, 3)):
            space, name = dice.choice("de"), f"x{dice.randrange(8)}"
            kind = dice.choice(["Pod", "Pod", "PodDisruptionBudget"])
            if dice.random() < 0.3:
                state.remove(kind, f"{space}/{name}")
            elif kind == "Pod":
                labels = {k: v for k, v in (("app", dice.choice("abc")), ("tier", "x")) if dice.random() < 0.6}
                state.upsert(kind, f"{space}/{name}", labelled(name, space, labels, dice.choice(["", "n1"])))
            else:
                made = budget_of(name, space, dice.choice(SELECTORS), dice.randrange(2))
                state.upsert(kind, f"{space}/{name}", made)
        budgets.mark(state)
        assert protected(state) == should_be_protected(state)
        met.add(len(protected(state)))
    assert len(met) > 4


def test_without_a_change_no_job_is_marked_as_changed() -> None:
    state, budgets = State(), BudgetProtection()
    state.load({
        "Node": {"n1": typed(node("n1", cpu="900"))},
        "PodDisruptionBudget": {"d/a": budget_of("a", "d", SELECTORS[0], 0)},
        "Pod": {f"d/p{i}": labelled(f"p{i}", "d", {"app": "a"}) for i in range(5)},
    })  # fmt: skip
    budgets.mark(state)
    generations, tasks = [job.generation for job in state.jobs.values()], dict(state.tasks)
    assert len(protected(state)) == 5
    budgets.mark(state)
    assert [job.generation for job in state.jobs.values()] == generations and state.tasks == tasks
    state.upsert("PodDisruptionBudget", "d/a", budget_of("a", "d", SELECTORS[0], 1))
    budgets.mark(state)
    assert protected(state) == set() and [job.generation for job in state.jobs.values()] != generations
