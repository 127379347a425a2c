"""Time per transition against the number of features d and against the non-zeros of a row, with fitted exponents.

    time ∝ d^slope,  time ∝ nnz^slope

by least squares on logarithms, over d ≥ 10⁴ (below it, what a call costs at all hides the rest) and over all nnz.
"""

from __future__ import annotations

import importlib.util
import tempfile
from pathlib import Path

import numpy as np

from benchmarks.speed import dense, peers
from benchmarks.speed.figures import Curves, draw
from benchmarks.speed.measure import Contender, Report, compare, nanoseconds
from benchmarks.speed.sparse import NNZ, Stream, touch_lines
from sparsetd.solvers.lazy import aligned_zeros

FEATURES = (10**3, 10**4, 10**5, 10**6, 10**7)
NON_ZEROS = (4, 8, 16, 32, 64, 128, 256)
AT = 10**5


def on_sparse_rows(d: int, n: int, nnz: int, folder: Path) -> list[Contender]:
    """Those whose cost should not grow with d, on the same rows, of one length ‖φ‖: the step suits all of them."""
    stream, apart = Stream(d, n, nnz=nnz), Stream(d, n, nnz=nnz, trajectory=False)
    for rows in (stream.phi, apart.phi, apart.phi_next):
        rows.values.fill(np.sqrt(NNZ / nnz))
    line = aligned_zeros(d, 8)
    touched = stream.phi_next.indices, stream.phi_next.indptr
    out = [
        Contender("lazy RO-TD, trajectory", stream.fit(), n),
        Contender("lazy RO-TD, independent rows", apart.fit(), n),
        Contender("touching the lines only", lambda: touch_lines(line, *touched), n),
        Contender("scikit-learn SGD l1", peers.sklearn_bulk(stream, average=False), n),
    ]
    if importlib.util.find_spec("vowpalwabbit"):
        out.append(Contender("Vowpal Wabbit --sgd --l1", peers.vowpal_wabbit(stream, folder, "--sgd --power_t 0"), n))
    return out


def on_all_features(d: int, share: float) -> list[Contender]:
    """Those that visit every feature in every row."""
    few = max(2, int(2_000_000 * share) // d) if d > 10**4 else 200
    out = [Contender("RO-TD in NumPy, O(d)", peers.numpy_loop(Stream(d, few), few), few)]
    if d <= 10**6:  # at 10⁷ the rows alone would take gigabytes
        batch = dense.stream(d, max(10, 2_000_000 // d))
        out.append(Contender("dense kernel, O(d)", dense.library(batch), len(batch)))
    return out


def against_features(repeats: int, share: float) -> Curves:
    curves: Curves = {}
    for d in FEATURES:
        with tempfile.TemporaryDirectory() as folder:
            contenders = on_sparse_rows(d, int(200_000 * share), NNZ, Path(folder)) + on_all_features(d, share)
            _add(curves, d, compare(contenders, repeats))
    return curves


def against_non_zeros(repeats: int, share: float) -> Curves:
    curves: Curves = {}
    for nnz in NON_ZEROS:
        with tempfile.TemporaryDirectory() as folder:
            _add(curves, nnz, compare(on_sparse_rows(AT, int(3_200_000 * share / nnz), nnz, Path(folder)), repeats))
    return curves


def _add(curves: Curves, at: int, times: dict[str, float]) -> None:
    for name, seconds in times.items():
        curves.setdefault(name, {})[at] = seconds


def slope(curve: dict[int, float], least: int) -> float:
    """The exponent of the power law nearest to the points from `least` on."""
    points = [(np.log(at), np.log(seconds)) for at, seconds in curve.items() if at >= least]
    return float(np.polyfit(*zip(*points, strict=True), 1)[0])


def show(report: Report, curves: Curves, least: int) -> dict[str, float]:
    slopes = {name: slope(curve, least) for name, curve in curves.items()}
    places = sorted({at for curve in curves.values() for at in curve})
    rows = [
        [name, *(nanoseconds(curve[at]) if at in curve else "–" for at in places), f"{slopes[name]:.2f}"]
        for name, curve in curves.items()
    ]
    report.table(["", *(f"{at:,}" for at in places), "slope"], rows)
    return slopes


def run(report: Report, repeats: int, share: float, folder: Path | None) -> None:
    """Measure, show, and draw into `folder` where there is one."""
    repeats = max(2, repeats - 2)
    report.title(f"Time per transition against d: {NNZ} non-zeros per row (slope over d ≥ 10⁴)")
    curves = against_features(repeats, share)
    slopes = show(report, curves, least=10**4)
    if folder is not None:
        draw(folder / "features.svg", curves, slopes, f"features d ({NNZ} non-zeros per row)")
        report.picture("figures/features.svg", "Time per transition against the number of features, both on log scales")
        report.say(FEATURES_CAPTION)
    report.title(f"Time per transition against the non-zeros of a row: d = {AT:,}")
    curves = against_non_zeros(repeats, share)
    slopes = show(report, curves, least=1)
    if folder is not None:
        draw(folder / "non-zeros.svg", curves, slopes, "non-zeros per row (10⁵ features)")
        report.picture("figures/non-zeros.svg", "Time per transition against non-zeros per row, both on log scales")
        report.say(NON_ZEROS_CAPTION)


FEATURES_CAPTION = """
What to see: whatever visits all features grows at least in proportion to d (slope 1); the lazy kernel grows little, and
what it loses it loses to memory: the dotted line only touches the cache lines of the same coordinates."""
NON_ZEROS_CAPTION = """
What to see: the cost is proportional to the non-zeros. scikit-learn and Vowpal Wabbit learn one weight vector from one
feature vector per row; RO-TD learns four, and two averages, from two."""
