"""Solvers with step sizes set by hand: the stochastic iterations, the paper's saddle point, and their Mirror-Prox."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from sparsetd.solvers.compiled.rules import Fixed
from sparsetd.solvers.stream import Average, FitNorm, Schedule, Streaming
from sparsetd.system import Array


@dataclass(frozen=True)
class PowerDecay:
    """Lets the step size fall as a power of the number of steps: for solvers whose steps are set by hand.

    α_t = scale / (1 + t/horizon)^power: power 1/2 and 1 are the usual decays.

    Proposition 1 needs Σα = ∞ and Σα² < ∞ (power in (½, 1]); a constant step reaches an O(α) neighbourhood only.

    See also `Stochastic`, which takes it as `step_size`.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsetd.solvers import PowerDecay
    >>> PowerDecay(0.1, horizon=100.0, power=1.0)(np.array([0, 100, 300]))
    array([0.1  , 0.05 , 0.025])
    """

    scale: float
    horizon: float = 1000.0
    power: float = 0.5

    def __call__(self, t: Array) -> Array:
        return np.asarray(self.scale / (1.0 + t / self.horizon) ** self.power)


@dataclass(frozen=True)
class HandSet(Streaming):
    """The base of the solvers whose step size is set by hand."""

    step_size: float | Schedule = 0.01
    average: Average = "all"
    radius: float = np.inf

    def rule(self, size: int) -> Any:
        del size
        return Fixed()


@dataclass(frozen=True)
class Stochastic(HandSet):
    """Takes each method's own stochastic step, followed by a proximal step, with step sizes that are set by hand.

    x ← prox_{αh}(x − α(A_t x − b_t)): each method's own update, with a proximal step.

    The last iterate is reported unless an average is asked for.

    See also `DistanceOverGradients`: the same steps, with automatic sizes.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsetd import LinearTD, solvers
    >>> from sparsetd.problems import random_mdp
    >>> mdp = random_mdp(np.random.default_rng(0), n_features=10, n_relevant=2)
    >>> rows = mdp.sample(2000, np.random.default_rng(1))
    >>> model = LinearTD(gamma=0.9, solver=solvers.Stochastic(0.05, average='all'))
    >>> model = model.fit(rows.phi, rows.reward, rows.phi_next)
    >>> np.sort(np.abs(model.coef_).argsort()[-2:]), np.flatnonzero(mdp.theta_star)
    (array([4, 5]), array([4, 5]))
    """

    average: Average = "none"


@dataclass(frozen=True)
class PrimalDual(HandSet):
    """Takes the saddle-point steps of RO-TD, with step sizes that are set by hand.

    min_x max_{‖y‖_n ≤ 1} yᵀ(Ax − b) + h(x) by x ← prox_{αh}(x − αA_tᵀy), y ← Π_n(y + α(A_t x − b_t)) (`eq:RO-TD`).

    Both steps use the old point. `fit_norm` is m. The dual ball has the conjugate exponent n, and Π_n is the true
    Euclidean projection. The paper's radial scaling equals it only for n = 2; for n = 1 it leads to the wrong point.

    See also `SaddleMirrorProx`: the same saddle point with trial steps; `SaddleDistanceOverGradients`: the same with
    automatic sizes.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsetd import LinearTD, penalties, solvers
    >>> from sparsetd.problems import random_mdp
    >>> mdp = random_mdp(np.random.default_rng(0), n_features=10, n_relevant=2)
    >>> rows = mdp.sample(2000, np.random.default_rng(1))
    >>> model = LinearTD(gamma=0.9, penalty=penalties.L1(0.01), solver=solvers.PrimalDual(0.05))
    >>> model = model.fit(rows.phi, rows.reward, rows.phi_next)
    >>> np.sort(np.abs(model.coef_).argsort()[-2:]), np.flatnonzero(mdp.theta_star)
    (array([4, 5]), array([4, 5]))
    """

    fit_norm: FitNorm = 2

    saddle: ClassVar[bool] = True


@dataclass(frozen=True)
class MirrorDescent(HandSet):
    """Takes the stochastic steps in the mirror image of a p-norm, which suits many features if only few matter.

    ∇ψ(x⁺) = S_{αρ}(∇ψ(x) − α(A_t x − b_t)) with ψ = ½‖·‖_q², q = p/(p − 1), block by block.

    With an l1 penalty the soft threshold in the mirror image is the exact composite step. p = 2 is the Euclidean step.

    See also `MirrorProx`: the same with trial steps; `Stochastic`: the same in Euclidean space.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsetd import LinearTD, penalties, solvers
    >>> from sparsetd.problems import random_mdp
    >>> mdp = random_mdp(np.random.default_rng(0), n_features=10, n_relevant=2)
    >>> rows = mdp.sample(2000, np.random.default_rng(1))
    >>> model = LinearTD(gamma=0.9, penalty=penalties.L1(0.01), solver=solvers.MirrorDescent(0.05, p=4.0))
    >>> model = model.fit(rows.phi, rows.reward, rows.phi_next)
    >>> np.sort(np.abs(model.coef_).argsort()[-2:]), np.flatnonzero(mdp.theta_star)
    (array([4, 5]), array([4, 5]))
    """

    p: float = 2.0


@dataclass(frozen=True)
class MirrorProx(MirrorDescent):
    """Takes a trial step first and uses the gradient found there, which calms methods that circle their solution.

    The trial step leads from x to x_m, and the step from x to x⁺ with the gradient at x_m, both on the same row.

    The points x_m are averaged. On the residual operator A_t x − b_t this gives GTD2-MP and TDC-MP.

    See also `SaddleMirrorProx`: the same on the saddle point of RO-TD.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsetd import LinearTD, solvers
    >>> from sparsetd.problems import random_mdp
    >>> mdp = random_mdp(np.random.default_rng(0), n_features=10, n_relevant=2)
    >>> rows = mdp.sample(2000, np.random.default_rng(1))
    >>> model = LinearTD(gamma=0.9, operator='gtd2', solver=solvers.MirrorProx(0.02))
    >>> model = model.fit(rows.phi, rows.reward, rows.phi_next)
    >>> np.sort(np.abs(model.coef_).argsort()[-2:]), np.flatnonzero(mdp.theta_star)
    (array([4, 5]), array([4, 5]))
    """

    extragradient = True


@dataclass(frozen=True)
class SaddleMirrorProx(PrimalDual):
    """Takes the saddle-point steps of RO-TD with a trial step before each, so that they circle less.

    Mirror-Prox on min_x max_{‖y‖_n ≤ 1} yᵀ(Ax − b) + h(x): RO-TD with an extragradient. `p` gives x a p-norm map.

    See also `PrimalDual`: the same saddle point without trial steps.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsetd import LinearTD, penalties, solvers
    >>> from sparsetd.problems import random_mdp
    >>> mdp = random_mdp(np.random.default_rng(0), n_features=10, n_relevant=2)
    >>> rows = mdp.sample(2000, np.random.default_rng(1))
    >>> model = LinearTD(gamma=0.9, penalty=penalties.L1(0.01), solver=solvers.SaddleMirrorProx(0.05))
    >>> model = model.fit(rows.phi, rows.reward, rows.phi_next)
    >>> np.sort(np.abs(model.coef_).argsort()[-2:]), np.flatnonzero(mdp.theta_star)
    (array([4, 5]), array([4, 5]))
    """

    p: float = 2.0

    extragradient = True


@dataclass(frozen=True)
class LeastSquaresSaddle(HandSet):
    """Minimises the squared residual plus an l1 penalty, as a saddle point in which the penalty is a dual box.

    min_x ½‖Ax − b‖² + ρ‖x‖₁ = min_x max_{|u_j| ≤ ρ, y} xᵀu + yᵀ(Ax − b) − ½‖y‖² (`eq:formula2` with its scaling
    mended).

    x ← x − α(u + A_tᵀy), y ← y + α(A_t x − b_t − y), u ← clip(u + αx, ±ρ) (`eq:ROTD2` in the variables ρu, ρy).

    See also `LeastSquaresDistanceOverGradients`: the same problem, with automatic sizes.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsetd import LinearTD, penalties, solvers
    >>> from sparsetd.problems import random_mdp
    >>> mdp = random_mdp(np.random.default_rng(0), n_features=10, n_relevant=2)
    >>> rows = mdp.sample(2000, np.random.default_rng(1))
    >>> model = LinearTD(gamma=0.9, penalty=penalties.L1(0.01), solver=solvers.LeastSquaresSaddle(0.02))
    >>> model = model.fit(rows.phi, rows.reward, rows.phi_next)
    >>> np.sort(np.abs(model.coef_).argsort()[-2:]), np.flatnonzero(mdp.theta_star)
    (array([4, 5]), array([4, 5]))
    """

    saddle: ClassVar[bool] = True
    boxed: ClassVar[bool] = True
    dual_damping: ClassVar[float] = 1.0
