"""What people import: scikit-learn estimators, each a triple operator × penalty × solver."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sparsetd.estimators.base import BaseTD, DivergenceWarning
from sparsetd.estimators.dantzig_lstd import DantzigLSTD
from sparsetd.estimators.etd import ETD
from sparsetd.estimators.fit_stream import fit_stream
from sparsetd.estimators.gq import GQ
from sparsetd.estimators.gtd import GTD
from sparsetd.estimators.gtd2 import GTD2
from sparsetd.estimators.gtd2mp import GTD2MP
from sparsetd.estimators.htd import HTD
from sparsetd.estimators.l1td import L1TD
from sparsetd.estimators.lars_td import LARSTD
from sparsetd.estimators.lcp_td import LCPTD
from sparsetd.estimators.linear_td import LinearTD
from sparsetd.estimators.lstd import LSTD
from sparsetd.estimators.lstd_l1 import LSTDL1
from sparsetd.estimators.mirror_descent_td import MirrorDescentTD
from sparsetd.estimators.omp_td import OMPTD
from sparsetd.estimators.pfgtd import PFGTD
from sparsetd.estimators.ralp import RALP
from sparsetd.estimators.rdatd import RDATD
from sparsetd.estimators.rogq import ROGQ
from sparsetd.estimators.rotd import ROTD
from sparsetd.estimators.rotd_lasso import ROTDLasso
from sparsetd.estimators.scorer import TDScorer
from sparsetd.estimators.sparse_td import SparseTD
from sparsetd.estimators.td import TD
from sparsetd.estimators.tdc import TDC
from sparsetd.estimators.tdcmp import TDCMP
from sparsetd.estimators.tdrc import TDRC

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
