"""Backpressure between a source and its slow subscriber, within the window.

The page shows a run of the script.

The speed of either is the business of `scripts/prove/backpressure.py`.
"""

from __future__ import annotations

import re
from dataclasses import replace
from html import unescape
from pathlib import Path
from xml.etree import ElementTree

import pytest

from scripts.prove.backpressure import (
    CHART,
    SHORT,
    WINDOW,
    Run,
    Sample,
    chart,
    faults,
    measure,
    most_unbounded,
)
from tolliver_proto.reactive import UNBOUNDED, Limits


@pytest.fixture(scope="module")
def bounded() -> Run:
    return measure(SHORT, WINDOW)


@pytest.fixture(scope="module")
def unbounded() -> Run:
    return measure(SHORT, UNBOUNDED)


def test_the_depth_is_within_the_window(bounded: Run) -> None:
    assert bounded.samples
    for sample in bounded.samples:
        assert 0 <= sample.depth <= sample.open <= WINDOW
    assert bounded.samples[-1].consumed > WINDOW
    assert 0 < bounded.deepest <= WINDOW


def test_without_bound_it_is_not_but_within_the_limits(unbounded: Run) -> None:
    assert WINDOW < unbounded.deepest <= most_unbounded(Limits())


def test_the_script_says_when_a_depth_passes_its_bound(bounded: Run, unbounded: Run) -> None:
    assert faults(bounded, unbounded) == []
    assert faults(replace(bounded, deepest=WINDOW + 1), unbounded) != []
    assert faults(replace(bounded, samples=[Sample(1.0, WINDOW + 1, 0, WINDOW)]), unbounded) != []
    assert faults(replace(bounded, samples=[Sample(1.0, 1, 0, WINDOW + 1)]), unbounded) != []
    assert faults(bounded, replace(unbounded, deepest=most_unbounded(Limits()) + 1)) != []


def test_every_point_of_the_chart_is_inside_it(bounded: Run, unbounded: Run) -> None:
    drawn = ElementTree.fromstring(chart(SHORT, bounded, unbounded))
    width, height = float(drawn.attrib["width"]), float(drawn.attrib["height"])
    places = [place for line in drawn.findall(".//{*}polyline") for place in line.attrib["points"].split()]
    assert len(places) > len(bounded.samples)
    for x, y in (map(float, place.split(",")) for place in places):
        assert 0 <= x <= width
        assert 0 <= y <= height


def test_the_page_quotes_the_run_that_its_chart_shows() -> None:
    described = re.search(r"<desc>\n(.+?)\n</desc>", CHART.read_text("utf-8"), re.DOTALL)
    assert described
    page = (Path(__file__).parents[1] / "docs" / "streams.md").read_text("utf-8")
    assert unescape(described[1]) in page
    assert f"({CHART.name})" in page
