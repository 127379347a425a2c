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

from sparsetd.control.online import Episode
from sparsetd.system import Array

Behavior = Callable[[Array], Array]


@dataclass
class SoftmaxActor:
    """π(a|s) ∝ exp(u_aᵀφ(s)) with its trace; a callable from observations (n, p) to probabilities (n, A).

    `features` maps one observation to φ(s), a vector of `n_features`.
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
        preference = self.weights @ phi
        share = np.exp(preference - preference.max())
        return np.asarray(share / share.sum())

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
    """Let the behaviour act for `n_episodes` episodes, and learn `critic` and `actor` in place from each transition.

    Parameters
    ----------
    env : a Gymnasium environment with discrete actions
    critic : estimator with `partial_fit`
        Any gradient method: `TDC(lam=…)`, `ROTD()`, … It is given the true ratio of every row.
    behavior : function from an observation to action probabilities, uniform by default
    """
    uniform = np.full(actor.n_actions, 1.0 / actor.n_actions)
    acts = behavior or (lambda _: uniform)
    return [_episode(env, critic, actor, rng, gamma, acts, max_steps) for _ in range(n_episodes)]


def _episode(
    env: Any, critic: Any, actor: SoftmaxActor, rng: np.random.Generator, gamma: float, behavior: Behavior, limit: int
) -> Episode:
    observation, _ = env.reset(seed=int(rng.integers(2**31)))
    phi, into, total = actor.features(observation), 0.0, 0.0
    for t in range(1, limit + 1):
        likely = np.asarray(behavior(observation))
        action = int(rng.choice(actor.n_actions, p=likely))
        ratio = float(actor.probabilities(phi)[action] / likely[action])
        observation, reward, terminated, truncated, _ = env.step(action)
        phi_next, discount = actor.features(observation), 0.0 if terminated else gamma
        columns = {"ratio": [ratio], "discount": [discount], "start": [t == 1]}
        critic.partial_fit(phi[None], [float(reward)], phi_next[None], **columns)
        theta = critic.coef_
        delta = float(reward) + discount * float(theta @ phi_next) - float(theta @ phi)
        actor.update(phi, action, delta, ratio, into)
        total += float(reward)
        if not np.isfinite(actor.weights).all() or terminated or truncated:
            return Episode(t, total, bool(terminated), finite=bool(np.isfinite(actor.weights).all()))
        phi, into = phi_next, gamma
    return Episode(limit, total, terminated=False)
