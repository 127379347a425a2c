"""Off-policy actor-critic: a softmax policy improved from data of another policy, with any gradient critic.

    critic   V(s) = θᵀφ(s) from rows (φ, r, φ') with the ratio ρ = π(a|s)/b(a|s): TDC(λ), RO-TD, …
    actor    π(a|s) ∝ exp(u_aᵀφ(s))
             δ = r + γV(s') − V(s)      e ← ρ(∇ log π(a|s) + γλ e)      u ← u + α_u δ e

where ∇_{u_c} log π(a|s) = (1{c = a} − π(c|s)) φ(s). The behaviour b is fixed; the policy that is learnt never acts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sparsetd.control import Episode, Rule, Step, online
from sparsetd.control.acting import Behavior
from sparsetd.system import Array, Batch

SOFTMAX = Rule(temperature=1.0)


@dataclass
class SoftmaxActor:
    """Holds a softmax policy that is linear in features, with the trace and the step by which it improves.

    π(a|s) ∝ exp(u_aᵀφ(s)) with its trace. An actor can be called: it maps observations (n, p) to probabilities (n, A).

    `features` maps one observation to φ(s), a vector of `n_features`.

    See also `actor_critic`: improves it from the data of another policy.

    Examples
    --------
    >>> import numpy as np
    >>> from reproduction.actor_critic import SoftmaxActor
    >>> actor = SoftmaxActor(lambda s: s, n_actions=2, n_features=3, step_size=1.0)
    >>> actor.update(np.ones(3), action=1, delta=1.0, ratio=1.0, into=0.0)
    >>> actor(np.ones((1, 3))).round(2)
    array([[0.05, 0.95]])
    """

    features: Callable[[Array], Array]
    n_actions: int
    n_features: int
    step_size: float = 0.01
    lam: float = 0.0
    weights: Array = field(init=False)
    trace: Array = field(init=False)

    def __post_init__(self) -> None:
        self.weights, self.trace = np.zeros((2, self.n_actions, self.n_features))

    def probabilities(self, phi: Array) -> Array:
        return SOFTMAX(self.weights @ phi)

    def __call__(self, observation: Array) -> Array:
        return np.array([self.probabilities(self.features(row)) for row in np.atleast_2d(observation)])

    def best(self, observation: Array) -> Array:
        """The most likely action of each row: a deterministic choice for tests."""
        return np.asarray(self(observation).argmax(axis=1))

    def update(self, phi: Array, action: int, delta: float, ratio: float, into: float) -> None:
        """One step along δe; `into` is the discount of the transition that led here, 0 at the start of an episode."""
        score = -np.outer(self.probabilities(phi), phi)
        score[action] += phi
        self.trace = ratio * (score + into * self.lam * self.trace)
        self.weights = self.weights + self.step_size * delta * self.trace


@dataclass
class _ActorAndCritic:
    """Actor and critic as one learner of `online`: its values are the preferences u_aᵀφ(s) of the softmax.

    The first row goes through the critic's `partial_fit`, which checks everything once; the others are handed on as
    they are, since at one row a call the checks would take most of the time.
    """

    critic: Any
    actor: SoftmaxActor
    gamma: float
    into: float = 0.0
    run: Any = None

    def __post_init__(self) -> None:
        if self.critic.fit_intercept:
            raise ValueError("the critic has an intercept, which the actor does not see: give the features a constant")
        self.theta = getattr(self.critic, "coef_", np.zeros(self.actor.n_features))

    def values(self, phi: Array) -> Array:
        return np.asarray(self.actor.weights @ phi)

    def begin(self) -> None:
        self.into = 0.0

    def update(self, step: Step) -> float:
        """Both learn from the same δ, which the critic gives before it learns from this row."""
        discount = float(step.next_weight.sum())
        delta = step.reward + discount * float(self.theta @ step.phi_next) - float(self.theta @ step.phi)
        self.actor.update(step.phi, step.action, delta, step.ratio, self.into)
        numbers = ([step.reward], [discount], [step.ratio], [self.into == 0.0], [1.0])
        self._learn(Batch(step.phi[None], step.phi_next[None], *map(np.array, numbers)))
        self.into = self.gamma
        return delta

    def _learn(self, row: Batch) -> None:
        if self.run is None:
            columns = {"ratio": row.ratio, "discount": row.discount, "start": row.start}
            self.theta = self.critic.partial_fit(row.phi, row.reward, row.phi_next, **columns).coef_
            self.run = self.critic._run(row.n_features)
            return
        table, penalty, solver, factor = self.run
        self.critic._take(row, self.run, seen=False)
        self.theta = solver.result(self.critic._state, table, penalty, factor).coef


def actor_critic(
    env: Any,
    critic: Any,
    actor: SoftmaxActor,
    rng: np.random.Generator,
    *,
    gamma: float = 0.99,
    behavior: Behavior | None = None,
    n_episodes: int = 1,
    max_steps: int = 10_000,
) -> list[Episode]:
    """Improves a softmax policy from the decisions of another one, with any gradient method as its critic.

    The behaviour acts for `n_episodes` episodes, and `critic` and `actor` learn in place from each transition.

    Parameters
    ----------
    env : a Gymnasium environment with discrete actions
    critic : estimator of a gradient method: `TDC(lam=…)`, `ROTD()`, …
        It is given the true ratio of every row, and continues from its weights if it has some.
    behavior : function from an observation to action probabilities, uniform by default

    See also `sparsetd.control.online`: learns action values instead of a policy.

    Examples
    --------
    >>> import gymnasium
    >>> import numpy as np
    >>> from sparsetd import TDC
    >>> from reproduction.actor_critic import SoftmaxActor, actor_critic
    >>> env, actor = gymnasium.make('CartPole-v1'), SoftmaxActor(np.tanh, n_actions=2, n_features=4)
    >>> episodes = actor_critic(env, TDC(step_size=0.01), actor, np.random.default_rng(0), n_episodes=3)
    >>> len(episodes), bool(actor.weights.any())
    (3, True)
    """
    learner, acts = _ActorAndCritic(critic, actor, gamma), behavior or Rule(epsilon=1.0)
    how: Any = {"behavior": lambda _: acts, "target": SOFTMAX, "n_episodes": n_episodes, "max_steps": max_steps}
    episodes = online(env, learner, actor.features, rng, **how)
    critic._finish(learner.run)
    return episodes
