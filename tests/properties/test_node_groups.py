"""What holds for node group management whatever the numbers: division, quota usage and overrides."""

from __future__ import annotations

from copy import deepcopy
from fractions import Fraction
from typing import Any

import msgspec
from hypothesis import assume, given
from hypothesis import strategies as st

from muster.groupctl.controllers.deletion_cost import assign_positions, replica_order
from muster.groups.division import by_ranges, by_weights, descending
from muster.groups.override import OverrideError, edition, faults, outdated_fields
from muster.groups.propagation import PropagationRules
from muster.groups.quota_usage import Acceptance, QuotaUsage, UndecidedPods
from muster.model.groups import OverridePolicySpec

names = st.sampled_from("abcdef")
weights = st.dictionaries(names, st.integers(0, 9), min_size=1)
replicas = st.integers(0, 60)
uids = st.sampled_from(["", "x", "uid-1", "0b9c"])


@st.composite
def ranges(draw: st.DrawFn) -> dict[str, tuple[int, int | None]]:
    found: dict[str, tuple[int, int | None]] = {}
    for name in draw(st.lists(names, min_size=1, unique=True)):
        least = draw(st.integers(0, 6))
        found[name] = (least, draw(st.none() | st.integers(least, least + 8)))
    return found


@given(weights, replicas, uids)
def test_weights_give_every_replica_and_one_more_takes_none_away(given: dict[str, int], n: int, uid: str) -> None:
    now, more = by_weights(given, n, uid), by_weights(given, n + 1, uid)
    assert sum(now.values()) == (n if any(given.values()) else 0)
    assert all(more[name] >= now[name] for name in given)
    assert all(now[name] == 0 for name, weight in given.items() if weight == 0)


@given(weights, replicas, uids)
def test_weights_are_given_replica_by_replica(given: dict[str, int], n: int, uid: str) -> None:
    rank = {name: i for i, name in enumerate(sorted(given, reverse=descending(uid)))}
    positions = dict.fromkeys(given, 0)
    able = [name for name, weight in given.items() if weight]
    for _ in range(n if able else 0):
        first = min(able, key=lambda g: (-Fraction(given[g], 2 * positions[g] + 1), positions[g], rank[g]))
        positions[first] += 1
    assert by_weights(given, n, uid) == positions


@given(weights, replicas, st.randoms(use_true_random=False))
def test_the_order_of_weights_does_not_matter(given: dict[str, int], n: int, random: Any) -> None:
    entries = list(given.items())
    random.shuffle(entries)
    assert by_weights(dict(entries), n) == by_weights(given, n)


@given(ranges(), replicas)
def test_ranges_are_kept_and_one_more_takes_none_away(given: dict[str, tuple[int, int | None]], n: int) -> None:
    now, more = by_ranges(given, n), by_ranges(given, n + 1)
    tops = [most for _, most in given.values()]
    capacity = n if None in tops else sum(top for top in tops if top is not None)
    assert sum(now.values()) == min(n, capacity)
    assert all(more[name] >= now[name] for name in given)
    for name, (least, most) in given.items():
        assert most is None or now[name] <= most
        assert n < sum(low for low, _ in given.values()) or now[name] >= least


@given(ranges(), st.integers(1, 25), st.data())
def test_pods_placed_one_by_one_end_within_their_quotas(
    given: dict[str, tuple[int, int | None]], n: int, data: st.DataObject
) -> None:
    quotas = PropagationRules("NumRange", ranges=given).quotas(n)
    counts: dict[str, int] = {}
    for _ in range(n):
        open_ = [group for group in quotas.groups if QuotaUsage(quotas, counts).accepts(group) == Acceptance.YES]
        if not open_:
            break
        group = data.draw(st.sampled_from(open_))
        counts[group] = counts.get(group, 0) + 1
    assert sum(counts.values()) == n - quotas.unplaced
    assert QuotaUsage(quotas, counts).excess() == {}


@given(ranges(), st.integers(1, 12), st.lists(st.lists(names, min_size=2, unique=True), max_size=4), st.data())
def test_a_yes_holds_wherever_the_maybes_go(
    given: dict[str, tuple[int, int | None]], n: int, ways: list[list[str]], data: st.DataObject
) -> None:
    quotas = PropagationRules("NumRange", ranges=given).quotas(n)
    undecided = UndecidedPods()
    counts = {group: data.draw(st.integers(0, 2)) for group in given}
    after = dict(counts)
    for groups in ways:
        inside = [group for group in groups if group in given]
        if inside:
            undecided.add(inside)
            went = data.draw(st.sampled_from(inside))
            after[went] += 1
    before, then = QuotaUsage(quotas, counts, undecided), QuotaUsage(quotas, after)
    for group in given:
        answer = before.accepts(group)
        if answer != Acceptance.UNDECIDED:
            assert (then.refusal(group) is None) == (answer == Acceptance.YES)
        # Without undecided pods, the extender does not ask and waits for nothing.
        assert then.accepts(group) == (Acceptance.NO if then.refusal(group) else Acceptance.YES)


@given(
    weights.map(lambda given: PropagationRules("StaticWeight", weights=given))
    | ranges().map(lambda given: PropagationRules("NumRange", ranges=given)),
    st.integers(0, 12),
    st.lists(st.sets(names, min_size=1), max_size=4),
    st.booleans(),
    st.data(),
)
def test_many_groups_are_answered_as_each_of_them(
    rules: PropagationRules, n: int, ways: list[set[str]], without_nodes: bool, data: st.DataObject
) -> None:
    undecided = UndecidedPods()
    for groups in ways:
        undecided.add(groups)
    counts = {group: data.draw(st.integers(0, 4)) for group in rules.groups}
    usage = QuotaUsage(rules.quotas(n), counts, undecided, {rules.groups[0]: "has no nodes"} if without_nodes else {})
    assert usage.acceptances(rules.groups) == {group: usage.accepts(group) for group in rules.groups}
    refusals = {group: usage.refusal(group) for group in rules.groups}
    assert usage.refusals(rules.groups) == {group: why for group, why in refusals.items() if why is not None}


images = st.sampled_from(["nginx", "reg.io/a:1", "host:5000/a/b", "a@sha256:" + "0" * 64])
changes = st.fixed_dictionaries(
    {
        "component": st.sampled_from(["Registry", "Repository", "Tag"]),
        "operator": st.sampled_from(["add", "replace"]),
        "value": st.sampled_from(["x.io", "v2", "{{nodegroup}}", "-y"]),
    }
)
rules = st.lists(
    st.fixed_dictionaries(
        {
            "targetNodeGroup": st.lists(st.sampled_from(["g1", "G2", "g3"]), max_size=2, unique=True),
            "imageOverrider": st.lists(changes, max_size=2),
        }
    ),
    max_size=4,
)


@given(images, rules, changes)
def test_overriding_one_group_leaves_the_others_and_the_template_alone(
    image: str, given: list[dict[str, Any]], change: dict[str, str]
) -> None:
    template = {"metadata": {}, "spec": {"containers": [{"name": "c", "image": image}]}}
    before = deepcopy(template)
    more = [*given, {"targetNodeGroup": ["g1"], "imageOverrider": [change]}]
    first, second = (msgspec.convert({"overrideRules": r}, OverridePolicySpec) for r in (given, more))

    def made(spec: OverridePolicySpec, group: str) -> object:
        try:
            return edition(spec, [group], template).template
        except OverrideError as fault:
            return str(fault)  # such as an image that nobody can pull

    assume(not faults(second))
    assert made(first, "g2") == made(second, "g2")
    made(second, "g1")
    assert template == before


@given(weights, ranges(), st.integers(0, 40), st.integers(0, 10), uids, st.booleans())
def test_the_first_positions_are_the_division_of_fewer_replicas(
    given: dict[str, int], bounds: dict[str, tuple[int, int | None]], n: int, fewer: int, uid: str, ranged: bool
) -> None:
    parsed = PropagationRules("NumRange", ranges=bounds) if ranged else PropagationRules("StaticWeight", weights=given)
    order = replica_order(parsed, n, uid)
    quotas = parsed.quotas(max(n - fewer, 0), uid)
    first = order[: max(n - fewer, 0)]
    assert {name: first.count(name) for name in quotas.groups} == {g: q.desired for g, q in quotas.groups.items()}


@given(st.lists(names, max_size=12), st.dictionaries(names, st.integers(0, 5)), st.data())
def test_no_position_is_given_twice_and_what_was_written_stays(
    order: list[str], sizes: dict[str, int], data: Any
) -> None:
    pods = {group: [f"{group}{i}" for i in range(size)] for group, size in sizes.items()}
    held = {pod: data.draw(st.integers(0, 13)) for of_group in pods.values() for pod in of_group}
    found = assign_positions(order, pods, held)
    taken = [position for position in found.values() if position is not None]
    assert len(taken) == len(set(taken)) and found.keys() == held.keys()
    for group, of_group in pods.items():
        positions = [i + 1 for i, name in enumerate(order) if name == group]
        assert all(found[pod] is None or found[pod] in positions for pod in of_group)
        assert sum(found[pod] is not None for pod in of_group) == min(len(positions), len(of_group))
    assert assign_positions(order, pods, {pod: position or 0 for pod, position in found.items()}) == found


fields = st.sampled_from(["args", "env", "ports", "tty", "lifecycle"])
values = st.recursive(
    st.integers(1, 3) | st.sampled_from(["x", "y"]),
    lambda inner: st.lists(inner, min_size=1, max_size=2) | st.dictionaries(names, inner, min_size=1, max_size=2),
    max_leaves=4,
)
boxes = st.dictionaries(fields, values, max_size=3)


@given(boxes, boxes, boxes)
def test_a_pod_made_as_its_edition_is_not_outdated_whatever_others_add_and_the_template_is(
    before: dict[str, Any], after: dict[str, Any], more: dict[str, Any]
) -> None:
    template, made = ({"containers": [{"name": "c", **fields}]} for fields in (before, after))
    pod = {"containers": [{**{k: v for k, v in more.items() if k not in before}, "name": "c", **after}, {"name": "d"}]}
    assert outdated_fields(template, made, pod) == []
    assert bool(outdated_fields(template, made, template)) == (template != made)
