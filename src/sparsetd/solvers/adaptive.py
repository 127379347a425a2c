"""Solvers that find their step sizes by distance over gradients, for the stochastic iterations and the saddle point."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from sparsetd.solvers.compiled import rules
from sparsetd.solvers.stream import BOX, FREE, Average, FitNorm, Streaming


@dataclass(frozen=True)
class Automatic(Streaming):
    """The base of the solvers that find their step sizes themselves."""

    average: Average = "suffix"
    radius: float = np.inf
    rescale: bool = False

    start: ClassVar[float] = 1.0  # r_0 = start·max_t ‖A_t x − b_t‖/‖A_t‖
    cap: ClassVar[float] = np.inf  # α ≤ cap over the mean of the bounds of ‖A_t‖

    def rule(self, size: int) -> Any:
        return rules.DistanceOverGradients(float(self.start), float(self.cap), self.dual_radius(size))

    def dual_radius(self, size: int) -> float:
        """Return the l2 radius of the dual ball; 0 means that no ball bounds y, and that x and y share one step."""
        return {BOX: float(np.sqrt(size)), FREE: 0.0}.get(self.ball, 1.0)


@dataclass(frozen=True)
class DistanceOverGradients(Automatic):
    """Takes each method's stochastic step with automatic step sizes: the choice where nothing shall be tuned.

    x ← prox_{αh}(x − α_t(A_t x − b_t)) with α_t = max(r̄_t, r_0)/√Σ_{i≤t}‖g_i‖², r̄_t = max_{i≤t}‖x_i − x_0‖ (DoG).

    The distance moved so far estimates the distance to go, and r_0 = max_t ‖A_t x − b_t‖/‖A_t‖ starts it. Both have the
    units of x, so the iterates follow a change of the units of rewards or features exactly. The factor in front of α_t
    is 1. On a monotone operator ‖x_{t+1} − x*‖² ≤ ‖x_t − x*‖² + r̄_t²‖g_t‖²/Σ‖g_i‖², so x then grows by no fixed factor
    per step; with a factor of 2 the stochastic iterations of skew operators (GTD2) do. Two bounds matter where there is
    hardly any noise to hold α down. It stays below 2 over the mean of the bounds ‖M‖(‖φ‖² + ‖ψ‖² + ‖e‖ max(‖φ‖, ‖ψ‖))
    of ‖A_t‖, which are loose by a factor of about 3. It also stays below 3 over the bound of its row, so that no step
    does more than solve its row.

    The average weights the iterates by α_t. It runs over all rows, or over the last quarter to half of them ("suffix").
    With `extragradient` the gradient is taken at a trial point (on the same row), and the trial points are averaged.
    Without a penalty, `rescale` finds units for features of very different sizes (see `found_units`).

    See also `Stochastic`: the same steps, with sizes that are set by hand.

    References
    ----------
    Ivgi, Hinder & Carmon (2023), DoG is SGD's best friend: a parameter-free dynamic step size schedule.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsetd import LinearTD, solvers
    >>> from sparsetd.problems import random_mdp
    >>> mdp = random_mdp(np.random.default_rng(0), n_features=10, n_relevant=2)
    >>> rows = mdp.sample(2000, np.random.default_rng(1))
    >>> model = LinearTD(gamma=0.9, solver=solvers.DistanceOverGradients())
    >>> model = model.fit(rows.phi, rows.reward, rows.phi_next)
    >>> np.sort(np.abs(model.coef_).argsort()[-2:]), np.flatnonzero(mdp.theta_star)
    (array([4, 5]), array([4, 5]))
    """

    extragradient: bool = False

    cap: ClassVar[float] = 2.0


@dataclass(frozen=True)
class SaddleDistanceOverGradients(DistanceOverGradients):
    """Takes the saddle-point steps of RO-TD with trial points and automatic step sizes.

    min_x max_{‖y‖_n ≤ 1} yᵀ(Ax − b) + h(x): extragradient steps, x by distance over gradients, y by R/√Σ‖g_y‖².

    R is the l2 radius of the dual ball, which is known. Without the trial point the iteration circles the saddle point
    and r̄ mistakes the radius of that circle for the distance to go. The steps fall as 1/√t, and with them the bias
    that comes from using each row twice.

    See also `PrimalDual`: the same saddle point, with sizes that are set by hand.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsetd import LinearTD, penalties, solvers
    >>> from sparsetd.problems import random_mdp
    >>> mdp = random_mdp(np.random.default_rng(0), n_features=10, n_relevant=2)
    >>> rows = mdp.sample(2000, np.random.default_rng(1))
    >>> model = LinearTD(gamma=0.9, penalty=penalties.L1(0.01), solver=solvers.SaddleDistanceOverGradients())
    >>> model = model.fit(rows.phi, rows.reward, rows.phi_next)
    >>> np.sort(np.abs(model.coef_).argsort()[-2:]), np.flatnonzero(mdp.theta_star)
    (array([4, 5]), array([4, 5]))
    """

    average: Average = "all"
    extragradient: bool = True
    fit_norm: FitNorm = 2

    saddle: ClassVar[bool] = True
    start: ClassVar[float] = 0.3
    cap: ClassVar[float] = np.inf  # y is bounded, so α multiplies a number in the units of ‖A_t‖, not of ‖A_t‖‖x‖


@dataclass(frozen=True)
class LeastSquaresDistanceOverGradients(DistanceOverGradients):
    """Minimises the squared residual plus a penalty by saddle-point steps with automatic step sizes.

    min_x max_y yᵀ(Ax − b) − ½‖y‖² + h(x) = min_x ½‖Ax − b‖² + h(x): one step for x and y, since no ball bounds y.

    An l1 penalty enters by its prox: the problem of `eq:formula2` without its box.

    See also `LeastSquaresSaddle`: the same problem, with sizes that are set by hand.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsetd import LinearTD, penalties, solvers
    >>> from sparsetd.problems import random_mdp
    >>> mdp = random_mdp(np.random.default_rng(0), n_features=10, n_relevant=2)
    >>> rows = mdp.sample(2000, np.random.default_rng(1))
    >>> model = LinearTD(gamma=0.9, penalty=penalties.L1(0.01), solver=solvers.LeastSquaresDistanceOverGradients())
    >>> model = model.fit(rows.phi, rows.reward, rows.phi_next)
    >>> np.sort(np.abs(model.coef_).argsort()[-2:]), np.flatnonzero(mdp.theta_star)
    (array([4, 5]), array([4, 5]))
    """

    average: Average = "all"
    extragradient: bool = True

    saddle: ClassVar[bool] = True
    dual_damping: ClassVar[float] = 1.0
    cap: ClassVar[float] = np.inf
