"""Solvers find the weights that satisfy the linear system of a method, row by row or all at once.

Every solver streams: init → update → result.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sparsetd._tools.lazy_names import lazily

if TYPE_CHECKING:
    from sparsetd.solvers.adaptive import *
    from sparsetd.solvers.coin_betting import *
    from sparsetd.solvers.dual_averaging import *
    from sparsetd.solvers.hand_set import *
    from sparsetd.solvers.least_squares import *
    from sparsetd.solvers.linear_program import *
    from sparsetd.solvers.path_following import *

__getattr__, __dir__, __all__ = lazily(
    __name__,
    {
        "adaptive": "DistanceOverGradients LeastSquaresDistanceOverGradients SaddleDistanceOverGradients",
        "coin_betting": "CoinBetting",
        "dual_averaging": "DualAveraging",
        "hand_set": "LeastSquaresSaddle MirrorDescent MirrorProx PowerDecay PrimalDual SaddleMirrorProx Stochastic",
        "least_squares": "LeastSquares",
        "linear_program": "Dantzig Ralp",
        "path_following": "Lars Lcp LstdL1 Omp",
    },
)
