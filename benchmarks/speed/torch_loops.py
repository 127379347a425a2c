"""What one would write in PyTorch: TDC on sparse rows, RO-TD on dense ones, a Python loop over tensors. Optional."""

from __future__ import annotations

from typing import Any

from benchmarks.speed import dense
from benchmarks.speed.measure import Contender, Report, compare, nanoseconds
from benchmarks.speed.sparse import ALPHA, ETA, GAMMA, Stream
from sparsetd.system import Batch


def tdc_on_sparse_rows(stream: Stream, rows: int) -> Any:
    """θ ← θ + α (δ φ − γ (φ·w) φ'), w ← w + αη (δ − φ·w) φ: gather, then index_add; no penalty, no average."""
    import torch

    theta, w = torch.zeros(stream.d, dtype=torch.float64), torch.zeros(stream.d, dtype=torch.float64)
    indices = torch.from_numpy(stream.phi.indices[: (rows + 1) * stream.nnz].reshape(rows + 1, stream.nnz)).long()
    ones, rewards = torch.ones(stream.nnz, dtype=torch.float64), stream.reward[:rows].tolist()

    @torch.no_grad()
    def call() -> None:
        for t, reward in enumerate(rewards):
            i, j = indices[t], indices[t + 1]
            along = w[i].sum()
            delta = reward + GAMMA * theta[j].sum() - theta[i].sum()
            theta.index_add_(0, i, ALPHA * delta * ones)
            theta.index_add_(0, j, -ALPHA * GAMMA * along * ones)
            w.index_add_(0, i, ALPHA * ETA * (delta - along) * ones)

    return call


def rotd_on_dense_rows(batch: Batch, rows: int) -> Any:
    """The iteration of `dense.numpy_loop`, with tensors."""
    import torch
    from torch.nn.functional import softshrink

    d = batch.n_features
    x, y, x_sum, y_sum = (torch.zeros(2, d, dtype=torch.float64) for _ in range(4))
    features, successors = torch.from_numpy(batch.phi[:rows]), torch.from_numpy(batch.phi_next[:rows])
    rewards = batch.reward[:rows].tolist()
    step, rho = dense.ALPHA, (dense.RHO_W, dense.RHO_THETA)

    @torch.no_grad()
    def call() -> None:
        (w, theta), (y1, y2) = x, y
        for t, reward in enumerate(rewards):
            phi, psi = features[t], dense.GAMMA * successors[t]
            x_sum.add_(torch.stack((w, theta)), alpha=step)
            y_sum.add_(torch.stack((y1, y2)), alpha=step)
            delta = reward + psi @ theta - phi @ theta
            along, first = phi @ w, dense.ETA * (phi @ y1)
            w, theta = (
                softshrink(w - step * (first + psi @ y2) * phi, step * rho[0]),
                softshrink(theta - step * (first + phi @ y2) * (phi - psi), step * rho[1]),
            )
            y1 = y1 + step * dense.ETA * (along - delta) * phi
            y2 = y2 + step * (along * psi - delta * phi)
            norm = torch.sqrt(y1 @ y1 + y2 @ y2)
            if norm > 1.0:
                y1, y2 = y1 / norm, y2 / norm
        x.copy_(torch.stack((w, theta)))
        y.copy_(torch.stack((y1, y2)))

    return call


def against_dense(report: Report, repeats: int, share: float) -> None:
    """The library's dense kernel against the loop."""
    report.title("PyTorch: the dense RO-TD step as a loop over tensors (one thread)")
    rows = []
    for d, n in dense.SIZES.items():
        batch, loop = dense.stream(d, int(n * share)), max(20, int(n * share) // 40)
        pair = [Contender("library", dense.library(batch), len(batch))]
        pair.append(Contender("PyTorch", rotd_on_dense_rows(batch, loop), loop))
        times = compare(pair, repeats)
        ratio = times["PyTorch"] / times["library"]
        rows.append([f"{d:,}", nanoseconds(times["library"]), nanoseconds(times["PyTorch"]), f"{ratio:.1f}"])
    report.table(["d", "library", "PyTorch loop", "PyTorch / library"], rows)
