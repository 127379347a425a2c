"""GQ(λ) and RO-GQ(λ) one step at a time: what `EstimatorLearner` learns with `GQ` and `ROGQ`, faster.

They also have what the experiments need besides: a step for every feature (the Fourier basis is often given α/‖c‖), the
largest step that overshoots in no row, and an average that forgets.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Literal

import numpy as np

from sparsetd.control import Step
from sparsetd.control.learners import action_values
from sparsetd.operators import gq
from sparsetd.system import Array, adjoint, residual

Acting = Literal["last", "average", "exponential"]


@dataclass
class _TableLearner:
    """What both learners share: the table of GQ(λ) on stacked features, a trace, and steps that may shorten.

    `step_size` is α, or one α for every state feature (the Fourier basis is often given α/‖c‖), or "auto": `_share` of
    the largest α at which no step so far would have overshot, min_t 1/|e_tᵀ(φ_t − γφ̄_t)|.
    """

    n_actions: int
    n_features: int
    gamma: float
    lam: float = 0.0
    step_size: float | Array | Literal["auto"] = 0.01
    eta: float = 1.0
    x: Array = field(init=False)
    y: Array = field(init=False)
    _share: ClassVar[float]
    _saddle: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if isinstance(self.step_size, str) and self.step_size != "auto":
            raise ValueError(
                f"`step_size` is {self.step_size!r}: pass a positive number, one for each feature, or 'auto'."
            )
        first = 1.0 if isinstance(self.step_size, str) else np.asarray(self.step_size, dtype=float)
        self._step = np.tile(np.broadcast_to(first, self.n_features), self.n_actions)
        self._trace, self._into = np.zeros(len(self._step)), 0.0
        self.x, self.y = np.zeros((2, 2, self.n_actions, self.n_features))
        self._table, self._rho = gq(self.eta, self.lam), np.zeros((2, 1))

    @property
    def w(self) -> Array:
        return self.x[0]

    @property
    def theta(self) -> Array:
        """The weights that choose actions."""
        return self.x[1]

    def values(self, phi: Array) -> Array:
        return action_values(self.theta, phi)

    def begin(self) -> None:
        self._into = 0.0

    def update(self, step: Step) -> float:
        """Learn from one transition: move the trace, shorten "auto" steps, take the step. Returns the TD error."""
        phi, psi, e = rows = self._stacked(step)
        if isinstance(self.step_size, str):  # with a share above 1 the step takes this row's TD error beyond zero
            overshoot = abs(e @ phi - e @ psi)
            np.minimum(self._step, self._share / max(overshoot, 1e-300), out=self._step)
        x, y = self.x.reshape(2, -1), self.y.reshape(2, -1)
        r, error = residual(self._table, x, rows, step.reward), step.reward + x[1] @ (psi - phi)
        slope = adjoint(self._table, y, rows) if self._saddle else r
        x -= self._step * slope
        if self._rho.any():  # the prox is in the metric of the steps: α_j ρ is the threshold of feature j
            bound = self._rho * self._step
            x -= np.clip(x, -bound, bound)
        if self._saddle:
            y += self._step * r
            y /= max(1.0, float(np.linalg.norm(y)))
        return float(error)

    def _stacked(self, step: Step) -> Array:
        """(φ(s, a), ψ = Σ_a next_weight_a φ(s', a), e ← φ(s, a) + λγρ e), one block per action."""
        blocks = np.zeros((3, self.n_actions, self.n_features))
        blocks[0, step.action], blocks[1] = step.phi, np.outer(step.next_weight, step.phi_next)
        rows = blocks.reshape(3, -1)
        decay = self.lam * self._into * step.ratio
        rows[2] = rows[0] + decay * self._trace if decay != 0.0 else rows[0]  # 0 · ∞ is not 0
        self._trace, self._into = rows[2], self.gamma
        return rows


@dataclass
class GreedyGQ(_TableLearner):
    """Learns action values online by GQ(λ), a gradient method that is made for off-policy data.

    GQ(λ): θ += α(δe − γ(1−λ)(wᵀe)φ̄), w += ηα(δe − (wᵀφ)φ) (`eq:gq`).

    `step_size` is α, one for every state feature, or "auto", half of the largest at which no step would have overshot.

    See also `GreedyROGQ`: the same as a saddle point, with penalties; `online`: the loop that calls it.

    Examples
    --------
    >>> import numpy as np
    >>> from reproduction.online_learners import GreedyGQ
    >>> from sparsetd.control import Step
    >>> learner = GreedyGQ(n_actions=2, n_features=2, gamma=0.9, step_size=0.1)
    >>> phi, end = np.array([1.0, 0.0]), np.zeros(2)
    >>> for _ in range(200):
    ...     learner.begin()
    ...     _ = learner.update(Step(phi, 1, 1.0, end, next_weight=end, ratio=1.0))
    >>> learner.values(phi).round(3)
    array([0., 1.])
    """

    _share = 0.5


@dataclass
class GreedyROGQ(_TableLearner):
    """Learns sparse action values online by RO-GQ(λ), the saddle point of GQ(λ) with l1 penalties.

    RO-GQ(λ): x ← prox(x − αA_tᵀy), y ← Π(y + α(A_t x − b_t)) with the table of GQ(λ) (`eq:RO-TD`, `eq:gqAb`).

    `acting` says which weights choose actions: the last iterate, the average of all of them (the theory is
    about this one) or an exponential average that forgets with the rate `forgetting`. With `step_size="auto"`, which is
    a tenth of GQ's, act on an average: the last iterate of a saddle point circles.

    See also `GreedyGQ`: the same table without a saddle point; `online`: the loop that calls it.

    Examples
    --------
    >>> import numpy as np
    >>> from reproduction.online_learners import GreedyROGQ
    >>> from sparsetd.control import Step
    >>> learner = GreedyROGQ(n_actions=2, n_features=2, gamma=0.9, rho_theta=0.01, acting='average')
    >>> phi, end = np.array([1.0, 0.0]), np.zeros(2)
    >>> for _ in range(200):
    ...     learner.begin()
    ...     _ = learner.update(Step(phi, 1, 1.0, end, next_weight=end, ratio=1.0))
    >>> learner.values(phi).shape, int(learner.values(phi).argmax())
    ((2,), 1)
    """

    rho_theta: float = 0.0
    rho_w: float = 0.0
    acting: Acting = "last"
    forgetting: float = 0.001
    mean: Array = field(init=False)
    _share = 0.05
    _saddle = True

    def __post_init__(self) -> None:
        super().__post_init__()
        self._rho[:, 0] = self.rho_w, self.rho_theta
        self.mean, self._t = np.zeros((self.n_actions, self.n_features)), 0

    @property
    def theta(self) -> Array:
        """The weights that choose actions."""
        return self.x[1] if self.acting == "last" else self.mean

    def update(self, step: Step) -> float:
        delta = super().update(step)
        self._t += 1
        if self.acting != "last":
            # The average of x_0 … x_t has t + 1 terms.
            share = 1.0 / (self._t + 1) if self.acting == "average" else self.forgetting
            self.mean += share * (self.x[1] - self.mean)
        return delta
