"""How the system is solved. Every solver streams: init → update → result."""

from __future__ import annotations

from sparsetd.solvers.adaptive import (
    DistanceOverGradients,
    LeastSquaresDistanceOverGradients,
    SaddleDistanceOverGradients,
)
from sparsetd.solvers.coin_betting import CoinBetting
from sparsetd.solvers.dantzig import Dantzig
from sparsetd.solvers.dual_averaging import DualAveraging
from sparsetd.solvers.hand_set import (
    LeastSquaresSaddle,
    MirrorDescent,
    MirrorProx,
    PrimalDual,
    SaddleMirrorProx,
    Stochastic,
)
from sparsetd.solvers.lars import Lars
from sparsetd.solvers.lcp import Lcp
from sparsetd.solvers.least_squares import LeastSquares
from sparsetd.solvers.lstd_l1 import LstdL1
from sparsetd.solvers.omp import Omp
from sparsetd.solvers.ralp import Ralp
from sparsetd.solvers.schedules import PowerDecay

__all__ = [
    "CoinBetting",
    "Dantzig",
    "DistanceOverGradients",
    "DualAveraging",
    "Lars",
    "Lcp",
    "LeastSquares",
    "LeastSquaresDistanceOverGradients",
    "LeastSquaresSaddle",
    "LstdL1",
    "MirrorDescent",
    "MirrorProx",
    "Omp",
    "PowerDecay",
    "PrimalDual",
    "Ralp",
    "SaddleDistanceOverGradients",
    "SaddleMirrorProx",
    "Stochastic",
]
