"""How the system is solved. Every solver streams: init → update → result."""

from __future__ import annotations

from sparsetd.solvers.adaptive import (
    DistanceOverGradients,
    LeastSquaresDistanceOverGradients,
    SaddleDistanceOverGradients,
)
from sparsetd.solvers.coin_betting import CoinBetting
from sparsetd.solvers.dual_averaging import DualAveraging
from sparsetd.solvers.least_squares import LeastSquares
from sparsetd.solvers.least_squares_saddle import LeastSquaresSaddle
from sparsetd.solvers.mirror_prox import MirrorDescent, MirrorProx, SaddleMirrorProx
from sparsetd.solvers.primal_dual import PrimalDual
from sparsetd.solvers.schedules import PowerDecay
from sparsetd.solvers.stochastic import Stochastic

__all__ = [
    "CoinBetting",
    "DistanceOverGradients",
    "DualAveraging",
    "LeastSquares",
    "LeastSquaresDistanceOverGradients",
    "LeastSquaresSaddle",
    "MirrorDescent",
    "MirrorProx",
    "PowerDecay",
    "PrimalDual",
    "SaddleDistanceOverGradients",
    "SaddleMirrorProx",
    "Stochastic",
]
