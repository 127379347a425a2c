"""The certified batch solver: min_x ‖Ax − b‖_m + h(x) on the mean system, with a duality gap.

columns   the columns of A that a working set needs
problem   F = c‖·‖_m, the penalty as numbers, and the gap P(x) − D(y) of any pair
newton    few features by Newton steps to full accuracy, proved on all
support   the closed form on a support, and the search for it
pdhg      first-order steps, nothing factorised
solve     all of it, for one weight of the penalty or for many
solver    the same in the solvers' protocol
units     one scale for all columns, and the metric of C
"""

from __future__ import annotations

from sparsetd.solvers.mean import Linear, Matrix, mean_operator, refit, selected_rows
from sparsetd.solvers.saddle.columns import Columns
from sparsetd.solvers.saddle.problem import RMSPBE, FitNorm, Point, Problem, Terms, without_w
from sparsetd.solvers.saddle.solve import SUPPORT_TOLERANCE, Family, Outcome, rho_grid, solve
from sparsetd.solvers.saddle.solver import Saddle
from sparsetd.solvers.saddle.units import Units, whitened

__all__ = [
    "RMSPBE",
    "SUPPORT_TOLERANCE",
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
