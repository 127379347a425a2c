"""The lazy kernel against other online learners on the same stream of sparse rows.

The peers do less per row: one feature vector and one weight vector, no φ', no dual, mostly no average.
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
    bits = int(np.ceil(np.log2(stream.d)))
    common = f"--quiet --noconstant -b {bits} -l {ALPHA} --l1 1e-6 {options} -d {text} --cache_file {cache}"

    def call() -> None:
        workspace = vowpalwabbit.Workspace(common)
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


def contenders(stream: Stream, folder: Path) -> list[Contender]:
    n = stream.n
    out = [Contender("RO-TD (this library)", stream.call(stream.state()), n)]
    out.append(Contender("scikit-learn SGD l1, bulk", sklearn_bulk(stream, average=False), n))
    out.append(Contender("the same, averaged", sklearn_bulk(stream, average=True), n))
    if importlib.util.find_spec("vowpalwabbit"):
        out.append(Contender("Vowpal Wabbit --sgd --l1, cache", vowpal_wabbit(stream, folder, "--sgd"), n))
        out.append(Contender("Vowpal Wabbit default --l1, cache", vowpal_wabbit(stream, folder, ""), n))
    if importlib.util.find_spec("river"):
        out.append(Contender("river learn_one", river_loop(stream, 500), 500))
    slow = 200 if stream.d <= 10**4 else 5
    out.append(Contender("RO-TD in NumPy, O(d)", numpy_loop(stream, slow), slow))
    return out


GOALS = {
    "scikit-learn SGD l1, bulk": 1.2,
    "Vowpal Wabbit --sgd --l1, cache": 1.6,
    "river learn_one": 40.0,
}


def run(report: Report, repeats: int, share: float) -> None:
    results = {}
    for d in (10**4, 10**6):
        stream = Stream(d, int(1_000_000 * share))
        with tempfile.TemporaryDirectory() as folder:
            results[d] = compare(contenders(stream, Path(folder)), max(2, repeats - 2))
    report.title(f"Peers on the same stream: {NNZ} non-zeros, {int(1_000_000 * share):,} rows (CPU time per row)")
    rows = []
    for name in results[10**4]:
        ratios = [results[d][name] / results[d]["RO-TD (this library)"] for d in results]
        cells = [f"{nanoseconds(results[d][name])} ({ratio:,.1f}×)" for d, ratio in zip(results, ratios, strict=True)]
        rows.append([name, *cells])
        goals = {10**4: 70.0, 10**6: 10_000.0} if "NumPy" in name else dict.fromkeys(results, GOALS.get(name))
        for d, ratio in zip(results, ratios, strict=True):
            if goals[d]:
                report.reach(f"sparse, d = {d:,}: {name} / RO-TD", ratio, "≥", goals[d])
    report.table(["", *(f"d = {d:,}" for d in results)], rows)
