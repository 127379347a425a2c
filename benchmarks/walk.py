"""The walk of a fit, and of an evaluation: which files of the library they call functions of, after a first call.

python -m benchmarks.walk
"""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import scipy.sparse as sp

import sparsetd
from sparsetd import ROTD, TDC

ROOT = Path(sparsetd.__file__).parent


def files_of(model: Any, X: Any, y: Any) -> Counter[str]:
    """How many functions of each file a second fit calls; kernels are called, but not seen from Python."""
    return files_called(lambda: model.fit(X, y))


def files_called(call: Callable[[], Any]) -> Counter[str]:
    """How many functions of each file of the library a call enters, when it is made for the second time."""
    seen: set[tuple[str, str]] = set()

    def note(frame: Any, event: str, _: Any) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(str(ROOT)):
            seen.add((frame.f_code.co_filename, frame.f_code.co_qualname))

    call()
    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
    return Counter(str(Path(file).relative_to(ROOT)) for file, _ in seen)


def files_of_evaluate(rows: int = 2_000) -> Counter[str]:
    """The walk of `evaluate("log.parquet", "1 if lactate > 0")`."""
    rng = np.random.default_rng(0)
    x, action = rng.normal(size=(rows, 3)), rng.integers(0, 2, rows)
    columns = {f"obs_{name}": x[:, j] for j, name in enumerate(("lactate", "age", "pulse"))}
    columns |= {"episode": np.arange(rows) // 10, "terminated": np.arange(rows) % 10 == 9, "action": action}
    columns |= {"reward": x[:, 0] * action + rng.normal(size=rows), "behavior_prob": np.full(rows, 0.5)}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "log.parquet")
        pq.write_table(pa.table(columns), path)
        return files_called(lambda: sparsetd.evaluate(path, "1 if lactate > 0"))


def main() -> None:
    rng = np.random.default_rng(0)
    X, y = sp.csr_array(rng.normal(size=(2000, 50)) * (rng.random((2000, 50)) < 0.1)), rng.normal(size=2000)
    for model in (TDC(gamma=0.9), ROTD(gamma=0.9, step_size=0.01, rho_theta=0.001), ROTD(gamma=0.9, rho_theta=0.001)):
        show(str(model), files_of(model, X, y))
    show('evaluate("log.parquet")', files_of_evaluate())


def show(what: str, found: Counter[str]) -> None:
    print(f"{what}: {len(found)} files, {found.total()} functions")
    for name, count in sorted(found.items()):
        print(f"    {name:38s}{count:4d}")


if __name__ == "__main__":
    main()
