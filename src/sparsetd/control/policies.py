"""Policies from action values: greedy, ε-greedy and softmax, as probabilities, so that every ratio is the true one.

A *rule* turns action values (n, A) into probabilities (n, A). A policy is a rule on top of a function from
observations to action values, and is itself a callable from observations (n, p) to probabilities: what
`Transitions` and `featurize` take. Ties of the largest value share its probability equally, so the greedy policy of
an unlearnt (all-zero) value function is the uniform one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from sparsetd.system import Array

Values = Callable[[Array], Array]


@dataclass(frozen=True)
class Rule:
    """How action values become probabilities: greedy, ε-greedy, or softmax where `temperature` is given.

    (1 − ε) · greedy + ε · uniform, or softmax(q / T) where `temperature` is given.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsetd.control import Rule
    >>> Rule(epsilon=0.2)(np.array([[0.0, 1.0]]))
    array([[0.1, 0.9]])
    """

    epsilon: float = 0.0
    temperature: float = 0.0

    def __post_init__(self) -> None:
        if not 0.0 <= self.epsilon <= 1.0:
            raise ValueError(f"`epsilon` must lie between 0 and 1, but it is {self.epsilon}: pass a probability.")
        if not self.temperature >= 0.0:
            raise ValueError(f"`temperature` must not be negative, but it is {self.temperature}: pass 0 for greedy.")

    def __call__(self, q: Array) -> Array:
        """π(·|s) for each row of action values."""
        top = q.max(axis=-1, keepdims=True)
        share = np.exp((q - top) / self.temperature) if self.temperature else (q == top).astype(float)
        return np.asarray((1.0 - self.epsilon) * share / share.sum(axis=-1, keepdims=True) + self.epsilon / q.shape[-1])


@dataclass(frozen=True)
class ValuePolicy:
    """A policy that applies a rule to action values: observations in, probabilities of the actions out.

    π(·|s) = rule(q(s, ·)): observations (n, p) → probabilities (n, A).

    Examples
    --------
    >>> import numpy as np
    >>> from sparsetd.control import Rule, ValuePolicy
    >>> ValuePolicy(lambda s: s @ np.eye(2), Rule())(np.array([[0.0, 1.0]]))
    array([[0., 1.]])
    """

    values: Values
    rule: Rule

    def __call__(self, observation: Array) -> Array:
        return self.rule(np.asarray(self.values(observation)))

    @property
    def feature_names_in_(self) -> Any:
        """The columns its values were learnt from, where they are known: logs are brought into their order."""
        return getattr(getattr(self.values, "__self__", self.values), "feature_names_in_", None)

    def best(self, observation: Array) -> Array:
        """The first action of largest value for each row: a deterministic choice for tests."""
        return np.asarray(self.values(observation)).argmax(axis=-1)


def greedy(values: Values) -> ValuePolicy:
    """Always choose the action of largest value; ties share the probability equally.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsetd.control import greedy
    >>> greedy(lambda s: s)(np.array([[0.0, 1.0], [2.0, 2.0]]))
    array([[0. , 1. ],
           [0.5, 0.5]])
    """
    return ValuePolicy(values, Rule())


def epsilon_greedy(values: Values, epsilon: float) -> ValuePolicy:
    """Choose the best action with probability 1 − ε, and any action with probability ε: for exploration.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsetd.control import epsilon_greedy
    >>> epsilon_greedy(lambda s: s, 0.2)(np.array([[0.0, 1.0]]))
    array([[0.1, 0.9]])
    """
    return ValuePolicy(values, Rule(epsilon=epsilon))


def softmax(values: Values, temperature: float) -> ValuePolicy:
    """Choose actions with probabilities that grow exponentially with their values; a high temperature evens them out.

    π(a|s) ∝ exp(q(s, a) / T).

    Examples
    --------
    >>> import numpy as np
    >>> from sparsetd.control import softmax
    >>> softmax(lambda s: s, temperature=1.0)(np.array([[0.0, 1.0]])).round(2)
    array([[0.27, 0.73]])
    """
    return ValuePolicy(values, Rule(temperature=temperature))


def uniform(n_actions: int) -> Callable[[Array], Array]:
    """Choose every action with the same probability, whatever is observed.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsetd.control import uniform
    >>> uniform(4)(np.zeros((1, 2)))
    array([[0.25, 0.25, 0.25, 0.25]])
    """
    return lambda observation: np.full((len(observation), n_actions), 1.0 / n_actions)
