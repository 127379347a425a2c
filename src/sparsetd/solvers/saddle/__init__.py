"""The certified batch solver: min_x ‖Ax − b‖_m + h(x) on the mean system, with a duality gap.

problem   F = c‖·‖_m, the penalty as numbers, and the gap P(x) − D(y) of any pair
newton    few features by Newton steps to full accuracy, proved on all
support   the closed form on a support, and the search for it
pdhg      first-order steps, nothing factorised
solver    all of it, for one weight of the penalty or for many, and in the solvers' protocol
scaling   one scale for all columns, and the metric of C
"""

from __future__ import annotations

from sparsetd._tools.lazy_names import lazily

__getattr__, __dir__, __all__ = lazily(__name__, __file__)
