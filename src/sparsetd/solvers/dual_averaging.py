"""Regularised dual averaging on the saddle point: every iterate is truly sparse."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from sparsetd.solvers import plain
from sparsetd.solvers.adaptive import Automatic
from sparsetd.solvers.compiled.rules import Averaging
from sparsetd.solvers.state import StreamState
from sparsetd.solvers.stream import FitNorm, System
from sparsetd.system import Array


@dataclass(frozen=True)
class DualAveraging(Automatic):
    """Computes each point from the sums of all gradients, so that every iterate of the saddle point is truly sparse.

    min_x max_{‖y‖_n ≤ 1} yᵀ(Ax − b) + h(x), where the point is a function of the sums of all gradients:

        x = argmin ⟨Σa_i g_x, x⟩ + Σa_i h(x) + ½√Σ‖g_x‖² ‖x − x_0‖²      y = Π(R Σa_i g_y / √Σa_i²‖g_y‖²)

    with a_i = max(r̄_i, r_0) and gradients at trial points, which include the gradient of the row itself (dual
    extrapolation). The threshold Σa_i ρ grows as fast as the sum of gradients. From x_0 = 0 a coordinate is therefore
    exactly zero unless its *mean* gradient exceeds ρ. A proximal step only takes off αρ each time.

    The average of sparse points is not sparse. With `sparse` it is reported with zeros where the points it averages
    were zero for at least half of the weight; average='none' reports the last point as it is.

    See also `SaddleDistanceOverGradients`: the same saddle point by proximal steps.

    References
    ----------
    Xiao (2010), Dual averaging methods for regularized stochastic learning and online optimization.
    Nesterov (2007), Dual extrapolation and its applications to solving variational inequalities and related problems.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsetd import LinearTD, penalties, solvers
    >>> from sparsetd.problems import random_mdp
    >>> mdp = random_mdp(np.random.default_rng(0), n_features=10, n_relevant=2)
    >>> rows = mdp.sample(2000, np.random.default_rng(1))
    >>> model = LinearTD(gamma=0.9, penalty=penalties.L1(0.01), solver=solvers.DualAveraging())
    >>> model = model.fit(rows.phi, rows.reward, rows.phi_next)
    >>> np.sort(np.abs(model.coef_).argsort()[-2:]), np.flatnonzero(mdp.theta_star)
    (array([4, 5]), array([4, 5]))
    """

    fit_norm: FitNorm = 2
    sparse: bool = True

    family = "averaging"
    saddle: ClassVar[bool] = True
    start: ClassVar[float] = 0.3

    def rule(self, size: int) -> Any:
        del size
        return Averaging(self.start)

    def more(self, x: Array) -> dict[str, Array]:
        return {name: np.zeros(x.shape, x.dtype) for name in ("sum_x", "sum_y", "share", "earlier_share")}

    def point_of(
        self, state: StreamState, system: System, sums: tuple[Array, Array], squares: tuple[float, float], mass: float
    ) -> tuple[Array, Array]:
        """Return x and y of the sums of gradients, their squares and their weights."""
        first, root, x = 2 - system.table.n_blocks, np.sqrt(squares[0]), state.origin
        weigh = mass * (1.0 if system.factor is None else system.factor)
        if root > 0:  # else there has been no gradient yet
            l1, l2 = (part[first:2, None] * weigh / root for part in (system.fixed.l1, system.fixed.l2))
            x = x - sums[0] / root
            x = (x - np.clip(x, -l1, l1)) / (1.0 + l2)
        scale = plain.over_root(self.dual_radius(state.x.size), squares[1])
        return plain.within(x, self.radius), plain.projected(scale * sums[1], self.fit_norm)

    def _averaged(self, state: StreamState, last: Array, dual: Array | None) -> tuple[Array, Array | None]:
        x, y = super()._averaged(state, last, dual)
        if self.average == "none" or not self.sparse:
            return x, y
        weight, share = state.totals.weight + state.earlier.weight, state.more["share"] + state.more["earlier_share"]
        # Equal weights make exact ties common; rounding must not decide them.
        return np.where(2.0 * share > (1.0 + 1e-9) * weight, x, 0.0).astype(x.dtype), y
