"""What learns while `online` acts: a `Learner` knows three verbs, and any estimator becomes one.

A learner has one block of weights per action: `values(phi)` for acting, `begin()` at the start of an episode, and
`update(step)` for one transition.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from sklearn.base import BaseEstimator

from sparsetd.system import Array


@dataclass(frozen=True, slots=True)
class Step:
    """Holds one transition as a learner sees it: features, action, reward, successor, weights of next actions, ratio.

    `next_weight` = γ π(·|s'), and zero where the episode terminated.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsetd.control import Step
    >>> step = Step(np.ones(2), 1, -1.0, np.ones(2), next_weight=np.array([0.0, 0.9]), ratio=1.0)
    >>> step.action, step.reward, float(step.next_weight.sum())
    (1, -1.0, 0.9)
    """

    phi: Array
    action: int
    reward: float
    phi_next: Array
    next_weight: Array
    ratio: float


class Learner(Protocol):
    """Describes what `online` asks of a learner: values to act on, a start of the episode, and one step of learning.

    See also `EstimatorLearner`: the learner of the library.

    Examples
    --------
    >>> import gymnasium
    >>> import numpy as np
    >>> from sparsetd.control import Learner, online
    >>> class Indifferent:
    ...     gamma = 0.9
    ...     values = staticmethod(lambda phi: np.zeros(2))
    ...     begin = staticmethod(lambda: None)
    ...     update = staticmethod(lambda step: 0.0)
    >>> learner: Learner = Indifferent()
    >>> len(online(gymnasium.make('CartPole-v1'), learner, np.abs, np.random.default_rng(0), n_episodes=2))
    2
    """

    gamma: float

    def values(self, phi: Array) -> Array: ...
    def begin(self) -> None: ...
    def update(self, step: Step) -> float: ...


def action_values(weights: Array, phi: Array) -> Array:
    """θ_aᵀφ for every action a, each sum taken in the same order.

    Actions with the same weights must have the same value, because the greedy rule shares ties. A matrix product of
    BLAS may sum some rows in another order than others, which breaks ties in the last bit, and differently on every
    processor.
    """
    return np.asarray(np.sum(weights * phi, axis=1))


class EstimatorLearner(BaseEstimator):
    """Let any estimator learn action values online, such as `GQ` or the paper's `ROGQ` (its Algorithm 2).

    The estimator's `gamma` is the discount, and its steps are automatic unless they are set by hand.

    See also `online`: the loop that calls it.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsetd import TD
    >>> from sparsetd.control import EstimatorLearner, Step
    >>> learner = EstimatorLearner(TD(gamma=0.9, step_size=0.5), n_actions=2)
    >>> learner.begin()
    >>> _ = learner.update(Step(np.ones(1), 1, 1.0, np.ones(1), next_weight=np.zeros(2), ratio=1.0))
    >>> learner.values(np.ones(1))
    array([0. , 0.5])
    """

    def __init__(self, estimator: Any, n_actions: int) -> None:
        self.estimator = estimator
        self.n_actions = n_actions

    @property
    def gamma(self) -> float:
        return float(self.estimator.gamma)

    def values(self, phi: Array) -> Array:
        """θ_aᵀφ for every action a."""
        coef = getattr(self.estimator, "coef_", None)
        return np.zeros(self.n_actions) if coef is None else action_values(coef.reshape(self.n_actions, -1), phi)

    def begin(self) -> None:
        """Begin an episode."""
        self._start = True

    def update(self, step: Step) -> float:
        """Learn from one transition. The estimator keeps its TD error to itself, so only a divergence is told (∞)."""
        here, ahead = np.zeros((2, self.n_actions, len(step.phi)))
        here[step.action] = step.phi
        discount = float(step.next_weight.sum())
        ahead[:] = np.outer(step.next_weight / (discount or 1.0), step.phi_next)
        numbers = {"ratio": step.ratio, "discount": discount, "start": self._start}
        columns = {name: np.array([number]) for name, number in numbers.items()}
        self.estimator.partial_fit(here.reshape(1, -1), np.array([step.reward]), ahead.reshape(1, -1), **columns)
        self._start = False
        return np.inf if self.estimator.status_ == "diverged" else np.nan
