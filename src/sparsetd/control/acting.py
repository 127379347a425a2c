"""Online control: act with a behaviour policy, learn about the greedy one, with the true ratio of every step.

    a_t ~ b(·|s_t) → r, s' → ρ_t = π(a_t|s_t) / b(a_t|s_t) → φ̄ = Σ_a π(a|s') φ(s', a) → update

(the order that Algorithm 2 of the paper leaves open). π and b are rules on the learner's current action values,
both taken when a_t is chosen; φ̄ uses the values before the update. An action that π would never take has ρ_t = 0
and cuts the trace.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sparsetd.control.learners import Learner, Step
from sparsetd.control.policies import Rule
from sparsetd.logs import Policy, action_probabilities
from sparsetd.system import Array

GREEDY = Rule()
Behavior = Callable[[Array], Array]  # of one observation


@dataclass(frozen=True)
class Episode:
    """Tells how an episode went: its length, its undiscounted return, its end, and whether the weights stayed finite.

    See also `online`; `rollout`: the functions that return it.

    Examples
    --------
    >>> from sparsetd.control import Episode
    >>> Episode(steps=20, total=-20.0, terminated=True)
    Episode(steps=20, total=-20.0, terminated=True, finite=True)
    """

    steps: int
    total: float
    terminated: bool
    finite: bool = True


def online(
    env: Any,
    learner: Learner,
    features: Callable[[Array], Array],
    rng: np.random.Generator,
    *,
    behavior: Rule | Callable[[int], Rule | Behavior] = GREEDY,
    target: Rule = GREEDY,
    n_episodes: int = 1,
    max_steps: int = 10_000,
    first_actions: Sequence[int] = (),
    stop: Callable[[Episode], bool] = lambda _: False,
) -> list[Episode]:
    """Learns action values while acting, for at most `n_episodes` episodes of at most `max_steps` steps.

    `stop` is called after every episode and ends the run when it returns True.

    Parameters
    ----------
    env : a Gymnasium environment with discrete actions
    features : observation (p,) → state features (d,); the learner keeps one block of weights per action
    behavior : the rule that acts, or a function from the episode's number to one (for an exploration that decays) or
        to a function from an observation to action probabilities
    target : the rule whose values are learnt
    first_actions : if not empty, the first action of every episode is drawn uniformly from these

    See also `rollout`: episodes of a frozen policy, without learning.

    Examples
    --------
    >>> import gymnasium
    >>> import numpy as np
    >>> from sparsetd import GQ
    >>> from sparsetd.control import EstimatorLearner, Rule, online
    >>> learner = EstimatorLearner(GQ(gamma=0.99), n_actions=2)
    >>> env = gymnasium.make('CartPole-v1')
    >>> episodes = online(env, learner, np.tanh, np.random.default_rng(0), behavior=Rule(epsilon=0.1), n_episodes=3)
    >>> len(episodes), all(episode.finite for episode in episodes)
    (3, True)
    """

    def episode(behavior: Rule | Behavior) -> Episode:
        observation, _ = env.reset(seed=int(rng.integers(2**31)))
        phi = features(observation)
        learner.begin()
        total, q = 0.0, learner.values(phi)
        for t in range(1, max_steps + 1):
            if t == 1 and len(first_actions):
                mu = np.isin(np.arange(q.size), first_actions) / len(first_actions)
            else:
                mu = behavior(q) if isinstance(behavior, Rule) else np.asarray(behavior(observation))
            action = draw_action(mu, rng.random())
            ratio = target(q)[action] / mu[action]
            observation, reward, terminated, truncated, _ = env.step(action)
            total += reward
            phi_next = features(observation)
            weight = np.zeros(q.size) if terminated else learner.gamma * target(learner.values(phi_next))
            delta = learner.update(Step(phi, action, float(reward), phi_next, weight, ratio))
            if np.isinf(delta) or not np.isfinite(q).all():
                return Episode(t, total, bool(terminated), finite=False)
            if terminated or truncated:
                return Episode(t, total, bool(terminated))
            phi, q = phi_next, learner.values(phi_next)
        return Episode(max_steps, total, terminated=False)

    episodes: list[Episode] = []
    for k in range(n_episodes):
        episodes.append(episode(behavior if isinstance(behavior, Rule) else behavior(k)))
        if stop(episodes[-1]) or not episodes[-1].finite:
            break
    return episodes


def draw_action(p: Array, u: float) -> int:
    """The action whose cumulative probability first exceeds u ∈ [0, 1); never one of probability 0."""
    total, last = 0.0, 0
    for action, share in enumerate(p.tolist()):
        if share > 0.0:
            total, last = total + share, action
            if u < total:
                break
    return last


def rollout(
    env: Any, policy: Policy, rng: np.random.Generator, *, n_episodes: int = 1, max_steps: int = 10_000
) -> list[Episode]:
    """Runs episodes of a frozen policy in an environment, without learning: to see how good a policy is.

    A policy maps observations (n, p) → probabilities (n, A).
    The policy of `policy_iteration`, of `improve`, `greedy(model.q)` and any target of `sparsetd.evaluate` fit here.

    Examples
    --------
    >>> import gymnasium
    >>> import numpy as np
    >>> from sparsetd.control import rollout, uniform
    >>> env = gymnasium.make('CartPole-v1')
    >>> episodes = rollout(env, uniform(2), np.random.default_rng(0), n_episodes=3)
    >>> [episode.terminated for episode in episodes]
    [True, True, True]
    """

    names = getattr(policy, "actions", ()) or None  # the environment must number its actions as the policy does

    def choose(observation: Array) -> int:
        row = action_probabilities(policy, np.asarray(observation).reshape(1, -1), action_names=names)[0]
        return draw_action(row, rng.random())

    return [played(env, choose, int(rng.integers(2**31)), max_steps) for _ in range(n_episodes)]


def played(env: Any, choose: Callable[[Array], int], seed: int = 0, max_steps: int = 10_000) -> Episode:
    """Run one episode of a function that chooses an action for each observation, without learning."""
    observation, _ = env.reset(seed=seed)
    total = 0.0
    for t in range(1, max_steps + 1):
        observation, reward, terminated, truncated, _ = env.step(choose(observation))
        total += float(reward)
        if terminated or truncated:
            return Episode(t, total, bool(terminated))
    return Episode(max_steps, total, terminated=False)
