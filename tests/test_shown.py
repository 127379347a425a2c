"""Results say what they are in a few lines, and become frames and pictures."""

from __future__ import annotations

import sys
from html import escape
from pathlib import Path

import numpy as np
import pytest

from sparsetd import LSTD, TDC, SparseTDSelect, Transitions, evaluate, plots
from sparsetd.control import policy_iteration
from sparsetd.features import Tabular
from sparsetd.problems import random_mdp
from sparsetd.selection import sparse_td_path, stability_selection, summary, value_interval

plt = pytest.importorskip("matplotlib.pyplot")
pandas = pytest.importorskip("pandas")


@pytest.fixture(scope="module")
def log():
    rng = np.random.default_rng(0)
    mdp = random_mdp(rng, n_states=50, n_features=20, n_relevant=3, reward_noise=0.2)
    return mdp.trajectory(1000, rng, horizon=20)


@pytest.fixture(scope="module")
def transitions(log) -> Transitions:
    names = [f"sign {j}" for j in range(20)]
    ends = np.append(log.start[1:], True)
    columns = {"ratio": log.ratio, "start": log.start, "truncated": ends, "names": names}
    return Transitions.from_arrays(log.phi, log.reward, log.phi_next, **columns)


@pytest.fixture(scope="module")
def results(log, transitions) -> dict:
    columns = {"ratio": log.ratio, "start": log.start}
    model = LSTD(gamma=0.9).fit(log.phi, log.reward, log.phi_next, **columns)
    states = Transitions.from_arrays([[0], [1]] * 20, [1.0, 0] * 20, [[1], [0]] * 20, action=[0, 1] * 20)
    return {
        "evaluation": evaluate(transitions, gamma=0.9, n_resamples=4),
        "path": sparse_td_path(log.phi, log.reward, log.phi_next, gamma=0.9, n_rhos=10, **columns),
        "stable": stability_selection(
            log.phi, log.reward, log.phi_next, gamma=0.9, n_resamples=3, random_state=0, **columns
        ),
        "interval": value_interval(model, log.phi, log.reward, log.phi_next, at=log.phi[:40], **columns),
        "transitions": transitions,
        "policies": policy_iteration(
            LSTD(gamma=0.9, alpha=1e-6), states, Tabular().fit([[0], [1]]), 0.9, n_actions=2, n_iter=3
        ),
    }


@pytest.mark.parametrize("name", ["evaluation", "path", "stable", "interval", "transitions", "policies"])
def test_a_repr_is_short(results, name: str) -> None:
    text = repr(results[name])
    assert len(text) < 600
    assert len(text.splitlines()) <= 10
    assert "array(" not in text


@pytest.mark.parametrize("name", ["evaluation", "path", "stable", "interval", "transitions", "policies"])
def test_a_result_becomes_a_frame(results, name: str) -> None:
    frame = results[name].to_frame()
    assert isinstance(frame, pandas.DataFrame)
    assert len(frame) > 0


@pytest.mark.parametrize("name", ["path", "stable", "interval", "transitions", "policies"])
def test_a_result_is_a_short_table_in_a_notebook(results, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    page = results[name]._repr_html_()
    assert page.startswith(f"<pre>{escape(repr(results[name]))}</pre>")
    assert 1 < page.count("<tr") <= 1 + 10
    for package in ("pandas", "polars"):
        monkeypatch.setitem(sys.modules, package, None)
    assert results[name]._repr_html_() == f"<pre>{escape(repr(results[name]))}</pre>"


def test_the_frames_hold_the_numbers(results, transitions) -> None:
    features = results["evaluation"].features
    frame = results["evaluation"].to_frame()
    assert frame["feature"].tolist() == [f.name for f in features]
    assert frame["weight"].tolist() == [f.weight for f in features]
    np.testing.assert_array_equal(results["path"].to_frame()["x3"], results["path"].coefs[3])
    np.testing.assert_array_equal(transitions.to_frame()["sign 2"], transitions.observation[:, 2])
    np.testing.assert_array_equal(results["interval"].to_frame()["low"], results["interval"].low)


def test_a_fitted_model_is_summarised_as_an_evaluation_of_it_would_be(log) -> None:
    columns = {"ratio": log.ratio, "discount": log.discount, "start": log.start}
    model = SparseTDSelect(gamma=0.9, fit_intercept=True).fit(log.phi, log.reward, log.phi_next, **columns)
    table = summary(model, log.phi, log.reward, log.phi_next, n_resamples=3, **columns)
    refitted = LSTD(gamma=0.9, fit_intercept=True).fit(
        log.phi[:, model.support_], log.reward, log.phi_next[:, model.support_], **columns
    )
    weights = refitted.coef_ * log.phi[:, model.support_].std(axis=0)
    by_name = dict(zip(table.feature, table.weight, strict=True))
    for name, weight in zip(np.flatnonzero(model.support_), weights, strict=True):
        np.testing.assert_allclose(by_name[f"x{name}"], weight, rtol=1e-8)
    assert np.all(np.diff(np.abs(table.weight)) <= 0)
    assert np.all((table.low < table.weight) & (table.weight < table.high))
    assert set(table.feature) == set(table.to_frame()["feature"])
    assert len(repr(table).splitlines()) == 1 + model.support_.sum()
    axes = table.plot()
    assert [text.get_text() for text in axes.get_yticklabels()] == list(table.feature)
    plt.close("all")


def test_the_summary_is_a_table(results) -> None:
    lines = repr(results["evaluation"].summary()).splitlines()
    assert lines[0].split()[:2] == ["feature", "weight"]
    assert len(lines) == 1 + len(results["evaluation"].features)


def test_an_evaluation_is_a_page_in_a_notebook_and_on_disk(results, tmp_path: Path) -> None:
    assert results["evaluation"]._repr_html_().startswith("<iframe srcdoc=")
    results["evaluation"].save_report(tmp_path / "report.html")
    assert "<html" in (tmp_path / "report.html").read_text()


def test_pictures_take_axes_and_return_them(log, transitions, results) -> None:
    model = TDC(gamma=0.9).fit(log.phi, log.reward, log.phi_next)
    draw = [
        lambda ax: results["evaluation"].plot(ax=ax),
        lambda ax: results["evaluation"].summary().plot(ax),
        lambda ax: results["path"].plot([f"sign {j}" for j in range(20)], ax=ax),
        lambda ax: results["stable"].plot(ax),
        lambda ax: results["interval"].plot(ax),
        lambda ax: results["policies"].plot(ax),
        lambda ax: transitions.plot(ax),
        lambda ax: plots.history(model, ax),
        lambda ax: plots.ratios(transitions, ax),
    ]
    for one in draw:
        figure, ax = plt.subplots()
        assert one(ax) is ax
        assert ax.has_data()
        plt.close(figure)
    fresh = results["path"].plot()
    assert fresh.figure is not None
    plt.close(fresh.figure)


def test_a_method_without_steps_has_no_history(log) -> None:
    with pytest.raises(ValueError, match="LSTD recorded no history"):
        plots.history(LSTD(gamma=0.9).fit(log.phi, log.reward, log.phi_next))
    plt.close("all")


def test_the_path_names_its_features_in_their_colours(results) -> None:
    figure, ax = plt.subplots()
    results["path"].plot([f"sign {j}" for j in range(20)], ax=ax)
    colours = {line.get_color() for line in ax.lines if line.get_color() != "0.8"}
    assert {text.get_color() for text in ax.texts} == colours
    assert len(ax.texts) == 8
    plt.close(figure)


def test_the_line_of_what_was_done_is_in_the_legend() -> None:
    done = ("what was done", 0.7)
    for ax in (
        plots.forest([("a", 0.5, (0.4, 0.6))], line=done),
        plots.band([1.0, 2.0, 3.0], [0.4, 0.5, 0.6], [(0.3, 0.5)] * 3, line=done),
    ):
        [name] = ax.get_legend().get_texts()
        assert name.get_text() == "what was done"
        assert 0.7 in {*ax.get_lines()[0].get_xdata(), *ax.get_lines()[0].get_ydata()}
        plt.close(ax.figure)
    assert plots.forest([("a", 0.5, (0.4, 0.6))]).get_legend() is None
    plt.close("all")


def test_one_wild_row_does_not_set_the_scale() -> None:
    figure, ax = plt.subplots()
    plots.forest([("ours", 0.5, (0.4, 0.6)), ("wild", 1e6, (-1e9, 1e9)), ("near", 0.7, (0.3, 1.1))], ax)
    low, high = ax.get_xlim()
    assert -1 < low < 0.3
    assert 1.1 < high < 2
    plt.close(figure)
