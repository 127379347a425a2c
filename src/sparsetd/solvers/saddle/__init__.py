"""The certified batch solver: min_x ‖Ax − b‖_m + h(x) on the mean system, with a duality gap.

linear        A as something to multiply with          columns      the few columns that are needed, compressed
norms         F = c‖·‖_m and its dual ball             terms        the penalty as numbers, with its conjugate
certificate   P(x) − D(y) for any pair                 working_set  few features, proved on all
newton        semismooth Newton, full accuracy         pdhg         first-order steps, nothing factorised
polish        closed form on the support               sign_search  the support, one feature at a time
path          many weights of the penalty              refit        LSTD on the support
solve         all of it                                solver       the same in the solvers' protocol
"""

from __future__ import annotations

from sparsetd.solvers.saddle.certificate import Point, Problem
from sparsetd.solvers.saddle.columns import Columns
from sparsetd.solvers.saddle.linear import ByFold, Linear, Matrix, mean_operator
from sparsetd.solvers.saddle.norms import RMSPBE, FitNorm, without_w
from sparsetd.solvers.saddle.path import Family, rho_grid
from sparsetd.solvers.saddle.refit import refit, selected_rows
from sparsetd.solvers.saddle.solve import Outcome, solve
from sparsetd.solvers.saddle.solver import Saddle
from sparsetd.solvers.saddle.terms import Terms
from sparsetd.solvers.saddle.units import Units, whitened

__all__ = [
    "RMSPBE",
    "ByFold",
    "Columns",
    "Family",
    "FitNorm",
    "Linear",
    "Matrix",
    "Outcome",
    "Point",
    "Problem",
    "Saddle",
    "Terms",
    "Units",
    "mean_operator",
    "refit",
    "rho_grid",
    "selected_rows",
    "solve",
    "whitened",
    "without_w",
]
