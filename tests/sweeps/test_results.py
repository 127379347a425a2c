"""Means, bests and figures of made-up rows whose answers are plain."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import ttest_1samp

from sparsetd.sweeps import Sweep

VALUES = {("a", 0.1, 1): [1.0, 3.0], ("a", 0.1, 2): [4.0, 4.0], ("a", 1.0, 1): [5.0, np.nan], ("a", 1.0, 2): [0.5, 0.7]}


def made(metric="error", values=VALUES):
    rows = [
        {"method": m, "step": s, "eta": e, "seed": k, metric: v, "curve": [2 * v, v],
         "status": "finished" if np.isfinite(v) else "diverged"}
        for (m, s, e), pair in values.items()
        for k, v in enumerate(pair)
    ]  # fmt: skip
    return Sweep(rows, ("step", "eta"), (metric,))


def test_means_have_the_band_of_a_t_test_and_count_failures():
    first, _, third, _ = made().means()
    interval = ttest_1samp([1.0, 3.0], 0.0).confidence_interval(0.95)
    assert first["mean"] == 2.0
    assert first["half"] == pytest.approx(interval.high - 2.0)
    assert (third["mean"], third["failed"]) == (np.inf, 1)


def test_best_is_the_smallest_error_and_the_largest_return():
    assert made().best()[0]["mean"] == pytest.approx(0.6)
    assert made("return").best()[0]["mean"] == 4.0
    with pytest.raises(ValueError, match="not a metric"):
        made().best("size")


@pytest.mark.parametrize(
    ("name", "tried", "best", "sentence"),
    [
        ("step_size", [0.01, 0.1, 1.0], 1.0, "largest step_size of the grid, 1: try larger values too"),
        ("step_size", [0.01, 0.1, 1.0], 0.01, "smallest step_size of the grid, 0.01: try smaller values too"),
        ("eta", [1, 4, 16], 1, "smallest eta of the grid, 1: try smaller values too"),
        ("own", [3, 5], 5, "largest own of the grid, 5: try larger values too"),
        ("step_size", [0.01, 0.1, 1.0], 0.1, ""),
        ("step_size", [0.1], 0.1, ""),
        ("step_size", ["auto", 0.1, 1.0], "auto", ""),
        ("lam", [0, 1], 1, ""),
        ("lam", [0.0, 0.5, 1.0], 0.0, ""),
        ("lam", [0.1, 0.5, 0.9], 0.9, "largest lam of the grid, 0.9"),
        ("rho_theta", [0.0, 0.1], 0.0, ""),
        ("n_passes", [1, 2], 1, ""),
        ("n_passes", [1, 2], 2, "largest n_passes of the grid, 2"),
        ("radius", [1.0, np.inf], np.inf, ""),
        ("projected", [False, True], True, ""),
        ("unpenalized", [[0], [1]], [1], ""),
    ],
)
def test_a_best_setting_at_the_edge_of_its_grid_says_so(name, tried, best, sentence):
    rows = [
        {"method": m, name: v, "seed": 0, "error": float(v != best), "status": "finished", "curve": []}
        for m in ("a", "b")
        for v in tried
    ]
    table = Sweep(rows, (name,), ("error",))
    said = [f"a and b are best at the {sentence}"] if sentence else []
    assert [told[: len(said[0])] for told in table.edges()] == said
    assert repr(table).splitlines()[1:] == table.edges()


def test_an_edge_that_is_no_better_than_the_inside_is_not_told():
    values = {("a", 0.1, 1): [2.0], ("a", 1.0, 1): [2.0], ("a", 10.0, 1): [3.0]}
    assert made(values=values).edges() == []


def test_a_sweep_in_which_all_diverged_has_no_best_edge():
    said = made(values={("a", s, 1): [np.nan] for s in (0.1, 1.0)}).edges()
    assert said == ["a diverged in some run of every setting: try other values."]


def test_sensitivity_shows_each_value_with_the_others_at_their_best():
    pytest.importorskip("matplotlib")
    from matplotlib.figure import Figure

    ax = Figure().subplots()
    assert made().plot("step", ax=ax) is ax
    [line] = ax.get_lines()
    np.testing.assert_allclose(line.get_xydata(), [[0.1, 2.0], [1.0, 0.6]])
    ax = Figure().subplots()
    made().plot("eta", ax=ax)
    np.testing.assert_allclose(ax.get_lines()[0].get_xydata(), [[1, 2.0], [2, 0.6]])
    with pytest.raises(ValueError, match="not in the grid"):
        made().plot("gamma", ax=ax)


def test_curves_are_those_of_the_best_setting():
    pytest.importorskip("matplotlib")
    from matplotlib.figure import Figure

    ax = made().plot_curves(ax=Figure().subplots())
    np.testing.assert_allclose(ax.get_lines()[0].get_ydata(), [1.2, 0.6])
    bare = Sweep([{**row, "curve": []} for row in made().rows], ("step", "eta"), ("error",))
    with pytest.raises(ValueError, match="no curves"):
        bare.plot_curves(ax=Figure().subplots())


def test_bands_of_errors_stay_above_zero_and_the_axis_counts_transitions():
    pytest.importorskip("matplotlib")
    from matplotlib.figure import Figure

    rows = [{**row, "transitions": 500} for row in made().rows]
    ax = Sweep(rows, ("step", "eta"), ("error",)).plot_curves(ax=Figure().subplots())
    assert ax.get_xlabel() == "transitions"
    np.testing.assert_allclose(ax.get_lines()[0].get_xdata(), [250, 500])
    band = ax.collections[0].get_paths()[0].vertices[:, 1]
    assert band.min() > 0
    assert Sweep(rows, ("step", "eta"), ("error",)).plot_curves(
        ax=Figure().subplots(), across="share"
    ).get_xlabel() == ("share of the run")
    assert made().plot_curves(ax=Figure().subplots()).get_xlabel() == "episode"
    with pytest.raises(ValueError, match="across='rows' is not known"):
        made().plot_curves(ax=Figure().subplots(), across="rows")


def test_a_band_beside_an_error_of_zero_stays_above_zero_too():
    pytest.importorskip("matplotlib")
    from matplotlib.figure import Figure

    values = {("a", 0.1, 1): [0.0, 0.0], ("a", 1.0, 1): [1.0, 5.0]}
    ax = made(values=values).plot("step", ax=Figure().subplots())
    assert ax.collections[0].get_paths()[0].vertices[:, 1].min() >= 0


def test_a_setting_that_diverged_is_marked_at_the_upper_edge():
    pytest.importorskip("matplotlib")
    from matplotlib.figure import Figure

    lost = {("a", 0.1, 1): [1.0, 3.0], ("a", 1.0, 1): [5.0, np.nan], ("b", 0.1, 1): [np.nan, np.nan]}
    ax = Figure().subplots()
    made(values=lost).plot("step", ax=ax)
    marks = [
        points.get_offsets().tolist() for points in ax.collections if len(points.get_offsets()) and points.get_paths()
    ]
    assert [[1.0, 1.0]] in marks
    assert [[0.1, 1.0]] in marks
    assert [line.get_label() for line in ax.get_lines()] == ["a", "b"]


def test_words_of_a_grid_are_lines_across() -> None:
    rows = [{"method": "TDC", "step_size": s, "seed": 0, "rmspbe": m, "status": "finished", "curve": []}
            for s, m in (("auto", 0.1), (0.3, 0.2), (1.0, 0.3))]  # fmt: skip
    ax = Sweep(rows, ("step_size",), ("rmspbe",)).plot("step_size")
    labels = [text.get_text() for text in ax.get_legend().get_texts()]
    assert labels == ["TDC", "TDC, auto"]
    assert ax.lines[1].get_ydata()[0] == 0.1


def test_a_method_that_always_diverged_is_not_drawn() -> None:
    rows = [{"method": "TD", "step_size": s, "seed": 0, "rmspbe": 1e9, "status": "diverged", "curve": []}
            for s in (0.3, 3.0)]  # fmt: skip
    table = Sweep(rows, ("step_size",), ("rmspbe",))
    with pytest.raises(ValueError, match="every setting diverged"):
        table.plot("step_size")
