"""The lazy kernel against other online learners on the same stream of sparse rows.

The peers do less per row: one feature vector and one weight vector, no φ', no dual, mostly no average. How much less is
in the table: the numbers that a row changes.
"""

from __future__ import annotations

import importlib.util
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from benchmarks.speed.measure import Contender, Report, compare, nanoseconds
from benchmarks.speed.sparse import ALPHA, ETA, GAMMA, NNZ, Stream, rho
from benchmarks.speed.torch_loops import against_dense, tdc_on_sparse_rows


def matrix(stream: Stream) -> Any:
    rows = stream.phi
    return sp.csr_matrix((rows.values, rows.indices, rows.indptr), shape=(stream.n + 1, stream.d))[: stream.n]


def sklearn_bulk(stream: Stream, average: bool) -> Any:
    from sklearn.linear_model import SGDRegressor

    options: dict[str, Any] = {"learning_rate": "constant", "eta0": ALPHA, "shuffle": False, "average": average}
    model, X = SGDRegressor(penalty="l1", alpha=rho(stream.d)[1], fit_intercept=False, **options), matrix(stream)
    return lambda: model.partial_fit(X, stream.reward)


def vowpal_wabbit(stream: Stream, folder: Path, options: str) -> Any:
    """Read from the binary cache that a first run has written."""
    import vowpalwabbit

    text, cache = folder / f"{stream.d}.txt", folder / f"{stream.d}.cache"
    if not text.exists():
        indices = stream.phi.indices[: stream.n * stream.nnz].reshape(stream.n, stream.nnz)
        with text.open("w") as file:
            for row, reward in zip(indices.tolist(), stream.reward.tolist(), strict=True):
                file.write(f"{reward:.6g} | {' '.join(map(str, row))}\n")
    learner = f"--noconstant -b {int(np.ceil(np.log2(stream.d)))} -l {ALPHA} --l1 {rho(stream.d)[1]:g} {options}"

    def call() -> None:
        workspace = vowpalwabbit.Workspace(f"--quiet {learner} -d {text} --cache_file {cache}")
        workspace.finish()

    return call


def river_loop(stream: Stream, rows: int) -> Any:
    from river import linear_model, optim

    model = linear_model.LinearRegression(optimizer=optim.SGD(ALPHA), l1=rho(stream.d)[1], intercept_lr=0.0)
    indices = stream.phi.indices[: rows * NNZ].reshape(rows, NNZ).tolist()
    examples = [(dict.fromkeys(row, 1.0), y) for row, y in zip(indices, stream.reward.tolist(), strict=False)]

    def call() -> None:
        for x, y in examples:
            model.learn_one(x, y)

    return call


def numpy_loop(stream: Stream, rows: int) -> Any:
    """RO-TD on sparse rows in NumPy: the products cost O(nnz), prox, projection and average O(d)."""
    d, (rho_w, rho_theta) = stream.d, rho(stream.d)
    w, theta, y1, y2, x_sum = np.zeros(d), np.zeros(d), np.zeros(d), np.zeros(d), np.zeros((2, d))
    indices = stream.phi.indices.reshape(-1, NNZ)

    def soft(v: Any, threshold: float) -> Any:
        return np.sign(v) * np.maximum(np.abs(v) - threshold, 0.0)

    def call() -> None:
        nonlocal w, theta, y1, y2
        for t in range(rows):
            i, j = indices[t], indices[t + 1]
            x_sum[0] += ALPHA * w
            x_sum[1] += ALPHA * theta
            delta = stream.reward[t] + GAMMA * theta[j].sum() - theta[i].sum()
            pw, p1, p2, q2 = w[i].sum(), y1[i].sum(), y2[i].sum(), GAMMA * y2[j].sum()
            np.subtract.at(w, i, ALPHA * (ETA * p1 + q2))
            np.subtract.at(theta, i, ALPHA * (ETA * p1 + p2))
            np.add.at(theta, j, ALPHA * GAMMA * (ETA * p1 + p2))
            np.add.at(y1, i, ALPHA * ETA * (pw - delta))
            np.add.at(y2, i, -ALPHA * delta)
            np.add.at(y2, j, ALPHA * GAMMA * pw)
            w, theta = soft(w, ALPHA * rho_w), soft(theta, ALPHA * rho_theta)
            norm = np.sqrt(y1 @ y1 + y2 @ y2)
            if norm > 1.0:
                y1, y2 = y1 / norm, y2 / norm

    return call


def partial_fit(stream: Stream) -> Any:
    """What a user calls, checks of the input included."""
    from sparsetd import ROTD

    rho_w, rho_theta = rho(stream.d)
    model = ROTD(gamma=GAMMA, eta=ETA, step_size=ALPHA, rho_w=rho_w, rho_theta=rho_theta)
    X = matrix(stream)
    return lambda: model.partial_fit(X, stream.reward)


def contenders(stream: Stream, folder: Path) -> list[Contender]:
    n = stream.n
    some = min(n, 20_000)  # for loops in Python; enough that their weights do not all stay in a cache
    out = [Contender(LAZY, stream.fit(), n)]
    out.append(Contender("`ROTD.partial_fit` (this library)", partial_fit(stream), n))
    out.append(Contender("scikit-learn SGD l1, bulk", sklearn_bulk(stream, average=False), n))
    out.append(Contender("the same, averaged", sklearn_bulk(stream, average=True), n))
    if importlib.util.find_spec("vowpalwabbit"):
        out.append(Contender("Vowpal Wabbit --sgd --l1, cache", vowpal_wabbit(stream, folder, "--sgd --power_t 0"), n))
        out.append(Contender("Vowpal Wabbit default --l1, cache", vowpal_wabbit(stream, folder, ""), n))
    if importlib.util.find_spec("river"):
        out.append(Contender("river learn_one", river_loop(stream, some), some))
    if importlib.util.find_spec("torch"):
        out.append(Contender("TDC in PyTorch, sparse rows", tdc_on_sparse_rows(stream, some), some))
    slow = 200 if stream.d <= 10**4 else 5
    out.append(Contender("RO-TD in NumPy, O(d)", numpy_loop(stream, slow), slow))
    return out


LAZY = "RO-TD (this library)"
MORE = "RO-TD changes 384 numbers a row; 96 of them are the average of y, which the goal did not count"

# Numbers that one row of NNZ non-zeros changes, in multiples of NNZ, and how they come about.
WORK = {
    LAZY: (12, "φ: w, θ, y₁, y₂ and their averages; φ': θ, y₂ and their averages; prox and ball"),
    "`ROTD.partial_fit` (this library)": (12, "the same, in one call"),
    "scikit-learn SGD l1, bulk": (2, "φ: θ, and per feature the penalty paid so far; one `partial_fit` of all rows"),
    "the same, averaged": (3, "the same and the average of θ"),
    "Vowpal Wabbit --sgd --l1, cache": (1, "φ: θ in float32; rows from its binary cache, its parsing thread included"),
    "Vowpal Wabbit default --l1, cache": (3, "φ: θ and two scales (adaptive, normalised); otherwise the same"),
    "river learn_one": (2, "φ: θ, and the penalty paid so far; a Python loop over dicts"),
    "TDC in PyTorch, sparse rows": (3, "φ: θ, w; φ': θ; a Python loop of `index_add_`, no penalty, no average"),
    "RO-TD in NumPy, O(d)": (None, "the algorithm of the first line; prox, ball and average visit all d"),
}

GOALS = {
    "scikit-learn SGD l1, bulk": 1.2,
    "Vowpal Wabbit --sgd --l1, cache": 1.6,
    "river learn_one": 40.0,
}


def run(report: Report, repeats: int, share: float) -> None:
    results, n = {}, int(1_000_000 * share)
    for d in (10**4, 10**6):
        with tempfile.TemporaryDirectory() as folder:
            results[d] = compare(contenders(Stream(d, n), Path(folder)), max(2, repeats - 2))
    report.title(f"Peers on the same stream: {NNZ} non-zeros, {n:,} rows (CPU time per row)")
    rows = []
    for name in results[10**4]:
        ratios = {d: times[name] / times[LAZY] for d, times in results.items()}
        cells = [f"{nanoseconds(times[name])} ({ratios[d]:,.1f}×)" for d, times in results.items()]
        multiple, work = WORK[name]
        rows.append([name, *cells, "6 d" if multiple is None else str(multiple * NNZ), work])
        for d, ratio in ratios.items():
            goal = {10**4: 70.0, 10**6: 10_000.0}[d] if "NumPy" in name else GOALS.get(name)
            if goal is not None:
                report.reach(f"sparse, d = {d:,}: {name} / RO-TD", ratio, "≥", goal, MORE)
    report.table(["", *(f"d = {d:,}" for d in results), "numbers changed", "what a row does"], rows)
    _explain(report, results)
    for module in ("vowpalwabbit", "river", "torch"):
        if importlib.util.find_spec(module) is None:
            report.say(f"\n{module} is not installed and was left out.")
    if importlib.util.find_spec("torch"):
        against_dense(report, max(2, repeats - 2), share)


def _explain(report: Report, results: dict[int, dict[str, float]]) -> None:
    """Why a goal against a peer that does less can be out of reach: the time per number changed."""
    peer = "scikit-learn SGD l1, bulk"
    for d, times in results.items():
        ours, theirs = (1e9 * times[name] / (WORK[name][0] * NNZ) for name in (LAZY, peer))
        needed = 1e9 * times[peer] / GOALS[peer] / (WORK[LAZY][0] * NNZ)
        report.say(
            f"\nd = {d:,}: {ours:.1f} ns per number that RO-TD changes, {theirs:.1f} ns per number that scikit-learn "
            f"changes; to be {GOALS[peer]:g} times as fast per row RO-TD would have to change one in {needed:.1f} ns."
        )
