import xml.etree.ElementTree as ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from art_core.observe.charts import MAX_BARS, MAX_POINTS, Point, Series, line_chart, stacked_bars, ticks, whiskers

numbers = st.floats(-1e6, 1e6, allow_nan=False)


def line(points, mark="line"):
    return line_chart([Series(name="a", points=points, color="blue", mark=mark)], show=str, label="l")


@given(numbers, numbers)
def test_ticks_enclose_the_range_with_few_numbers(one, two):
    low, high = sorted((one, two))
    found = ticks(low, high)
    slack = (found[-1] - found[0]) * 1e-6
    assert found[0] <= low + slack
    assert found[-1] >= high - slack
    assert 2 <= len(found) <= 9


@given(
    st.lists(st.tuples(numbers, st.booleans()), min_size=1, max_size=30), st.sampled_from(["line", "dot", "diamond"])
)
def test_any_values_make_well_formed_svg_inside_its_box(values, mark):
    points = [Point(step, y, y - 1 if band else None, y + 1 if band else None) for step, (y, band) in enumerate(values)]
    root = ElementTree.fromstring(line(points, mark))
    ys = [float(node.get("cy")) for node in root.iter("circle")]
    assert all(0 <= y <= 240 for y in ys)


def test_text_from_outside_is_escaped():
    svg = line([Point(1, 1, text="<script>alert(1)</script>")])
    assert "<script>" not in svg
    assert "&lt;script&gt;" in svg


def test_no_points_make_no_chart():
    assert line([]) == ""
    assert stacked_bars([], order={}, show=str, unit="", label="") == ""
    assert stacked_bars([(1, {"a": 0})], order={"a": "blue"}, show=str, unit="", label="") == ""


def test_a_long_run_keeps_its_last_point():
    svg = line([Point(step, step, text=f"step {step}") for step in range(5000)])
    assert svg.count("<circle") <= MAX_POINTS + 1
    assert "step 4999" in svg


def test_bars_are_stacked_without_gaps_in_the_sum():
    svg = stacked_bars(
        [(1, {"a": 30, "b": 10})], order={"a": "blue", "b": "red"}, show="{:g}".format, unit="tokens", label="l"
    )
    titles = [node.text for node in ElementTree.fromstring(svg).iter("title")]
    assert titles == ["step 1 · a: 30 tokens", "step 1 · b: 10 tokens"]


def test_a_long_run_pools_its_bars():
    svg = stacked_bars([(step, {"a": 4}) for step in range(1000)], order={"a": "blue"}, show=str, unit="", label="")
    assert 50 < svg.count("<rect") <= MAX_BARS


@pytest.mark.parametrize("high", [1.0, None])
def test_whiskers_show_each_row_with_its_value(high):
    svg = whiskers(
        [("Before", Point(0, 0.5, 0.2 if high else None, high), "blue")], show=str, y_range=(0, 1), label="l"
    )
    texts = [node.text for node in ElementTree.fromstring(svg).iter("text")]
    assert texts[-2:] == ["Before", "0.5"]
