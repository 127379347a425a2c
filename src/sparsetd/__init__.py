"""Sparse, off-policy-convergent linear value learning, in the order of the data flow."""

from __future__ import annotations

from sparsetd import features, metrics, operators, penalties, problems, solvers
from sparsetd.estimators import (
    ETD,
    GQ,
    GTD,
    GTD2,
    GTD2MP,
    HTD,
    L1TD,
    LSTD,
    ROGQ,
    ROTD,
    TD,
    TDC,
    TDCMP,
    TDRC,
    DivergenceWarning,
    LinearTD,
    MirrorDescentTD,
    ROTDLasso,
    ValueFunction,
)
from sparsetd.transitions import Transitions

__version__ = "0.1.0"

__all__ = [
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
    "DivergenceWarning",
    "LinearTD",
    "MirrorDescentTD",
    "ROTDLasso",
    "Transitions",
    "ValueFunction",
    "features",
    "metrics",
    "operators",
    "penalties",
    "problems",
    "solvers",
]
