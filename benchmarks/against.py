"""Every streaming method through `fit`, against another checkout of the library, on the same rows in the same run.

    python -m benchmarks.against PATH [--repeats N] [--only WORD] [--write]

PATH is the `src` folder of the other checkout. Two processes stay open, one for each checkout; they fit in turns, and a
line shows the medians of their CPU times and of the ratio new/old within a turn. `--write` keeps the table as
`benchmarks/against.md`. `first` is a fit of a fresh process
after its kernels were loaded; all others come after fits of the same kind.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

HERE = Path(__file__).resolve().parent.parent / "src"
STEP = 0.005
L1 = {"rho_theta": 0.002, "rho_w": 0.005}
PAGE = """# Old and new speeds side by side

    python -m benchmarks.against PATH --write

Every streaming method through `fit`, against another checkout, on the same rows in the same run: medians of CPU
milliseconds, the median of new/old within a turn, and by how much Σ|θ| of the two differs, relatively.

| method, rows | old | new | new / old | apart |
|---|---|---|---|---|"""


def decaying(t: Any) -> Any:
    """0.05/√(1 + t)."""
    return 0.05 / np.sqrt(1.0 + t)


# A method, its parameters, and the rows it is given.
CASES: dict[str, tuple[str, dict[str, Any], str]] = {
    "TD, dense": ("TD", {"step_size": STEP}, "dense"),
    "TDC, dense": ("TDC", {"step_size": STEP}, "dense"),
    "TDC automatic, dense": ("TDC", {}, "dense"),
    "TDC automatic λ, dense": ("TDC", {"lam": 0.8}, "dense"),
    "ROTD, dense": ("ROTD", {"step_size": STEP, **L1}, "dense"),
    "ROTD automatic, dense": ("ROTD", {}, "dense"),
    "ROTD automatic l1, dense": ("ROTD", {**L1}, "dense"),
    "ROTD l∞, dense": ("ROTD", {"step_size": STEP, "fit_norm": "inf", **L1}, "dense"),
    "GTD2MP, dense": ("GTD2MP", {"step_size": STEP}, "dense"),
    "MirrorDescentTD, dense": ("MirrorDescentTD", {"step_size": STEP}, "dense"),
    "ROTDLasso, dense": ("ROTDLasso", {"step_size": STEP, **L1}, "dense"),
    "PFGTD, dense": ("PFGTD", {}, "few"),
    "TD, CSR": ("TD", {"step_size": STEP}, "csr"),
    "TDC, CSR": ("TDC", {"step_size": STEP}, "csr"),
    "TDC λ, CSR": ("TDC", {"step_size": STEP, "lam": 0.8}, "csr"),
    "TDRC, CSR": ("TDRC", {"step_size": STEP}, "csr"),
    "TDC automatic, CSR": ("TDC", {}, "csr"),
    "TDC automatic λ, CSR": ("TDC", {"lam": 0.8}, "csr"),
    "GTD2MP automatic, CSR": ("GTD2MP", {}, "csr"),
    "L1TD, CSR": ("L1TD", {"step_size": STEP, "rho_theta": 0.002}, "csr"),
    "ROTD, CSR": ("ROTD", {"step_size": STEP, **L1}, "csr"),
    "ROTD no penalty, CSR": ("ROTD", {"step_size": STEP}, "csr"),
    "ROTD no average, CSR": ("ROTD", {"step_size": STEP, "average": "none", **L1}, "csr"),
    "ROTD decaying, CSR": ("ROTD", {"step_size": decaying, **L1}, "csr"),
    "ROTD box, CSR": ("ROTD", {"step_size": STEP, "fit_norm": 1, **L1}, "csr"),
    "ROTD λ, CSR": ("ROTD", {"step_size": STEP, "lam": 0.8, **L1}, "csr"),
    "ROTD intercept, CSR": ("ROTD", {"step_size": STEP, "fit_intercept": True, **L1}, "csr"),
    "ROTD automatic, CSR": ("ROTD", {}, "csr"),
    "ROTD automatic l1, CSR": ("ROTD", {**L1}, "csr"),
    "ROTD automatic l1 λ, CSR": ("ROTD", {"lam": 0.8, **L1}, "csr"),
    "RDATD, CSR": ("RDATD", {"rho_theta": 0.01}, "csr"),
    "ROTD, CSR 10⁶": ("ROTD", {"step_size": STEP, **L1}, "wide"),
    "TDC automatic, CSR 10⁶": ("TDC", {}, "wide"),
    "ROTD automatic l1, CSR 10⁶": ("ROTD", {**L1}, "wide"),
}


def rows_of(kind: str) -> tuple[Any, Any]:
    """Features and rewards: 4,000 × 100 dense, or rows of 32 entries among 10⁴ or 10⁶ columns."""
    rng = np.random.default_rng(0)
    if kind in ("dense", "few"):
        n = 4000 if kind == "dense" else 400
        return rng.normal(size=(n, 100)) / 10.0, rng.normal(size=n)
    n, d, nnz = (30_000, 10**4, 32) if kind == "csr" else (30_000, 10**6, 32)
    indices = rng.integers(0, d, n * nnz).astype(np.int32)
    values = rng.normal(size=n * nnz) / np.sqrt(nnz)
    return sp.csr_array((values, indices, np.arange(0, n * nnz + 1, nnz)), shape=(n, d)), rng.normal(size=n)


def serve() -> None:
    """Fit what is asked for on standard input, and answer with CPU seconds: the other end of `Checkout`."""
    import warnings

    from sparsetd import estimators

    warnings.simplefilter("ignore")
    known: dict[str, Any] = {}
    for line in sys.stdin:
        name, parameters, kind = CASES[line.rstrip("\n")]
        known.setdefault(kind, rows_of(kind))
        X, y = known[kind]
        model = getattr(estimators, name)(gamma=0.9, **parameters)
        begin = time.process_time()
        model.fit(X, y)
        print(time.process_time() - begin, float(np.abs(model.coef_).sum()), flush=True)


class Checkout:
    """A process that fits with the library of one folder."""

    def __init__(self, folder: Path) -> None:
        path = os.pathsep.join([str(folder), str(HERE.parent)])
        self.process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.against", "--serve"],
            env=os.environ | {"PYTHONPATH": path, "OPENBLAS_NUM_THREADS": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def fit(self, case: str) -> tuple[float, float]:
        """CPU seconds, and Σ|θ|."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(case + "\n")
        self.process.stdin.flush()
        seconds, size = map(float, self.process.stdout.readline().split())
        return seconds, size


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path", nargs="?", type=Path, help="the src folder of another checkout")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--only", default="", help="cases whose name contains this")
    parser.add_argument("--write", action="store_true", help="also write benchmarks/against.md")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.serve:
        return serve()
    if args.path is None or not (args.path / "sparsetd").is_dir():
        parser.error("PATH must be a folder that holds sparsetd, such as another checkout's src")
    old, new, lines = Checkout(args.path.resolve()), Checkout(HERE), [PAGE]
    print(f"{'milliseconds of CPU time':30s}{'old':>9s}{'new':>9s}{'ratio':>8s}{'apart':>10s}")
    for case in (name for name in CASES if args.only in name):
        (_, size), (_, other) = old.fit(case), new.fit(case)
        apart = abs(other - size) / max(size, 1e-300)
        pairs = [(old.fit(case)[0], new.fit(case)[0]) for _ in range(args.repeats)]
        before, after = np.median(pairs, axis=0)
        ratio = np.median([b / a for a, b in pairs])
        print(f"{case:30s}{1e3 * before:9.2f}{1e3 * after:9.2f}{ratio:8.2f}{apart:10.1e}", flush=True)
        lines.append(f"| {case} | {1e3 * before:.2f} | {1e3 * after:.2f} | {ratio:.2f} | {apart:.0e} |")
    if args.write:
        (HERE.parent / "benchmarks" / "against.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
