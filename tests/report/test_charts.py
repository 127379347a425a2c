"""Labels of a chart: apart from one another, inside, and near their lines."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import numpy as np
import pytest

from sparsetd._tools.numbers import Numbers
from sparsetd.plots.chart import Scale, spread
from sparsetd.report.document import estimates
from sparsetd.report.page import certainty, evaluation, feature_table, path, shape

example_payload = runpy.run_path(str(Path(__file__).with_name("payload.py")))["example_payload"]


@pytest.mark.parametrize(
    ("wanted", "places"),
    [
        ([10.0, 50.0, 90.0], [10.0, 50.0, 90.0]),
        ([50.0, 50.0, 50.0], [38.0, 50.0, 62.0]),
        ([10.0, 50.0, 52.0], [10.0, 45.0, 57.0]),
        ([99.0, 100.0], [88.0, 100.0]),
        ([0.0, 0.0], [0.0, 12.0]),
    ],
)
def test_labels_are_moved_apart_as_little_as_can_be(wanted: list[float], places: list[float]) -> None:
    assert spread(wanted, 12.0, 0.0, 100.0) == pytest.approx(places)


def test_more_labels_than_there_is_room_for_keep_their_order() -> None:
    assert np.diff(spread([5.0] * 20, 12.0, 0.0, 100.0)) == pytest.approx(12.0)


def drawn(rows: list) -> str:
    return estimates(rows, 0.95, "value", rows[:1], "forest", 0.5).html()


def test_one_wild_row_does_not_set_the_scale() -> None:
    near = [("ours", 0.5, (0.4, 0.6), "main"), ("other", 0.55, (0.3, 0.8), "")]
    wild = drawn([*near, ("wild", 1e6, (-1e9, 1e9), "")])
    ours = re.search(r'class="whisker main" points="([\d.]+),[\d.]+ ([\d.]+),', wild)
    assert float(ours[2]) - float(ours[1]) > 60  # pixels: our interval can still be seen
    assert re.search(r"1,000,000[.0]* ▸</text>", wild)
    assert "1,000,000" not in drawn(near)
    assert wild.count("<circle") == drawn(near).count("<circle")  # a point at the edge would be a wrong value


def test_features_that_may_be_nothing_are_folded_away() -> None:
    def feature(name: str, low: float, high: float) -> dict:
        return {"name": name, "weight": (low + high) / 2, "interval": [low, high], "frequency": 0.5}

    table = feature_table([feature("sure", 0.1, 0.2), feature("unsure", -0.1, 0.2)], 0.95).html()
    shown, folded = table.split("<details>")
    assert "sure" in shown
    assert "unsure" not in shown
    assert "1 more column was kept" in folded
    assert (
        "<details>" not in feature_table([feature("a", -1, 1), feature("b", -2, 1)], 0.95).html()
    )  # nothing else is left
    assert 'class="unsure"' in folded


def test_a_narrow_logarithmic_axis_has_several_ticks() -> None:
    assert len(Scale(1.02, 9.8, 0, 100, "log").ticks()) >= 4
    assert Scale(1.0, 2.83, 0, 100, "log").ticks() == pytest.approx([1.0, 1.5, 2.0, 2.5])
    assert len(Scale(1e-3, 1e5, 0, 100, "log").ticks()) >= 4


def test_an_axis_has_three_numbers_or_more() -> None:
    for ends in ((0.03, 1.04), (-0.78, 0.22), (0.0, 10.0)):
        assert len(Scale(*ends, 0, 100).ticks(5)) >= 3


def test_a_wide_logarithmic_axis_has_room_for_its_powers() -> None:
    assert len(Scale(1e-14, 10.0, 0, 100, "log").ticks()) <= 6


def test_lines_and_labels_of_the_path_share_a_colour() -> None:
    found = {"penalty": [1.0, 0.5, 0.1], "weights": {"a": [0, 1, 2], "b": [0, 0, -1]}, "chosen": 0.5}
    drawing = path({"path": found, "features": [{"name": "a"}, {"name": "b"}]})
    assert re.findall(r'class="line main (c\d)"', drawing) == ["c1", "c0"]
    assert re.findall(r'class="note (c\d)"', drawing) == ["c0", "c1"]


def a_column(at: list[float]) -> dict:
    value = [float(i) for i in range(len(at))]
    drawn = {"at": at, "value": value, "low": [v - 0.5 for v in value], "high": [v + 0.5 for v in value]}
    return {"name": "new model", "shape": drawn}


def test_a_column_of_two_values_is_two_points_with_whiskers() -> None:
    two, many = shape(a_column([0.0, 1.0])), shape(a_column([0.0, 0.5, 1.0]))
    assert "<polygon" not in two
    assert two.count('class="whisker main"') == two.count("<circle") == 2
    assert re.findall(r'class="tick"[^>]*text-anchor="middle">([^<]*)<', two) == ["0", "1"]
    assert "<polygon" in many
    assert "whisker" not in many


def test_a_range_that_leaps_does_not_flatten_the_others() -> None:
    def row(strength: float, low: float, high: float) -> dict:
        return {
            "confounding": strength,
            "difference_bounds": [low / 2, high / 2],
            "difference_interval": [low, high],
            "value_bounds": [low, high],
        }

    calm, wild = [row(1.0, -0.02, 0.04), row(2.0, -0.1, 0.12), row(3.0, -0.3, 0.2)], row(5.0, -1910.0, 0.3)
    found = {"sentence": "", "bounds": [*calm, wild]}
    section = evaluation({**example_payload(), "confounding": found}).sections["hidden"][1]
    table = section[1]
    assert section[2] == "Not drawn, because the range is far wider: Γ = 5."
    assert "1,910" not in table.html()
    assert table.rows[0] == ("Γ = 1", "−0.01 to +0.02", "−0.02 to +0.04")
    assert table.rows[-1][-1] == "−1,910.00 to +0.30"
    assert len(evaluation({**example_payload(), "confounding": {**found, "bounds": calm}}).sections["hidden"][1]) == 2


def test_a_dashed_line_has_its_name_and_stands_in_the_legend() -> None:
    rows = [("a", 0.5, (0.4, 0.6), "main")]
    page = estimates(rows, 0.95, "value", rows, "values", 0.7, "what was done").html()
    assert re.search(r'class="line warm dash" points="[^"]*" tabindex="0" role="img" aria-label="what was done"', page)


def test_a_rounded_zero_has_no_minus_sign() -> None:
    assert Numbers.of([100.0])(-0.3) == "0"


def test_estimates_have_plain_names_in_the_picture() -> None:
    names = ["WIS", "DR", "an own estimate"]
    others = [{"name": name, "value": 0.5, "interval": (0.4, 0.6)} for name in names]
    own = {
        **example_payload(),
        "value": 0.5,
        "interval": (0.4, 0.6),
        "behavior_value": others[0],
        "comparisons": others,
    }
    table = certainty(own)[1]
    named = [
        "This policy",
        "What was done",
        "Reweighted returns (WIS)",
        "This model, corrected (DR)",
        "an own estimate",
    ]
    assert re.findall(r'class="name[^"]*"[^>]*>([^<]*)<', table.html()) == 2 * named  # once more for phones
    assert [row[0] for row in table.rows] == named
