"""Star and random walk: curves against literal iterations, and verdicts that follow the rows."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from reproduction import curves
from reproduction import random_walk as walk_experiment
from reproduction import star as star_experiment
from reproduction.curves import METHODS, checkpoints, expected_path, mspbe, sampled_path, unlikeness
from reproduction.verdict import NOT_REPRODUCED, REPRODUCED, UNDER_READING
from reproduction.walk_bases import walk
from sparsetd.metrics import exact_rmspbe
from sparsetd.problems import star
from sparsetd.system import mean_system

STAR = dataclasses.replace(star_experiment.STAR.quick, n_seeds=2, n_iter=2000)
WALK = dataclasses.replace(walk_experiment.RANDOM_WALK.quick, n_seeds=2, n_iter=1000)


def frame(experiment, settings):
    rows = []
    for unit in experiment.units(settings):
        rows.append(pd.DataFrame(experiment.run(settings, unit)).assign(unit=unit.name, seed=unit.seed))
    return pd.concat(rows, ignore_index=True)


@pytest.fixture(scope="module")
def star_rows():
    return frame(star_experiment.STAR, STAR)


@pytest.fixture(scope="module")
def walk_rows():
    return frame(walk_experiment.RANDOM_WALK, WALK)


def literal_star(eta):
    """(A, b) of TDC on the star, from the definition E[A_t] with all seven states weighted alike."""
    phi = np.zeros((7, 8))
    phi[:6, :6], phi[:6, 7], phi[6, 6], phi[6, 7] = 2 * np.eye(6), 1, 1, 2
    A = np.zeros((16, 16))
    for f in phi:
        change = f - 0.99 * phi[6]
        top = np.hstack([eta * np.outer(f, f), eta * np.outer(f, change)])
        A += np.vstack([top, np.hstack([0.99 * np.outer(phi[6], f), np.outer(f, change)])]) / 7
    return A


def test_expected_path_of_rotd_is_the_papers_iteration():
    mdp, A = star(), literal_star(10.0)
    x, y = np.concatenate([np.zeros(8), [1, 1, 1, 1, 1, 1, 10, 1]]), np.zeros(16)
    trail = [x]
    for _ in range(50):
        x, y = x - 0.01 * A.T @ y, y + 0.01 * A @ x
        y = y / max(1.0, np.linalg.norm(y))
        trail.append(x)
    *_, point = expected_path(METHODS["RO-TD"], 10.0, 0.01, mdp, [0, 50])
    assert point.last.ravel() == pytest.approx(x, rel=1e-9)
    assert point.last_dual.ravel() == pytest.approx(y, rel=1e-9)
    assert point.average.ravel() == pytest.approx(np.mean(trail, axis=0), rel=1e-9)


@pytest.mark.parametrize("name", METHODS)
def test_expected_and_sampled_paths_agree_where_there_is_no_noise(name, monkeypatch):
    """A chain of one state with one feature: every sample is the expectation."""
    mdp = walk(2, basis="dependent", gamma=0.5, left_reward=1.0)
    marks, theta0 = [0, 1, 2, 7], np.array([0.3, -0.2])
    one_row = dataclasses.replace(mdp, theta0=theta0).sample(1, np.random.default_rng(0))
    batch = dataclasses.replace(
        one_row, **{f.name: np.repeat(getattr(one_row, f.name), 7, 0) for f in dataclasses.fields(one_row)}
    )

    monkeypatch.setattr(curves, "expected_system", lambda _mdp, table: mean_system(table, one_row))
    one_state = SimpleNamespace(n_features=2, theta0=theta0)
    sampled = sampled_path(METHODS[name], 2.0, 0.1, batch, theta0, marks)
    expected = expected_path(METHODS[name], 2.0, 0.1, one_state, marks)
    for a, b in zip(sampled, expected, strict=True):
        assert a.last == pytest.approx(b.last, abs=1e-12)
        assert a.average == pytest.approx(b.average, abs=1e-12)
        if a.last_dual is not None:
            assert a.average_dual == pytest.approx(b.average_dual, abs=1e-12)


def test_mspbe_equals_the_librarys_metric_on_dependent_features():
    mdp = star()
    assert mspbe(mdp, mdp.theta0) == pytest.approx(67.5911, abs=1e-3)
    assert mspbe(mdp, mdp.theta0) == pytest.approx(exact_rmspbe(mdp, mdp.theta0) ** 2, rel=1e-9)


def test_checkpoints_reach_the_end_and_unlikeness_measures_decades():
    marks = checkpoints(2000)
    assert (marks[0], marks[-1]) == (0, 2000)
    t = np.array(marks)
    assert unlikeness(t, np.full(len(t), 10.0), np.full(len(t), 1.0)) == pytest.approx(1.0)


def test_star_at_a_short_horizon(star_rows):
    verdicts = {c.label: c.verdict for c in star_experiment.summarize(STAR, star_rows).claims}
    assert verdicts["TD diverges on the star"] == REPRODUCED
    assert verdicts["TDC converges on the star"] == REPRODUCED
    assert verdicts["‖Ax_t − b‖ bounds y_tᵀ(Ax_t − b)"] == REPRODUCED
    assert verdicts["LARS-TD diverges on the star"] == NOT_REPRODUCED


def test_star_follow_the_rows(star_rows):
    rows = star_rows.copy()
    rows.loc[rows["method"] == "TD", "mspbe"] = 0.0
    tdc = rows[(rows["method"] == "TDC") & (rows["iterate"] == "last")].set_index(["update", "eta", "seed", "t"])
    chosen = (rows["method"] == "RO-TD") & (rows["iterate"] == "last")
    keys = pd.MultiIndex.from_frame(rows.loc[chosen, ["update", "eta", "seed", "t"]])
    rows.loc[chosen, "mspbe"] = tdc.loc[keys, "mspbe"].to_numpy()
    verdicts = {c.label: c.verdict for c in star_experiment.summarize(STAR, rows).claims}
    assert verdicts["TD diverges on the star"] == NOT_REPRODUCED
    assert verdicts["TDC and RO-TD have almost identical MSPBE"] == REPRODUCED
    assert verdicts["RO-TD converges off-policy"] == REPRODUCED


def test_walk_verdict_follows_the_rows(walk_rows):
    def verdict(rows):
        return walk_experiment.summarize(WALK, rows).claims[0].verdict

    ro, last_t = walk_rows["method"] == "RO-TD", walk_rows["t"] == WALK.n_iter
    better = walk_rows.copy()
    better.loc[ro & last_t & (better["eta"] == 10), "mspbe"] = 1e-6
    assert verdict(better) == REPRODUCED
    worse = walk_rows.copy()
    worse.loc[ro & last_t, "mspbe"] = 1.0
    assert verdict(worse) == NOT_REPRODUCED
    worse.loc[ro & last_t & (worse["eta"] == 1) & (worse["iterate"] == "average"), "mspbe"] = 1e-6
    assert verdict(worse) == UNDER_READING


@pytest.mark.parametrize("which", ["star", "walk"])
def test_figures_draw_on_the_axes_they_are_given(which, star_rows, walk_rows):
    from matplotlib.figure import Figure

    module, settings, rows = {
        "star": (star_experiment, STAR, star_rows),
        "walk": (walk_experiment, WALK, walk_rows),
    }[which]
    for figure in module.plot(settings, rows):
        axes = Figure().subplots(1, figure.panels, squeeze=False)[0]
        figure.draw(axes)
        assert all(ax.lines for ax in axes)
        assert len(figure.caption) > 40
