"""What type checkers see of `sparsetd.solvers`, and where its public names are found when they are first used."""

from sparsetd.solvers.adaptive import DistanceOverGradients as DistanceOverGradients
from sparsetd.solvers.adaptive import LeastSquaresDistanceOverGradients as LeastSquaresDistanceOverGradients
from sparsetd.solvers.adaptive import SaddleDistanceOverGradients as SaddleDistanceOverGradients
from sparsetd.solvers.coin_betting import CoinBetting as CoinBetting
from sparsetd.solvers.dual_averaging import DualAveraging as DualAveraging
from sparsetd.solvers.hand_set import LeastSquaresSaddle as LeastSquaresSaddle
from sparsetd.solvers.hand_set import MirrorDescent as MirrorDescent
from sparsetd.solvers.hand_set import MirrorProx as MirrorProx
from sparsetd.solvers.hand_set import PowerDecay as PowerDecay
from sparsetd.solvers.hand_set import PrimalDual as PrimalDual
from sparsetd.solvers.hand_set import SaddleMirrorProx as SaddleMirrorProx
from sparsetd.solvers.hand_set import Stochastic as Stochastic
from sparsetd.solvers.least_squares import LeastSquares as LeastSquares
from sparsetd.solvers.linear_program import Dantzig as Dantzig
from sparsetd.solvers.linear_program import Ralp as Ralp
from sparsetd.solvers.path_following import Lars as Lars
from sparsetd.solvers.path_following import Lcp as Lcp
from sparsetd.solvers.path_following import LstdL1 as LstdL1
from sparsetd.solvers.path_following import Omp as Omp
