"""Mountain car and triple link: small runs, and verdicts that follow the rows."""

from __future__ import annotations

import dataclasses

import numpy as np
import pandas as pd
import pytest

from reproduction import mountain_car as car
from reproduction import mountain_car_verdicts as car_verdicts
from reproduction import triple_link as link
from reproduction import triple_link_verdicts as link_verdicts
from reproduction.experiment import Unit
from reproduction.triple_link_coordinates import KNOWLEDGE, coordinates, walk_states
from reproduction.verdict import IN_PART, NOT_REPRODUCED, REPRODUCED, UNDER_READING

CAR = dataclasses.replace(car.MOUNTAIN_CAR.quick, grids=(2, 4), n_iter=2, n_large=(3, 40), n_small=(6, 10))


@pytest.mark.parametrize("name", car.NAMES)
def test_every_variant_of_mountain_car_runs(name):
    rows = car.run(CAR, Unit("x", 0, {"kind": "variant", "name": name}))
    assert [r["last"] for r in rows] == [False] * (len(rows) - 1) + [True]
    assert all(1 <= r["steps"] <= CAR.max_steps + 1 for r in rows)


@pytest.mark.parametrize("name", car.ONLINE)
def test_online_readings_run(name):
    (row,) = car.run(CAR, Unit("x", 0, {"kind": "online", "name": name}))
    assert row["success"] == (row["steps"] <= CAR.max_steps)


def test_methods_of_a_run_share_their_samples_and_runs_differ():
    one, two = car.data_of(CAR, car.LARGE, 0), car.data_of(CAR, car.LARGE, 0)
    assert np.array_equal(one.observation, two.observation)
    assert not np.array_equal(one.observation, car.data_of(CAR, car.LARGE, 1).observation)


def car_rows(success):
    """Made-up rows: per method, the share of successful runs."""
    rows = []
    for method, share in success.items():
        for seed in range(20):
            won = seed < 20 * share
            base = {"kind": "variant", "method": method, "seed": seed, "iteration": 0, "last": True, "success": won}
            told = {"steps": 140 if won else 501, "nonzero": 50, "ending": "finished", "goals": 0, "seconds": 1}
            rows.append({**base, **told})
    for alpha in (1e-3, 1e-2):
        for rho in (1e-3, 1e-2):
            rows.append({"kind": "sweep", "method": "RO-TD", "seed": 0, "last": True, "alpha": alpha, "rho": rho,
                         "success": rho < 5e-3, "steps": 1, "iteration": 0})  # fmt: skip
    return pd.DataFrame(rows).assign(estimator_status="finished")


def readings_with(shares):
    """A frame as of the atlas: per method, the success of four readings."""
    same = {"data": "fixed", **dict.fromkeys(car_verdicts.AXES, 0)}
    rows = [
        {**same, "start": k, "method": method, "success": rate, "ever": rate}
        for method, rates in shares.items()
        for k, rate in enumerate(rates)
    ]
    return pd.DataFrame(rows)


def test_each_row_of_table_1_has_one_verdict_that_counts_runs_and_readings(monkeypatch):
    rates = {"RO-TD": (0, 0.5, 0, 0.9), "LARS-TD": (1, 0, 0, 0), "l2-LSTD": (1, 1, 1, 1), "TDC": (0, 0, 0, 1)}
    monkeypatch.setattr(car_verdicts, "kept_readings", lambda: readings_with({**rates, "TD": (0, 0, 0, 0)}))
    shares = {"RO-TD, printed": 0.0, "RO-TD, smaller ρ₁": 0.8, "TD": 0.0, "TDC": 1.0, "l2-LSTD, 500": 1.0}
    summary = car_verdicts.summarize(CAR, car_rows({**shares, "LARS-TD, 500": 0.7}))
    verdicts = {c.label: c.verdict for c in summary.claims}
    assert len(verdicts) == len(summary.claims) == 7
    assert verdicts["RO-TD succeeds on mountain car"] == NOT_REPRODUCED
    assert verdicts["LARS-TD succeeds on mountain car"] == UNDER_READING
    assert verdicts["l2-LSTD fails on mountain car"] == NOT_REPRODUCED
    assert verdicts["TDC fails on mountain car"] == UNDER_READING
    assert verdicts["TD fails on mountain car"] == REPRODUCED
    assert verdicts["The order of Table 1: RO-TD succeeds where TDC and TD fail"] == NOT_REPRODUCED
    better = car_verdicts.summarize(CAR, car_rows({**shares, "LARS-TD, 500": 0.7, "RO-TD, smaller ρ₁": 1.0}))
    assert better.claims[0].sentence.endswith(
        "it holds in 0 of 4 readings of what is not printed, and in 1 of 2 settings of ours"
    )


def test_sensitivity_caption_states_the_printed_and_the_best_cell():
    caption = car_verdicts.plot(CAR, car_rows({"TD": 1.0}))[0].caption
    assert "0% of the runs" in caption
    assert "ρ₁ = 0.001" in caption


def link_rows(ro, gq):
    rows = [
        {"kind": "main", "method": m, "n_x": 10_000, "seed": k, "episodes": e, "solved": e < 300, "frozen": 10_000}
        for m, episodes in (("RO-GQ(λ)", ro), ("GQ(λ)", gq))
        for k, e in enumerate(episodes)
    ]
    rows.append({"kind": "lars", "method": "LARS-TD", "n_x": 10_000, "solved": False, "longest": 100, "episodes": 300})
    rows.append({"kind": "lqr", "n_x": 10_000, "solved": True, "longest": 10_000})
    for where in KNOWLEDGE:
        rows.append({"kind": "coordinates", "coordinates": where, "solved": False, "longest": 100})
    rows.append({"kind": "rest", "method": "GQ(λ)", "solved": True, "largest_angle": 0.0, "episodes": 3, "longest": 1})
    return pd.DataFrame(rows).astype({"solved": bool})


def test_triple_link_verdicts_follow_the_rows():
    settings, rng = dataclasses.replace(link.TRIPLE_LINK.quick, n_seeds=20), np.random.default_rng(0)
    few, many = rng.integers(3, 12, 20), rng.integers(20, 40, 20)
    slow = np.append(few[:-1], 900)  # one run is so slow that the mean is larger
    cases = ((few, many, UNDER_READING), (many, few, NOT_REPRODUCED), (few, few, NOT_REPRODUCED), (slow, many, IN_PART))
    for ro, gq, verdict in cases:
        claims = link_verdicts.summarize(settings, link_rows(ro, gq)).claims
        assert claims[0].verdict == verdict
    assert claims[0].sentence.startswith("reproduced in median and in ranks, not in the mean (median")
    assert [c.verdict for c in claims[2:]] == [REPRODUCED]


def test_a_permutation_test_is_small_only_for_small_ranks_or_means():
    low, high = np.arange(10), np.arange(10) + 20
    for ranks in (True, False):
        assert link_verdicts.permutation_test(low, high, 500, ranks=ranks) < 0.01
        assert link_verdicts.permutation_test(high, low, 500, ranks=ranks) > 0.99
        assert 0.3 < link_verdicts.permutation_test(low, low, 500, ranks=ranks) < 0.7
    outlier = np.append(low[:-1], 1000)
    assert (
        link_verdicts.permutation_test(outlier, high, 500)
        < 0.05
        < link_verdicts.permutation_test(outlier, high, 500, ranks=False)
    )


@pytest.mark.parametrize("name", KNOWLEDGE)
def test_coordinates_are_invertible_and_of_order_one_on_a_random_walk(name):
    T = coordinates(name, 0.005)
    assert np.linalg.matrix_rank(T) == 8
    if name in ("walk", "relative", "principal"):
        assert (walk_states(0.005) @ T.T).std(axis=0) == pytest.approx(np.ones(8))


def test_learning_on_the_triple_link_is_seeded_and_reports_what_happened():
    settings = dataclasses.replace(link.TRIPLE_LINK.quick, max_episodes=2, order=1)
    first, again = (link.learn(settings, link.ROGQ_LQR, "lqr", link.PUSHES, 300, settings.rng(0)) for _ in range(2))
    assert first == again
    assert first["longest"] <= 300
    assert first["largest_angle"] > 0


def test_a_first_push_of_zero_leaves_the_pendulum_at_rest():
    settings = dataclasses.replace(link.TRIPLE_LINK.quick, max_episodes=1, order=1)
    row = link.learn(settings, dataclasses.replace(link.GQ_LQR, alpha=0.0), "lqr", (0,), 1, settings.rng(0))
    assert row["solved"]
    assert row["largest_angle"] == 0.0
