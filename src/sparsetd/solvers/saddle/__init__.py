"""The certified batch solver: min_x ‖Ax − b‖_m + h(x) on the mean system, with a duality gap.

problem   F = c‖·‖_m, the penalty as numbers, and the gap P(x) − D(y) of any pair
newton    few features by Newton steps to full accuracy, proved on all
support   the closed form on a support, and the search for it
pdhg      first-order steps, nothing factorised
solver    all of it, for one weight of the penalty or for many, and in the solvers' protocol
units     one scale for all columns, and the metric of C
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sparsetd._tools.lazy_names import lazily

if TYPE_CHECKING:
    from sparsetd.solvers.saddle.problem import *
    from sparsetd.solvers.saddle.solver import *
    from sparsetd.solvers.saddle.units import *

__getattr__, __dir__, __all__ = lazily(
    __name__,
    {
        "problem": "RMSPBE FitNorm Point Problem Terms without_w",
        "solver": "SUPPORT_TOLERANCE Family Saddle rho_grid solve",
        "units": "Units inverse_root whitened",
    },
)
