"""The public estimators: scikit-learn estimators, each a triple operator × penalty × solver."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sparsetd._tools.lazy_names import lazily
from sparsetd.estimators.fit_stream import fit_stream as fit_stream  # its module has the same name

if TYPE_CHECKING:
    from sparsetd.estimators.base import *
    from sparsetd.estimators.gradient_td import *
    from sparsetd.estimators.lasso_td import *
    from sparsetd.estimators.linear_td import *
    from sparsetd.estimators.lstd import *
    from sparsetd.estimators.rotd import *
    from sparsetd.estimators.scorer import *
    from sparsetd.estimators.sparse_td import *
    from sparsetd.estimators.td import *
    from sparsetd.estimators.value_function import *

__getattr__, __dir__, names = lazily(
    __name__,
    {
        "base": "BaseTD DivergenceWarning",
        "fit_stream": "fit_stream",
        "gradient_td": "GQ GTD GTD2 GTD2MP HTD PFGTD TDC TDCMP TDRC",
        "lasso_td": "LARSTD LCPTD OMPTD",
        "linear_td": "LinearTD",
        "lstd": "LSTD LSTDL1 RALP DantzigLSTD",
        "rotd": "RDATD ROGQ ROTD ROTDLasso",
        "scorer": "TDScorer",
        "sparse_td": "SparseTD",
        "td": "ETD L1TD TD MirrorDescentTD",
        "value_function": "ValueFunction",
    },
)
__all__ = [*names, "fit_stream"]
