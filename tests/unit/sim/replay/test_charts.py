"""Charts in SVG: what they draw, that they are well-formed, and that every text is escaped."""

from __future__ import annotations

import math
import re
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.sim.replay.charts import (
    SMALL,
    Axis,
    Series,
    bar_chart,
    bar_rows,
    cdf,
    cdf_rows,
    duration,
    figure,
    heat_map,
    key,
    line_chart,
    line_rows,
    number,
    spread,
    stacked_chart,
    thin,
)
from strategies.profiles import examples

BAD = '<script>alert("1")</script>&'
X, Y = Axis("time", "s", log=True), Axis("share", "%", high=1.0)
FLOATS = st.floats(allow_nan=True, allow_infinity=True, width=32)


def drawn(svg: str) -> ElementTree.Element:
    root = ElementTree.fromstring(svg)
    assert root.tag == "svg" and root.attrib["role"] == "img"
    assert [child.tag for child in root][:2] == ["title", "desc"]
    assert "nan" not in re.sub(r"<(title|desc|text)[^>]*>[^<]*", "", svg) and "inf" not in svg
    return root


def test_a_cdf_gives_each_value_the_share_of_the_values_up_to_it() -> None:
    found = cdf("a", [3.0, 1.0, 2.0, 2.0, math.nan])
    assert (list(found.x), list(found.y)) == ([1.0, 2.0, 3.0], [0.25, 0.75, 1.0])
    assert list(cdf("a", [1.0, 2.0], of=4).y) == [0.25, 0.5]


def test_a_long_cdf_has_few_points_and_keeps_its_ends() -> None:
    found = cdf("a", [float(i) for i in range(100_000)])
    assert len(found.x) <= 240
    assert (found.x[0], found.x[-1], found.y[-1]) == (0.0, 99_999.0, 1.0)


def test_the_table_of_a_cdf_says_dash_where_too_few_have_a_value() -> None:
    _, rows = cdf_rows([cdf("a", [60.0, 120.0], of=4)], X)
    assert ["25 %", "1 min"] in rows and ["50 %", "2 min"] in rows and ["75 %", "–"] in rows


def test_thin_takes_means_of_neighbours() -> None:
    assert thin([0.0, 1.0, 2.0, 3.0], [1.0, 3.0, 5.0, math.nan], most=2) == ([0.0, 2.0], [2.0, 5.0])
    assert thin([0.0, 1.0], [1.0, math.nan], most=1) == ([0.0], [1.0])


def test_spread_is_the_mean_and_the_range() -> None:
    found = spread("a", [[1.0, 2.0, 6.0], [4.0], []])
    assert found.low is not None and found.high is not None
    assert (found.y[0], found.low[0], found.high[0], found.y[1]) == (3.0, 1.0, 6.0, 4.0)
    assert math.isnan(found.low[1]) and math.isnan(found.y[2])


@pytest.mark.parametrize(
    "text, expected",
    [
        (duration(0.0), "0 s"),
        (duration(90.0), "1.5 min"),
        (duration(172800.0), "2 d"),
        (number(1234567.0), "1,234,567"),
        (number(-0.0), "0"),
        (number(0.25), "0.25"),
        (number(100.0), "100"),
        (number(12000.0), "12,000"),
        (Y.text(0.905), "90.5 %"),
        (Y.text(math.nan), "–"),
    ],
)
def test_values_are_short_texts(text: str, expected: str) -> None:
    assert text == expected


def test_lines_differ_in_dashes_and_markers_and_carry_their_names() -> None:
    svg = line_chart("t", [Series(f"line-{i}", [1, 10, 100], [0.1, 0.5, 1.0]) for i in range(4)], X, Y)
    drawn(svg)
    lines = re.findall(r'<path class="line h\d+"([^>]*) d="M72', svg)
    assert len(set(lines)) == 4
    assert all(f">line-{i}<" in svg for i in range(4))


def test_a_value_of_zero_is_drawn_at_the_low_end_of_a_logarithmic_axis() -> None:
    svg = line_chart("t", [Series("a", [0.0, 100.0], [0.0, 1.0])], X, Y)
    assert 'd="M72 286L570 14"' in svg


def test_a_range_is_a_band_and_nan_interrupts_a_line() -> None:
    one = Series("a", [1, 2, 3, 4], [1.0, math.nan, 3.0, 4.0], [0.5, math.nan, 2.0, 3.0], [2.0, math.nan, 4.0, 5.0])
    svg = line_chart("t", [one], Axis("x"), Axis("y"))
    drawn(svg)
    assert svg.count('class="range h') == 1
    assert re.search(r'class="line h0"[^>]* d="M[\d. ]+M[\d. ]+L', svg)


def test_a_stack_ends_at_the_sum_of_its_bands() -> None:
    two = [Series("a", [0, 1], [1.0, 1.0]), Series("b", [0, 1], [3.0, math.nan])]
    svg = stacked_chart("t", two, Axis("x"), Axis("y", high=4.0), over=[Series("capacity", [0, 1], [4.0, 4.0])])
    drawn(svg)
    # 272 pixels for 4: the first band ends at 218 = 286 − 68, the second at 14 and, without a value, at 218.
    assert 'd="M72 218L570 218L570 286L72 286Z"' in svg
    assert 'd="M72 14L570 218L570 218L72 218Z"' in svg
    assert 'class="over"' in svg


def test_bars_have_whiskers_where_there_is_a_range() -> None:
    series = [spread("a", [[1.0, 3.0], [2.0]]), spread("b", [[2.0, 2.0], []])]
    svg = bar_chart("t", ["one", "two"], series, Axis("y"))
    root = drawn(svg)
    assert svg.count('class="whisker"') == 2
    assert len([r for r in root.iter("rect") if r.find("title") is not None]) == 3
    assert bar_rows(["one", "two"], series, Axis("y"))[1] == [["one", "2 (1 to 3)", "2 (2 to 2)"], ["two", "2", "–"]]


def test_a_heat_map_is_darker_where_the_value_is_larger() -> None:
    svg = heat_map("t", ["r"], ["a", "b", "c"], [[1.0, 100.0, math.nan]], Axis("waiting", "s", log=True))
    drawn(svg)
    cells = re.findall(r'class="(heat|none)"(?: fill-opacity="([\d.]+)")? x="150.5|fill-opacity="(1.00)"', svg)
    assert cells[0][1] == "0.04" and cells[1][2] == "1.00" and svg.count('class="none"') == 1


def test_charts_without_values_say_so() -> None:
    for svg in (
        line_chart("t", [], X, Y),
        line_chart("t", [Series("a", [], [])], X, Y, size=SMALL, key=False),
        stacked_chart("t", [], X, Y),
        bar_chart("t", [], [], Y),
        heat_map("t", [], [], [], Axis("v")),
    ):
        drawn(svg)
        assert "no values" in svg
    assert line_rows([], X, Y)[1] == []


def test_names_from_the_input_are_escaped() -> None:
    one = Series(BAD, [1.0, 2.0], [1.0, 2.0])
    axis = Axis(BAD)
    charts = [
        line_chart(BAD, [one], axis, axis, about=BAD),
        stacked_chart(BAD, [one], axis, axis, over=[one]),
        bar_chart(BAD, [BAD, BAD], [one], axis, x_label=BAD),
        heat_map(BAD, [BAD], [BAD], [[1.0]], axis, x_label=BAD),
    ]
    for svg in charts:
        drawn(svg)
        assert "<script" not in svg
    whole = figure(BAD, charts[0], *line_rows([one], axis, axis), note=BAD) + key([BAD])
    assert "<script" not in whole and "&lt;script&gt;" in whole


@given(
    st.lists(st.lists(FLOATS, min_size=1, max_size=12), min_size=1, max_size=4),
    st.booleans(),
    st.sampled_from(["", "s", "%"]),
)
@examples(200)
def test_any_values_give_a_chart(values: list[list[float]], log: bool, unit: str) -> None:
    series = [Series(f"s{i}", list(range(len(v))), v, v, v) for i, v in enumerate(values)]
    x, y = Axis("x", unit, log), Axis("y", unit, log)
    for svg in (
        line_chart("t", series, x, y, steps=True),
        line_chart("t", [cdf("c", v) for v in values], x, Y),
        stacked_chart("t", [Series("s", range(3), (v * 3)[:3]) for v in values], x, y),
        bar_chart("t", ["g"], [Series("s", [0], v[:1], v[:1], v[:1]) for v in values], y),
        heat_map("t", [str(i) for i in range(len(values))], ["c"], [v[:1] for v in values], y),
    ):
        drawn(svg)
    line_rows(series, x, y)
    for one in (cdf("c", v) for v in values):
        assert list(one.x) == sorted(one.x) and list(one.y) == sorted(one.y)
        assert not one.y or one.y[-1] == 1.0
