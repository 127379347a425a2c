"""What people import: scikit-learn estimators, each a triple operator × penalty × solver."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sparsetd.estimators.base import BaseTD, DivergenceWarning
from sparsetd.estimators.fit_stream import fit_stream
from sparsetd.estimators.gradient_td import GQ, GTD, GTD2, GTD2MP, HTD, PFGTD, TDC, TDCMP, TDRC
from sparsetd.estimators.lasso_td import LARSTD, LCPTD, OMPTD
from sparsetd.estimators.linear_td import LinearTD
from sparsetd.estimators.lstd import LSTD, LSTDL1, RALP, DantzigLSTD
from sparsetd.estimators.rotd import RDATD, ROGQ, ROTD, ROTDLasso
from sparsetd.estimators.scorer import TDScorer
from sparsetd.estimators.sparse_td import SparseTD
from sparsetd.estimators.td import ETD, L1TD, TD, MirrorDescentTD

if TYPE_CHECKING:
    from sparsetd.estimators.value_function import ValueFunction

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
    "PFGTD",
    "RALP",
    "RDATD",
    "ROGQ",
    "ROTD",
    "TD",
    "TDC",
    "TDCMP",
    "TDRC",
    "BaseTD",
    "DantzigLSTD",
    "DivergenceWarning",
    "LinearTD",
    "MirrorDescentTD",
    "ROTDLasso",
    "SparseTD",
    "TDScorer",
    "ValueFunction",
    "fit_stream",
]


def __getattr__(name: str) -> Any:
    """`ValueFunction` comes when it is first asked for: the feature maps that it needs take as long as all the rest."""
    if name != "ValueFunction":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from sparsetd.estimators.value_function import ValueFunction

    return ValueFunction
