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
from sparsetd.solvers.lars import Lars
from sparsetd.solvers.lcp import Lcp
from sparsetd.solvers.least_squares import LeastSquares
from sparsetd.solvers.least_squares_saddle import LeastSquaresSaddle
from sparsetd.solvers.lstd_l1 import LstdL1
from sparsetd.solvers.mirror_prox import MirrorDescent, MirrorProx, SaddleMirrorProx
from sparsetd.solvers.omp import Omp
from sparsetd.solvers.primal_dual import PrimalDual
from sparsetd.solvers.ralp import Ralp
from sparsetd.solvers.schedules import PowerDecay
from sparsetd.solvers.stochastic import Stochastic

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
