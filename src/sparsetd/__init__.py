"""Sparse, off-policy-convergent linear value learning.

    transitions → features → operator × penalty × solver → estimator → report

Public names are loaded when they are first used: `import sparsetd` itself imports neither scikit-learn nor Numba.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from sparsetd import checks, control, features, metrics, operators, penalties, problems, selection, solvers
    from sparsetd.checks import check_td_estimator
    from sparsetd.estimators import (
        ETD,
        GQ,
        GTD,
        GTD2,
        GTD2MP,
        HTD,
        L1TD,
        LARSTD,
        LCPTD,
        LSTD,
        LSTDL1,
        OMPTD,
        RALP,
        ROGQ,
        ROTD,
        TD,
        TDC,
        TDCMP,
        TDRC,
        DantzigLSTD,
        DivergenceWarning,
        LinearTD,
        MirrorDescentTD,
        ROTDLasso,
        TDScorer,
        ValueFunction,
    )
    from sparsetd.transitions import Transitions

# Where each public name lives, in the order of the data flow.
_HOMES = {
    "sparsetd": (
        "features",
        "operators",
        "penalties",
        "solvers",
        "metrics",
        "problems",
        "control",
        "selection",
        "checks",
    ),
    "sparsetd.transitions": ("Transitions",),
    "sparsetd.estimators": (
        "ETD",
        "GQ",
        "GTD",
        "GTD2",
        "GTD2MP",
        "HTD",
        "L1TD",
        "LSTD",
        "ROGQ",
        "ROTD",
        "TD",
        "TDC",
        "TDCMP",
        "TDRC",
        "LARSTD",
        "LCPTD",
        "DantzigLSTD",
        "LSTDL1",
        "OMPTD",
        "RALP",
        "DivergenceWarning",
        "LinearTD",
        "MirrorDescentTD",
        "ROTDLasso",
        "TDScorer",
        "ValueFunction",
    ),
    "sparsetd.checks": ("check_td_estimator",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "ETD",
    "GQ",
    "GTD",
    "GTD2",
    "GTD2MP",
    "HTD",
    "L1TD",
    "LARSTD",
    "LCPTD",
    "LSTD",
    "LSTDL1",
    "OMPTD",
    "RALP",
    "ROGQ",
    "ROTD",
    "TD",
    "TDC",
    "TDCMP",
    "TDRC",
    "DantzigLSTD",
    "DivergenceWarning",
    "LinearTD",
    "MirrorDescentTD",
    "ROTDLasso",
    "TDScorer",
    "Transitions",
    "ValueFunction",
    "check_td_estimator",
    "checks",
    "control",
    "features",
    "metrics",
    "operators",
    "penalties",
    "problems",
    "selection",
    "solvers",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'sparsetd' has no attribute {name!r}")
    home = _HOME_OF[name]
    value = import_module(f"sparsetd.{name}") if home == "sparsetd" else getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOME_OF])
