"""How long until the first fit: import, a warm disk cache, a cold one."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

from benchmarks.speed.measure import Report

DENSE = """
import numpy as np
from sparsetd.estimators.rotd import ROTD
rng = np.random.default_rng(0)
ROTD(gamma=0.9, step_size=0.01, rho_theta=0.001).fit(rng.normal(size=(50, 20)), rng.normal(size=50))
"""
SPARSE = """
import numpy as np
import scipy.sparse as sp
from sparsetd.estimators.rotd import ROTD
rng = np.random.default_rng(0)
X = sp.random_array((50, 200), density=0.05, rng=rng, format="csr")
ROTD(gamma=0.9, step_size=0.01, rho_theta=0.001).fit(X, rng.normal(size=50))
"""
LOADING = "the estimator has imports of its own, and its kernel is larger to read and link than the smallest one"
COMPILING = "Numba is loaded with the first fit, and compiling one kernel for one signature takes it longer than that"
# What no method written with scikit-learn and Numba can start faster than: the imports and a kernel from the cache.
FLOOR = """
import sys
import numpy, scipy.sparse, sklearn.base, sklearn.utils.validation
sys.path.insert(0, {folder!r})
import smallest
smallest.double(numpy.ones(1))
"""
SMALLEST = """
from numba import njit

@njit(cache=True)
def double(x):
    return 2.0 * x[0]
"""


def seconds(code: str, cache: str | None = None) -> float:
    """CPU seconds of a fresh process that runs `code`."""
    timed = f"import time\n{code}\nprint(time.process_time())"
    env = {**os.environ, "OPENBLAS_NUM_THREADS": "1", **({"NUMBA_CACHE_DIR": cache} if cache else {})}
    command = [sys.executable, "-W", "ignore", "-c", timed]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=env)
    return float(done.stdout.split()[-1])


def floor(repeats: int) -> float:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "smallest.py").write_text(SMALLEST)
        code = FLOOR.format(folder=folder)
        seconds(code, folder)
        return median(seconds(code, folder) for _ in range(repeats))


def run(report: Report, repeats: int) -> None:
    report.title("From the start of a process (seconds of CPU)")
    rows = []
    bare = median(seconds("import numpy, scipy.sparse, sklearn.base") for _ in range(repeats))
    imports = median(seconds("import sparsetd") for _ in range(repeats))
    rows.append(["`import sparsetd`", f"{imports:.2f}"])
    rows.append(["NumPy, SciPy and scikit-learn alone", f"{bare:.2f}"])
    least = floor(repeats)
    rows.append(["the same with Numba and the smallest kernel, warm cache", f"{least:.2f}"])
    report.reach("import sparsetd, seconds", imports, "≤", 0.5)
    for name, code in (("dense", DENSE), ("sparse", SPARSE)):
        with tempfile.TemporaryDirectory() as cache:
            cold = seconds(code, cache)
            warm = median(seconds(code, cache) for _ in range(repeats))
        loaded = median(seconds("import numpy, scipy.sparse\nimport sparsetd.estimators.rotd") for _ in range(repeats))
        rows.append([f"first {name} `ROTD.fit`, cold cache", f"{cold:.2f}"])
        rows.append([f"first {name} `ROTD.fit`, warm cache", f"{warm:.2f}"])
        rows.append([f"of which the first {name} call, cold / warm", f"{cold - loaded:.2f} / {warm - loaded:.2f}"])
        started = f"{name}: warm start to first fit / imports and the smallest kernel"
        report.reach(started, warm / least, "≤", 1.2, LOADING)
        report.reach(f"{name}: first call with a cold cache, seconds", cold - loaded, "≤", 2.5, COMPILING)
        report.reach(f"{name}: first call with a warm cache, seconds", warm - loaded, "≤", 0.6)
    report.table(["", "seconds"], rows)
