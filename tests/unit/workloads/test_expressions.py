"""JMESPath expressions and texts with expressions."""

from __future__ import annotations

import pytest

from muster.workloads.expressions import BadExpression, Expression, TextTemplate

VARIABLES = {"metadata": {"name": "a"}, "spec": {"n": 3, "zero": 0, "list": [1, 2], "kinds": {"GPU": 1}}}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("spec.n", 3),
        ("spec.n?", 3),
        ("spec.missing", None),
        ("spec.n.deeper", None),
        ("spec.list[1]", 2),
        ("sum([spec.n, `1`])", 4),
        ("not_null(spec.zero, `1`)", 0),
        ("(spec.zero == `0` && `0`) || `7`", 0),
        ("lower('GPU')", "gpu"),
        ("map_of(metadata.name, spec.n)", {"a": 3}),
        ("map_of(spec.missing, spec.n)", None),
        ("jvm_memory('512m', '', '0.1')", "896Mi"),
        ("jvm_memory('8g', '', `0.1`)", "9011Mi"),
        ("jvm_memory('1g', '1g', '0.1')", "2048Mi"),
    ],
)
def test_an_expression_finds(text: str, found: object) -> None:
    assert Expression(text).find(VARIABLES) == found


def test_only_an_expression_with_a_question_mark_is_optional() -> None:
    assert Expression("spec.queue?").optional
    assert not Expression("spec.queue").optional
    assert Expression("spec.queue?").path == ("spec", "queue")
    assert Expression("spec.list[0]").path is None


@pytest.mark.parametrize("text", ["spec[", "a b", "spec..x"])
def test_what_is_no_expression_is_refused(text: str) -> None:
    with pytest.raises(BadExpression, match="is not a JMESPath expression"):
        Expression(text)


@pytest.mark.parametrize("text", ["sum(spec.kinds)", "jvm_memory('lots', '', '0.1')", "unknown(spec)", "lower(spec.n)"])
def test_an_expression_that_cannot_be_applied_says_so(text: str) -> None:
    with pytest.raises(BadExpression, match="cannot be applied"):
        Expression(text).find(VARIABLES)


def test_a_text_is_filled() -> None:
    assert TextTemplate("{metadata.name}-w-{sum([spec.n, `1`])}").fill(VARIABLES) == "a-w-4"
    assert TextTemplate("plain").fill({}) == "plain"


@pytest.mark.parametrize("text", ["{spec.missing}", "{spec.list}", "{spec.n == `3`}"])
def test_a_text_takes_names_and_numbers_only(text: str) -> None:
    with pytest.raises(BadExpression, match="not a name or a number"):
        TextTemplate(text).fill(VARIABLES)
