"""Are the answers right without tuning? Each figure with its goal, on data drawn anew.

    python -m benchmarks quality [piece ...] [--seed N] [--quick]

    certificate   d = 1000, N = 3000: applications of A to a relative gap of 1e-6 (a pair A, Aᵀ is one, a column of A a
                  quarter), and the gap after the closed form
    oracle        60 random problems over every norm and penalty against CVXPY
    speed         against CVXPY/Clarabel on the literal problem, d = 1000, in the same run
    mountain-car  the ill-conditioned RBF system, d = 1365, five settings of (η, ρ_θ, ρ_w)
    large         d = 10⁵ and 10⁶ sparse features, N = 10⁴
    selection     10 relevant among 10⁴ features, N = 5000, ρ chosen automatically
    coverage      95 % intervals after automatic selection, three MDPs with exact values

The steps of the streaming estimators have a file of their own, automatic_steps.py. Times are of one core: set
OPENBLAS_NUM_THREADS=1.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp

from reproduction import mountain_car_world
from sparsetd import operators, penalties
from sparsetd.estimators.sparse_td import SparseTD
from sparsetd.features import RBFGrid, featurize
from sparsetd.problems import FiniteMDP, boyan_chain, random_mdp, with_noise_features
from sparsetd.selection import SparseTDSelect, rho_max, value_interval
from sparsetd.solvers.saddle import Saddle, solve
from sparsetd.system import Array, Batch, mean_system

Rng = np.random.Generator


def verdict(what: str, value: float, goal: float, at_most: bool = True) -> bool:
    passed = bool(value <= goal if at_most else value >= goal)
    print(f"{'pass' if passed else 'FAIL'}  {what}: {value:.3g} (goal {'≤' if at_most else '≥'} {goal:g})", flush=True)
    return passed


def log_columns(batch: Batch) -> dict[str, Array]:
    return {"ratio": batch.ratio, "discount": batch.discount, "start": batch.start}


def rows(batch: Batch) -> tuple[Any, Array, Any]:
    return batch.phi, batch.reward, batch.phi_next


def gaussian(rng: Rng, d: int, n: int, n_relevant: int = 10) -> Batch:
    """Gaussian features with correlated successors, and rewards of a sparse value function with noise."""
    phi = rng.normal(size=(n, d))
    phi_next = 0.5 * phi + 0.5 * rng.normal(size=(n, d))
    theta = np.zeros(d)
    theta[:n_relevant] = rng.normal(size=n_relevant)
    reward = (phi - 0.9 * phi_next) @ theta + 0.1 * rng.normal(size=n)
    return Batch(phi, phi_next, reward, np.full(n, 0.9), np.ones(n), np.zeros(n, dtype=bool), np.ones(n))


def top_rho(batch: Batch, table: Any) -> float:
    """ρ_max of θ while w = 0."""
    A, d = Saddle().problem(batch, table, penalties.L1(1.0, 1.0)).A, batch.n_features
    return float(np.abs(A.adjoint(A.b))[d:].max() / np.linalg.norm(A.b))


def certificate(rng: Rng, quick: bool) -> list[bool]:
    applications, gaps, working = [], [], []
    for _ in range(1 if quick else 3):
        batch = gaussian(rng, 1000, 3000)
        for eta, share in ((1.0, 0.5), (1.0, 0.15), (1.0, 0.12), (10.0, 0.15)):
            rho = share * top_rho(batch, operators.tdc(eta))
            problem = Saddle().problem(batch, operators.tdc(eta), penalties.L1(rho, 10 * rho))
            first = solve(problem, tol=1e-6, method="pdhg", polish=False)
            count, active = problem.n_applications, np.count_nonzero(first.x[1000:]) / 1000
            problem = Saddle().problem(batch, operators.tdc(eta), penalties.L1(rho, 10 * rho))
            exact = solve(problem)
            print(
                f"  eta {eta:g}, {share:g} rho_max: {active:.1%} active, PDHG {count} times A to "
                f"{first.relative_gap:.1e}; working set {problem.n_applications}, {exact.relative_gap:.1e}"
            )
            if active <= 0.15:
                applications.append(count)
            gaps.append(exact.relative_gap)
            working.append(problem.n_applications)
    return [
        verdict("applications of A to a gap of 1e-6 by PDHG, ≤ 15 % active, worst", max(applications), 100),
        verdict("applications of A by working sets, worst", max(working), 100),
        verdict("relative gap after polish, worst", max(gaps), 1e-10),
    ]


def oracle(rng: Rng, quick: bool) -> list[bool]:
    worst, count = 0.0, 0
    for _ in range(1 if quick else 5):
        for order in (1, 2, "inf"):
            for kind in ("l1", "ridge", "elastic net", "group"):
                batch = gaussian(rng, 16, 80, 4)
                rho = float(rng.uniform(0.02, 0.3)) * {1: 3.0, 2: 1.0, "inf": 0.3}[order]
                ours = solve(Saddle(order).problem(batch, operators.tdc(), penalty_of(kind, rho)), tol=1e-9).primal
                theirs, _ = literal(batch, order, kind, rho)
                worst, count = max(worst, abs(ours - theirs) / theirs), count + 1
    return [
        verdict(f"relative difference to CVXPY over {count} problems, worst", worst, 1e-7),
        verdict("problems", count, 12 if quick else 50, at_most=False),
    ]


def penalty_of(kind: str, rho: float) -> Any:
    return {
        "l1": penalties.L1(rho, 2 * rho),
        "ridge": penalties.Ridge(rho, 2 * rho),
        "elastic net": penalties.ElasticNet(rho, 2 * rho, 0.5),
        "group": penalties.GroupL1(np.arange(16) // 4, rho, 2 * rho),
    }[kind]


def literal(batch: Batch, order: Any, kind: str, rho: float, **options: Any) -> tuple[float, float]:
    """The minimum by CVXPY on the problem as it is written, and the processor seconds that took."""
    import cvxpy as cp

    A, b = mean_system(operators.tdc(), batch) if len(batch) < 200 else matrix(batch)
    d = batch.n_features
    x = cp.Variable(2 * d)
    h: Any = 0.0
    for weight, v in ((2 * rho, x[:d]), (rho, x[d:])):
        h = h + weight * {
            "l1": lambda v: cp.norm1(v),
            "ridge": lambda v: cp.sum_squares(v) / 2,
            "elastic net": lambda v: cp.norm1(v) / 2 + cp.sum_squares(v) / 4,
            "group": lambda v: sum(2.0 * cp.norm2(v[4 * g : 4 * g + 4]) for g in range(4)),
        }[kind](v)
    problem = cp.Problem(cp.Minimize(cp.norm(A @ x - b, np.inf if order == "inf" else order) + h))
    began = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        try:
            problem.solve(solver="CLARABEL", **(options or {"tol_gap_abs": 1e-10, "tol_gap_rel": 1e-10}))
        except cp.SolverError:
            return np.nan, time.process_time() - began
    return float(np.inf if problem.value is None else problem.value), time.process_time() - began


def matrix(batch: Batch) -> tuple[Array, Array]:
    A = Saddle().problem(batch, operators.tdc(), penalties.L1(1.0, 1.0)).A
    return A.A, A.b


def speed(rng: Rng, quick: bool) -> list[bool]:
    d = 300 if quick else 1000
    batch = gaussian(rng, d, 3 * d)
    rho = 0.55 * top_rho(batch, operators.tdc())
    began = time.process_time()
    point = solve(Saddle().problem(batch, operators.tdc(), penalties.L1(rho, 2 * rho)), tol=1e-8)
    ours = time.process_time() - began
    value, theirs = literal(batch, 2, "l1", rho, time_limit=100 * ours)
    note = (
        f"the same minimum to {abs(value - point.primal) / value:.0e}" if np.isfinite(value) else "stopped unfinished"
    )
    print(f"  ours {ours:.2f} s with the mean system, gap {point.relative_gap:.0e}; Clarabel {theirs:.1f} s, {note}")
    return [verdict(f"times faster than Clarabel at d = {d}", theirs / ours, 5 if quick else 50, at_most=False)]


def mountain_car_system(rng: Rng, quick: bool) -> list[bool]:
    features = RBFGrid((2, 4, 8, 16, 32)) if not quick else RBFGrid((2, 4, 8, 16))
    log = mountain_car_world.collect(rng, start="uniform")
    batch = featurize(log, features.fit(log.observation), 0.99)
    gaps = []
    for eta, rho, rho_w in (
        (1.0, 0.01, 0.2),
        (10.0, 0.01, 0.2),
        (1.0, 0.001, 0.2),
        (1.0, 0.001, 1.0),
        (1.0, 0.0001, 1.0),
    ):
        began = time.perf_counter()
        point = solve(Saddle().problem(batch, operators.tdc(eta), penalties.L1(rho, rho_w)), tol=1e-8)
        w, theta = (np.count_nonzero(part) for part in point.x.reshape(2, -1))
        print(
            f"  d {batch.n_features}, eta {eta:g}, rho ({rho:g}, {rho_w:g}): gap {point.relative_gap:.1e}, "
            f"{theta} theta, {w} w, {time.perf_counter() - began:.1f} s"
        )
        gaps.append(point.relative_gap)
    return [verdict("relative gap on mountain car, worst of five", max(gaps), 1e-6)]


def large(rng: Rng, quick: bool) -> list[bool]:
    out = []
    for d in (10**5,) if quick else (10**5, 10**6):
        n, nnz, relevant = 10_000, 50, rng.choice(d, 20, replace=False)
        index = rng.integers(0, d, size=(n + 1, nnz))
        index[:, :5] = relevant[rng.integers(0, 20, size=(n + 1, 5))]
        data = rng.uniform(0.5, 1.5, size=(n + 1) * nnz)
        phi = sp.csr_array((data, index.ravel(), np.arange(0, (n + 1) * nnz + 1, nnz)), shape=(n + 1, d))
        phi.sum_duplicates()
        theta = np.zeros(d)
        theta[relevant] = rng.choice([-1.0, 1.0], 20) * rng.uniform(0.5, 1.5, 20)
        X, X_next = phi[:-1], phi[1:]
        y = (X - 0.9 * X_next) @ theta + 0.1 * rng.normal(size=n)
        began = time.perf_counter()
        model = SparseTD(rho_theta=0.1 * rho_max(X, y, X_next, gamma=0.9), gamma=0.9).fit(X, y, X_next)
        seconds = time.perf_counter() - began
        right = np.array_equal(np.flatnonzero(model.support_), np.sort(relevant))
        print(f"  d {d:,}: gap {model.dual_gap_ / model.objective_:.1e}, the right 20 features: {right}")
        out.append(verdict(f"seconds at d = {d:,}", seconds, 180))
    return out


def selection(rng: Rng, quick: bool) -> list[bool]:
    d, scores, errors, seconds = (1000 if quick else 10_000), [], [], []
    for _ in range(3 if quick else 10):
        mdp = random_mdp(rng, 100, 10, 10, gamma=0.9, reward_noise=0.1)
        batch = with_noise_features(mdp.trajectory(5000, rng, horizon=20), d - 10, rng)
        began, cpu = time.perf_counter(), time.process_time()
        model = SparseTDSelect(gamma=0.9).fit(*rows(batch), **log_columns(batch))
        seconds.append(time.process_time() - cpu)
        chosen = np.flatnonzero(model.support_)
        scores.append(2 * np.sum(chosen < 10) / (len(chosen) + 10))
        errors.append(relative_error(mdp, model.coef_[:10]))
        print(
            f"  F1 {scores[-1]:.2f}, {len(chosen)} features, relative RMSE of V {errors[-1]:.3f}, "
            f"{seconds[-1]:.0f} s of one core ({time.perf_counter() - began:.0f} s on the clock)",
            flush=True,
        )
    return [
        verdict(f"mean F1 at d = {d:,}", float(np.mean(scores)), 0.95, at_most=False),
        verdict("mean relative RMSE of V", float(np.mean(errors)), 0.05),
        verdict("seconds of one core, worst", max(seconds), 60),
    ]


def relative_error(mdp: FiniteMDP, theta: Array) -> float:
    value = mdp.features @ mdp.theta_star
    return float(np.sqrt(mdp.xi @ (mdp.features @ theta - value) ** 2 / (mdp.xi @ value**2)))


def coverage(rng: Rng, quick: bool) -> list[bool]:
    out = []
    cases = [
        ("on-policy MDP", random_mdp(rng, 20, 4, 4, off_policy=0.0, reward_noise=0.2), 20, 1600),
        ("off-policy MDP", random_mdp(rng, 20, 4, 4, off_policy=0.3, reward_noise=0.2), 20, 1600),
        ("Boyan chain", boyan_chain(), None, 900),
    ]
    for name, mdp, horizon, n in cases:
        hits = np.array([covered(mdp, horizon, n, rng) for _ in range(40 if quick else 500)])
        for column, what in enumerate(("policy", "states")):
            share = float(hits[:, column].mean())
            tolerance = 0.05 if quick else 0.0
            low, high = 0.92 - tolerance, 0.98 + tolerance
            print(
                f"{'pass' if low <= share <= high else 'FAIL'}  {name}, {what}: {share:.3f} (goal .92 to .98)",
                flush=True,
            )
            out.append(low <= share <= high)
    return out


def covered(mdp: FiniteMDP, horizon: int | None, n: int, rng: Rng) -> list[float]:
    """One log, features selected on it, and the share of the exact values inside the 95 % intervals."""
    batch = with_noise_features(mdp.trajectory(n, rng, horizon=horizon), 12, rng)
    model = SparseTDSelect(gamma=mdp.gamma, n_folds=3, n_rhos=12, eps=0.02, choice="best")
    model.fit(*rows(batch), **log_columns(batch))
    reached = mdp.xi > 1e-3
    at = np.hstack([mdp.features, np.zeros((mdp.n_states, 12))])[reached]
    out = []
    for asked, truth in ((None, np.array([mdp.start @ mdp.value])), (at, mdp.value[reached])):
        interval = value_interval(model, *rows(batch), at=asked, **log_columns(batch))
        out.append(float(np.mean((interval.low <= truth) & (truth <= interval.high))))
    return out


PIECES: dict[str, Callable[[Rng, bool], list[bool]]] = {
    "certificate": certificate,
    "oracle": oracle,
    "speed": speed,
    "mountain-car": mountain_car_system,
    "large": large,
    "selection": selection,
    "coverage": coverage,
}


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("pieces", nargs="*", help=f"of {', '.join(PIECES)}; default: all")
    parser.add_argument("--seed", type=int, default=None, help="default: a fresh one")
    parser.add_argument(
        "--quick", action="store_true", help="smaller, for a first look; goals are loosened where sizes shrink"
    )
    options = parser.parse_args(arguments)
    unknown = [name for name in options.pieces if name not in PIECES]
    if unknown:
        parser.error(f"{unknown[0]!r} is not one of {', '.join(PIECES)}")
    seed = int(np.random.SeedSequence().entropy % 2**32) if options.seed is None else options.seed
    print(f"seed {seed}")
    passed = []
    for name in options.pieces or PIECES:
        print(f"\n{name}")
        passed += PIECES[name](np.random.default_rng([seed, list(PIECES).index(name)]), options.quick)
    print(f"\n{sum(passed)} of {len(passed)} passed")
    return 0 if all(passed) else 1


if __name__ == "__main__":
    sys.exit(main())
