"""What type checkers see of `sparsetd.solvers.saddle`, and where its public names are found when first used."""

from sparsetd.solvers.saddle.problem import RMSPBE as RMSPBE
from sparsetd.solvers.saddle.problem import FitNorm as FitNorm
from sparsetd.solvers.saddle.problem import Point as Point
from sparsetd.solvers.saddle.problem import Problem as Problem
from sparsetd.solvers.saddle.problem import Terms as Terms
from sparsetd.solvers.saddle.problem import without_w as without_w
from sparsetd.solvers.saddle.scaling import Units as Units
from sparsetd.solvers.saddle.scaling import inverse_root as inverse_root
from sparsetd.solvers.saddle.scaling import whitened as whitened
from sparsetd.solvers.saddle.solver import SUPPORT_TOLERANCE as SUPPORT_TOLERANCE
from sparsetd.solvers.saddle.solver import Family as Family
from sparsetd.solvers.saddle.solver import Saddle as Saddle
from sparsetd.solvers.saddle.solver import rho_grid as rho_grid
from sparsetd.solvers.saddle.solver import solve as solve
