"""How kernels are compiled, and why they may call jitted code of other files.

Numba keeps a compiled kernel on disk under its qualified name and looks only at its own file for changes: a kernel that
calls another file would be stale after an edit there. So every kernel's name carries a digest of all files of this
folder: an edit of any of them is a miss, and undoing it a hit again.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from sparsetd._tools.jit import njit

# Sums may be reordered and contracted; NaN and infinity keep their meaning, or divergence could not be seen.
FAST = {"reassoc", "contract", "arcp", "nsz"}
OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True}

_FILES = sorted(Path(__file__).parent.glob("*.py"))
STAMP = hashlib.sha256(b"".join(path.read_bytes() for path in _FILES)).hexdigest()[:12]


def kernel(function: Any, fastmath: Any = FAST) -> Any:
    """A function that Python calls: compiled once per signature and kept on disk."""
    function.__qualname__ += f"-{STAMP}"
    return njit(function, cache=True, fastmath=fastmath, **OPTIONS)


def piece(function: Any) -> Any:
    """A loop over the state that kernels call: stored with each of them, without a way in from Python."""
    return njit(function, no_cpython_wrapper=True, fastmath=FAST, **OPTIONS)


def part(function: Any, fastmath: Any = FAST) -> Any:
    """Scalar work between two loops: compiled into every place that uses it."""
    return njit(function, forceinline=True, no_cpython_wrapper=True, fastmath=fastmath, **OPTIONS)
