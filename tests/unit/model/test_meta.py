"""Names, timestamps and partial objects."""

from __future__ import annotations

import copy
import pickle

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.model.core import Node, Pod
from muster.model.meta import ObjectMeta, OwnerReference, controller, key, seconds, timestamp


def test_a_key_is_namespace_and_name_and_the_namespace_may_be_absent() -> None:
    assert key(Pod(metadata=ObjectMeta(name="a", namespace="team"))) == "team/a"
    assert key(Pod(metadata=ObjectMeta(name="a"))) == "default/a"


def test_the_key_of_a_cluster_scoped_object_is_its_name() -> None:
    assert key(Node(metadata=ObjectMeta(name="n1", namespace="ignored"))) == "n1"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1970-01-01T00:00:00Z", 0.0),
        ("2026-01-01T00:00:00Z", 1767225600.0),
        ("2026-01-01T08:00:00+08:00", 1767225600.0),
        ("2025-12-31T19:30:00-04:30", 1767225600.0),
        ("2026-01-01T00:00:00.250000Z", 1767225600.25),
        ("2016-12-31T23:59:60Z", 1483228800.0),
        (None, 0.0),
    ],
)
def test_a_timestamp_is_seconds_since_the_epoch(text: str | None, expected: float) -> None:
    assert seconds(text) == expected


@pytest.mark.parametrize(
    "text", ["", "yesterday", "2026-01-01", "2026-01-01T00:00:00", "2026-02-30T00:00:00Z", "2026-01-01T00:00:00+99:00"]
)
def test_what_is_no_timestamp_is_refused_and_quoted(text: str) -> None:
    with pytest.raises(ValueError, match="is not a timestamp") as refused:
        seconds(text)
    assert repr(text) in str(refused.value)


def test_the_controller_is_the_owner_with_the_field_controller() -> None:
    user = OwnerReference(kind="Config", name="c")
    maker = OwnerReference(kind="ReplicaSet", name="r", controller=True)
    assert controller(ObjectMeta(owner_references=[user, maker])) is maker
    assert controller(ObjectMeta(owner_references=[user])) is None


def test_objects_do_not_share_their_defaults() -> None:
    one, other = Pod(), Pod()
    one.metadata.labels["a"] = "b"
    assert other.metadata.labels == {}


@pytest.mark.parametrize(
    ("moment", "text"),
    [(0, "1970-01-01T00:00:00Z"), (1769846400, "2026-01-31T08:00:00Z"), (1.5, "1970-01-01T00:00:01.500000Z")],
)
def test_a_moment_is_written_in_utc(moment: float, text: str) -> None:
    assert timestamp(moment) == text


@given(st.integers(min_value=-60_000_000_000, max_value=250_000_000_000))
def test_a_whole_second_comes_back_as_it_went(moment: int) -> None:
    assert seconds(timestamp(moment)) == moment


def test_objects_share_the_values_of_absent_fields_and_nothing_changes_them() -> None:
    one, other = msgspec.json.decode(b"{}", type=Pod), Pod()
    for same in (other, copy.deepcopy(one), pickle.loads(pickle.dumps(one))):
        assert same == one
        assert same.spec.volumes is one.spec.volumes
        assert same.spec.overhead is one.spec.overhead
    assert (one.spec.volumes, one.spec.overhead) == ([], {})
    assert msgspec.to_builtins(one.spec) == {}
    for change in (
        lambda: one.metadata.finalizers.append("f"), lambda: one.spec.volumes.extend([]),
        lambda: one.spec.overhead.update(cpu="1"), lambda: one.spec.node_selector.setdefault("zone", "a"),
    ):  # fmt: skip
        with pytest.raises(TypeError, match="assign a new one"):
            change()
