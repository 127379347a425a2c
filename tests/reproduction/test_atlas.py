"""The atlas of readings: which there are, that a GPU and cores agree on them, and what its verdicts count."""

from __future__ import annotations

import dataclasses

import numpy as np
import pandas as pd
import pytest
from gpu.emulation import emulate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer

from reproduction import LARGER
from reproduction import mountain_car_world as car
from reproduction.cuda import mountain_car as gpu
from reproduction.mountain_car import rollout
from reproduction.mountain_car_atlas import (
    ATLAS,
    AtlasSettings,
    Bumps,
    estimator,
    job,
    log_of,
    readings,
    run,
    units,
)
from reproduction.mountain_car_verdicts import AXES, METHODS, kept_readings, pairs, success, summarize_atlas
from reproduction.triple_link_search import SEARCH, candidate, chosen
from sparsetd.control import LinearValues, Rule, ValuePolicy, policy_iteration
from sparsetd.estimators import LSTD
from sparsetd.features import RBFGrid

SMALL = dataclasses.replace(
    ATLAS.quick, grids=(2, 3), n_seeds=2, n_iter=2, n_samples=(3, 30), max_steps=120, alpha=0.05, every=100
)


def test_the_readings_are_the_product_of_what_is_open():
    full = AtlasSettings()
    assert len(readings(full, "RO-TD", "fixed")) == 2592
    assert len(readings(full, "TD", "fixed")) == 1296
    assert len(readings(full, "TDC", "online")) == 432
    shared = {tuple(r[a] for a in AXES if a != "eta") for r in readings(full, "RO-TD", "fresh")}
    assert shared == {tuple(r[a] for a in AXES if a != "eta") for r in readings(full, "TD", "fresh")}


@pytest.fixture
def emulated(monkeypatch):
    """The kernel's algorithm in the place of the device."""
    monkeypatch.setattr("sparsetd.sweeps.cuda.launch.launch", emulate)
    for module in ("reproduction.cuda.mountain_car", "reproduction.mountain_car_atlas"):
        monkeypatch.setattr(f"{module}.cupy", lambda: _Numpy())


class _Numpy:
    """NumPy under CuPy's names."""

    asnumpy = staticmethod(np.asarray)

    def __getattr__(self, name):
        return getattr(np, name)


@pytest.mark.usefixtures("emulated")
@pytest.mark.parametrize("warm", [False, True])
@pytest.mark.parametrize("method", ["RO-TD", "TDC", "TD"])
def test_policy_iteration_on_a_gpu_is_that_of_the_library(method, warm):
    reading = {"width": 1.0, "normed": False, "eta": 2.0, "gamma": 0.9, "passes": 2, "average": "all", "warm": warm}
    log, features = car.collect(np.random.default_rng(0), 3, 30, "uniform"), Bumps(1.0, False, SMALL.grids)
    rows = gpu.samples(np, [log], [1.0], [False], ["step"], SMALL.grids)
    found = gpu.policy_iteration([job(SMALL, method, reading)], [0, 0], rows, [0.9, 0.8], n_iter=3, warm=warm)
    model = estimator(SMALL, method, reading)
    play = policy_iteration(model, log, features, 0.9, n_actions=3, n_iter=3, warm_start=warm, tol=0.0)
    assert len(play.iterations) > 1
    for theta, iteration in zip(found, play.iterations, strict=False):  # the library stops where a policy repeats
        np.testing.assert_allclose(theta[0], iteration.values.coef, rtol=1e-3, atol=1e-4 * np.abs(theta[0]).max())
        assert np.abs(theta[1] - theta[0]).max() > 1e-3 * np.abs(theta[0]).max()  # the other discount counts


def test_tests_on_a_gpu_are_rollouts():
    theta = np.random.default_rng(4).normal(size=(12, 3, 14)).astype(np.float32)
    theta[:6, 2, [1, 3]] += 9.0  # half of them push the way they move, which leads out of the valley
    theta[:6, 0, [0, 2]] += 9.0
    features = Bumps(1.0, True, SMALL.grids)
    policies = [ValuePolicy(LinearValues(features, t.astype(float)), Rule()).best for t in theta]
    steps = gpu.steps_to_goal(np, theta, np.ones(12), np.ones(12, bool), 300, SMALL.grids)
    assert steps.tolist() == [rollout(policy, max_steps=300)[0] for policy in policies]
    assert steps.min() < 300 < steps.max()


@pytest.mark.usefixtures("emulated")
@pytest.mark.parametrize(("method", "data"), [("TD", "fixed"), ("TDC", "fresh"), ("l2-LSTD", "fixed")])
def test_a_gpu_plays_the_readings_of_the_cores(method, data):
    steps = {}
    for backend in ("cores", "cuda"):
        settings = dataclasses.replace(SMALL, backend=backend, seeds_lstd=2, seeds_fresh=2)
        wanted = [u for u in units(settings) if (u.params["method"], u.params["data"]) == (method, data)]
        rows = [row for unit in wanted for row in run(settings, unit)]
        steps[backend] = {tuple(row[a] for a in (*AXES, "run")): row["steps"] for row in rows}
    assert steps["cores"] == steps["cuda"]
    group = readings(SMALL, method, data, group=True)
    assert len(steps["cuda"]) == 2 * len(readings(SMALL, method, data) + group)


def test_features_on_the_gpu_are_those_of_the_grid():
    states, box = car.starts(np.random.default_rng(0), 40, "uniform"), np.array([car.LOW, car.HIGH])
    for width, normed in ((0.7, False), (1.5, True)):
        grid = RBFGrid(SMALL.grids, width=width, low=car.LOW.tolist(), high=car.HIGH.tolist())
        rows = (make_pipeline(grid, Normalizer()) if normed else grid).fit(box).transform(states)
        np.testing.assert_allclose(gpu.bumps(np, states, width, normed, SMALL.grids), rows, rtol=2e-6, atol=1e-7)
    each = gpu.bumps(np, states, np.repeat([0.7, 0.0], 20), np.repeat([False, True], 20), SMALL.grids)
    np.testing.assert_array_equal(each[:20], gpu.bumps(np, states[:20], 0.7, False, SMALL.grids))
    centre = np.array([[-1.2, 0.0]])  # the fifth of the 3 × 3 centres is (−0.3, 0)
    plain = gpu.bumps(np, centre, 0.0, False, (3,))[0]
    assert plain[4] == pytest.approx(np.exp(-0.9 * 0.9**2), rel=1e-6)


def test_least_squares_policy_iteration_is_that_of_the_library():
    log = car.collect(np.random.default_rng(0), 5, 40, "uniform")
    rows = gpu.samples(np, [log], [1.0], [False], ["step"], SMALL.grids)
    found = gpu.lstd_iteration(np, rows, 0.9, 1e-3, n_iter=4)
    play = policy_iteration(
        LSTD(gamma=0.9, alpha=1e-3), log, Bumps(1.0, False, SMALL.grids), 0.9, n_actions=3, n_iter=4, tol=0.0
    )
    assert len(found) > 1
    for theta, iteration in zip(found, play.iterations, strict=False):
        np.testing.assert_allclose(theta, iteration.values.coef, rtol=1e-6, atol=1e-8 * np.abs(theta).max())


def test_a_goal_pays_where_a_step_does_not():
    reading = {"start": "uniform", "reward": "goal"}
    log = log_of(dataclasses.replace(SMALL, n_samples=(30, 60)), reading, 0)
    assert log.terminated.any()
    np.testing.assert_array_equal(log.reward, log.terminated.astype(float))
    np.testing.assert_array_equal(gpu.rewards(np, "group", log.terminated), log.reward - 1.0)
    np.testing.assert_array_equal(gpu.rewards(np, "step", log.terminated), np.full(len(log.reward), -1.0))


def test_the_atlas_counts_readings_and_leaves_the_verdicts_to_the_main_report():
    """Two runs of two readings for every method: RO-TD as printed in one of them, TDC in both."""
    base = {"data": "fixed", **{axis: 0 for axis in AXES}}
    wins = {"RO-TD": (2, 0), "TDC": (0, 0), "TD": (0, 2)}
    rows = pd.DataFrame(
        [
            {**base, "method": method, "start": start, "run": k, "success": k < count, "ever": True}
            for method, counts in wins.items()
            for start, count in zip(("bottom", "uniform"), counts, strict=True)
            for k in range(2)
        ]
    )
    summary = summarize_atlas(SMALL, rows)
    assert summary.claims == []
    assert "RO-TD 50.0%, TDC 100.0%, TD 50.0%" in summary.conclusion
    assert len(pairs(success(rows))) == 2


def test_the_kept_rows_hold_every_reading():
    kept = kept_readings().groupby("method").size()
    fixed = {
        m: len(readings(AtlasSettings(), m, "fixed")) + len(readings(AtlasSettings(), m, "fixed", True))
        for m in kept.index
    }
    assert set(kept.index) == set(METHODS)
    assert kept["l2-LSTD"] == fixed["l2-LSTD"]
    assert all(kept[m] > fixed[m] for m in ("RO-TD", "TDC", "TD"))


def test_every_method_has_units_and_larger_experiments_are_described():
    assert {u.params["method"] for u in units(ATLAS.full)} == set(METHODS)
    assert [u.params["gpu"] for u in units(dataclasses.replace(ATLAS.full, backend="cuda"))].count(True) == 20
    for experiment in LARGER.values():
        assert {source for _, _, source, _ in experiment.full.table()} <= {"paper", "cited", "assumed"}


def test_the_search_chooses_on_one_half_of_the_seeds_and_reports_the_other():
    settings = dataclasses.replace(SEARCH.full, n_seeds=4, n_candidates=2, coordinates=("lqr",))
    episodes = {0: (5, 5, 90, 90), 1: (9, 9, 1, 1)}  # the first is better where it counts, the second where it does not
    rows = pd.DataFrame(
        [
            {"coordinates": "lqr", "method": m, "candidate": c, "run": k, "episodes": e, "longest": 1, "solved": True}
            for m in ("GQ(λ)", "RO-GQ(λ)")
            for c, runs in episodes.items()
            for k, e in enumerate(runs)
        ]
    )
    tuned, reported = chosen(settings, rows, "lqr", "GQ(λ)")
    assert tuned == candidate(settings, "GQ(λ)", "lqr", 0)
    assert reported["episodes"].tolist() == [90, 90]


def test_candidates_share_what_both_methods_have():
    gq, ro = (candidate(SEARCH.full, method, "lqr", 7) for method in ("GQ(λ)", "RO-GQ(λ)"))
    assert (gq.alpha, gq.gamma, gq.lam, gq.scale) == (ro.alpha, ro.gamma, ro.lam, ro.scale)
    assert gq.rho_theta == 0 < ro.rho_theta
