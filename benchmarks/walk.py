"""The walk of a fit: which files of the library it calls functions of, after a first call.

python -m benchmarks.walk
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

import sparsetd
from sparsetd import ROTD, TDC

ROOT = Path(sparsetd.__file__).parent


def files_of(model: Any, X: Any, y: Any) -> Counter[str]:
    """How many functions of each file a second fit calls; kernels are called, but not seen from Python."""
    seen: set[tuple[str, str]] = set()

    def note(frame: Any, event: str, _: Any) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(str(ROOT)):
            seen.add((frame.f_code.co_filename, frame.f_code.co_qualname))

    model.fit(X, y)
    sys.setprofile(note)
    try:
        model.fit(X, y)
    finally:
        sys.setprofile(None)
    return Counter(str(Path(file).relative_to(ROOT)) for file, _ in seen)


def main() -> None:
    rng = np.random.default_rng(0)
    X, y = sp.csr_array(rng.normal(size=(2000, 50)) * (rng.random((2000, 50)) < 0.1)), rng.normal(size=2000)
    for model in (TDC(gamma=0.9), ROTD(gamma=0.9, step_size=0.01, rho_theta=0.001), ROTD(gamma=0.9, rho_theta=0.001)):
        found = files_of(model, X, y)
        print(f"{model}: {len(found)} files, {found.total()} functions")
        for name, count in sorted(found.items()):
            print(f"    {name:38s}{count:4d}")


if __name__ == "__main__":
    main()
