"""Compiled functions, kept on disk where that is possible.

Numba keeps what it compiled beside the source or in the user's cache folder. In a read-only installation without a home
(a hardened container) it has neither and refuses to compile at all; then every process compiles for itself.
"""

from __future__ import annotations

import warnings
from functools import cache
from typing import Any

import numba


def njit(function: Any = None, **options: Any) -> Any:
    """`numba.njit`, but without `cache` if no cache folder can be written."""
    if function is None:
        return lambda given: njit(given, **options)
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
