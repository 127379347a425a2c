"""The public estimators: scikit-learn estimators, each a triple operator × penalty × solver."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sparsetd._tools.lazy_names import lazily
from sparsetd.estimators.fit_stream import fit_stream as fit_stream  # its module has the same name

if TYPE_CHECKING:
    from sparsetd.estimators.base import *
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
        "linear_td": "LinearTD",
        "lstd": "LARSTD LCPTD LSTD LSTDL1 OMPTD RALP DantzigLSTD",
        "rotd": "RDATD ROGQ ROTD ROTDLasso",
        "scorer": "TDScorer",
        "sparse_td": "SparseTD",
        "td": "ETD GQ GTD GTD2 GTD2MP HTD L1TD PFGTD TD TDC TDCMP TDRC MirrorDescentTD",
        "value_function": "ValueFunction",
    },
)
__all__ = [*names, "fit_stream"]
