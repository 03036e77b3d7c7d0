"""Quantities mean what Kubernetes means by them, to the last digit."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.model import quantity
from muster.model.quantity import QuantityError, milli, parse, units


@pytest.mark.parametrize(
    ("written", "number"),
    [
        ("0", 0),
        ("12", 12),
        (12, 12),
        ("+5", 5),
        ("-3", -3),
        ("100m", Fraction(1, 10)),
        ("1500m", Fraction(3, 2)),
        ("5n", Fraction(5, 10**9)),
        ("7u", Fraction(7, 10**6)),
        ("1k", 1000),
        ("2M", 2 * 10**6),
        ("3G", 3 * 10**9),
        ("4T", 4 * 10**12),
        ("5P", 5 * 10**15),
        ("1E", 10**18),
        ("1Ki", 1024),
        ("1.5Gi", 3 * 2**29),
        ("1Ei", 2**60),
        ("1e3", 1000),
        ("1E3", 1000),
        ("12e-1", Fraction(6, 5)),
        (".5", Fraction(1, 2)),
        ("5.", 5),
        (0.1, Fraction(1, 10)),
        (1e16, 10**16),
    ],
)
def test_every_way_of_writing_is_read_exactly(written: str | float, number: Fraction | int) -> None:
    assert parse(written) == number


def test_a_whole_number_is_an_int() -> None:
    assert isinstance(parse("2000m"), int)


@pytest.mark.parametrize(
    "written", ["", "m", "1K", "1KB", "1 Gi", "Gi", "1.2.3", "0x10", "1e", "--1", "١", "1mi", "NaN"]
)
def test_what_is_no_quantity_is_refused_and_quoted(written: str) -> None:
    with pytest.raises(QuantityError) as refused:
        parse(written)
    assert repr(written) in str(refused.value)
    assert refused.value.fix


@pytest.mark.parametrize("value", [float("nan"), float("inf"), True])
def test_a_number_that_is_no_amount_is_refused(value: float) -> None:
    with pytest.raises(QuantityError):
        parse(value)


def test_a_decimal_kilo_is_explained() -> None:
    with pytest.raises(QuantityError, match="for thousand is k, for 1024 it is Ki"):
        parse("64K")


@pytest.mark.parametrize("written", ["1e999999999", "1e-999999999", "9" * 100])
def test_a_monstrous_number_costs_nothing(written: str) -> None:
    with pytest.raises(QuantityError):
        units(written)


def test_an_amount_no_column_can_hold_is_out_of_range() -> None:
    assert units("1Ei") == 2**60
    with pytest.raises(QuantityError, match="out of range"):
        units("2Ei")


def test_rounding_is_up_to_the_unit_asked_for() -> None:
    assert milli("0.1m") == 1
    assert milli("1001u") == 2
    assert units("1m") == 1
    assert units("1.0000001Gi") == 2**30 + 108
    assert milli("-1.5m") == -1


@given(st.integers(min_value=0, max_value=2**50), st.sampled_from(["", "m", "k", "Ki", "Mi"]))
def test_milli_is_the_smallest_whole_number_of_thousandths_not_below(number: int, suffix: str) -> None:
    written = f"{number}{suffix}"
    if parse(written) * 1000 <= quantity.LARGEST:
        assert 0 <= milli(written) - parse(written) * 1000 < 1


@pytest.mark.parametrize(
    ("name", "amount", "written"),
    [
        ("cpu", 1500, "1500m"),
        ("cpu", 2000, "2"),
        ("memory", 3 * 2**29, "1536Mi"),
        ("memory", 1000, "1000"),
        ("memory", 0, "0"),
        ("pods", 110, "110"),
        ("nvidia.com/gpu", 8000, "8"),
        ("ephemeral-storage", 10 * 2**30 * 1000, "10Gi"),
    ],
)
def test_the_canonical_amount_can_be_read_back(name: str, amount: int, written: str) -> None:
    assert quantity.canonical(name, amount) == written
    assert (units if name in ("memory", "pods") else milli)(written) == amount


@pytest.mark.parametrize(
    ("name", "amount", "shown"),
    [
        ("cpu", 1500, "1500m"),
        ("cpu", 1234567, "1234.57"),
        ("cpu", 10000 / 3, "3.33333"),
        ("cpu", 3 * 10**12, "3000000000"),
        ("cpu", -2000, "-2"),
        ("memory", 1536 << 20, "1536Mi"),
        ("memory", 32779500 << 10, "31.261Gi"),
        ("memory", 3 << 60, "3Ei"),
        ("memory", 0, "0"),
        ("pods", 110, "110"),
        ("ephemeral-storage", 1000 << 40, "1Ti"),
        ("hugepages-2Mi", 2000 << 20, "2Mi"),
        ("nvidia.com/gpu", 8000, "8"),
    ],
)
def test_an_amount_for_people_is_as_in_a_manifest_or_has_six_digits(name: str, amount: float, shown: str) -> None:
    assert quantity.display(name, amount) == shown


@pytest.mark.parametrize(
    ("name", "amount", "written"),
    [
        ("cpu", 1500, "1500m"),
        ("cpu", 10000 / 3, "3333.33333333333348491578362882137298583984375m"),
        ("memory", (1 << 62) + 1, "4611686018427387905"),
        ("memory", 0.5, "0.5"),
        ("nvidia.com/gpu", 8000.0, "8"),
    ],
)
def test_the_exact_amount_is_a_quantity_of_the_same_value(name: str, amount: float, written: str) -> None:
    assert quantity.exact(name, amount) == written
    unit = 1 if name == "memory" else 1000
    assert quantity.parse(written) * unit == Fraction(amount)
