"""How kernels are compiled, and why they may call jitted code of other files.

Numba keeps a compiled kernel on disk under its qualified name and looks only at its own file for changes: a kernel that
calls another file would be stale after an edit there. So every kernel's name carries a digest of all files of this
folder: an edit of any of them is a miss, and undoing it a hit again.

Numba keeps them beside the source or in the user's cache folder. In a read-only installation without a home (a hardened
container) it has neither and refuses to compile at all; then every process compiles for itself.
"""

from __future__ import annotations

import hashlib
import warnings
from functools import cache
from pathlib import Path
from typing import Any

import numba

# Sums may be reordered and contracted; NaN and infinity keep their meaning, or divergence could not be seen.
FAST = {"reassoc", "contract", "arcp", "nsz"}
OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True}

_FILES = sorted(Path(__file__).parent.glob("*.py"))
STAMP = hashlib.sha256(b"".join(path.read_bytes() for path in _FILES)).hexdigest()[:12]


def njit(function: Any, **options: Any) -> Any:
    """`numba.njit`, but without `cache` if no cache folder can be written."""
    try:
        return numba.njit(function, **options)
    except RuntimeError as error:
        if "no locator" not in str(error):
            raise
        _warn_once()
        return numba.njit(function, **{**options, "cache": False})


@cache
def _warn_once() -> None:
    warnings.warn(
        "Compiled code cannot be kept, because neither the installation nor the user's cache folder can be "
        "written: every process will compile for some seconds. Set NUMBA_CACHE_DIR to a folder to avoid it.",
        RuntimeWarning,
        stacklevel=3,
    )


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
