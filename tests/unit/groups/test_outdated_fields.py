"""The fields in which a pod differs from its edition, as far as the rules changed them."""

from __future__ import annotations

from typing import Any

import pytest

from muster.groups.override import outdated_fields


def box(**fields: Any) -> dict[str, Any]:
    return {"containers": [{"name": "a", **fields}]}


@pytest.mark.parametrize(
    ("template", "edition", "pod", "paths"),
    [
        ({"x": 1}, {"x": 1}, {"x": 2}, []),  # nobody touched it
        ({"x": 1}, {"x": 2}, {"x": 2}, []),
        ({"x": 1}, {"x": 2}, {"x": 1}, ["/x"]),
        ({"x": 1}, {}, {"x": 1}, ["/x"]),
        ({"x": 1}, {}, {"x": 3}, []),  # a default in the place of what was removed
        ({}, {"d": {"a": 1}}, {"d": {"a": 1, "b": 2}}, []),  # others add to it
        ({}, {"d": {"a": 1}}, {}, ["/d"]),
        (box(), box(args=["-v"]), box(args=["-v"], tty=True), []),
        (box(), box(args=["-v"]), box(args=["-v", "-x"]), ["/containers/a/args"]),
        (box(args=["-v"]), box(args=[]), box(), []),
        (box(), {"containers": [{"name": "a"}, {"name": "b", "env": []}]}, box(), ["/containers/b"]),
        ({"containers": [{"name": "a"}, {"name": "b"}]}, box(), {"containers": [{"name": "b"}]}, ["/containers/b"]),
        ({"t": []}, {"t": [{"key": "k"}]}, {"t": [{"key": "k", "effect": ""}, {"key": "added"}]}, []),
        ({"t": [{"key": "k"}]}, {"t": []}, {"t": [{"key": "k"}]}, ["/t"]),
        ({"t": [{"key": "k"}]}, {"t": [{"key": "l"}]}, {"t": [{"key": "k"}]}, ["/t"]),
    ],
)
def test_only_what_the_rules_touched_counts(template: Any, edition: Any, pod: Any, paths: list[str]) -> None:
    assert outdated_fields(template, edition, pod) == paths
