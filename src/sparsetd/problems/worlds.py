"""Finite problems to choose from: small ones of the literature, and random ones.

star          Baird (1995), in the form of Sutton et al. (2009): seven states, eight features, and TD diverges
boyan_chain   Boyan (1999): the value function is linear in the features
random_walk   Sutton et al. (2009): states in a row with an exit at either end, one feature each
random_mdp    random and off-policy, with a value function that is known and sparse; noise features for any problem
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from sparsetd._tools.lazy_names import renamed
from sparsetd.estimators.validation import beside
from sparsetd.problems.finite import FiniteMDP
from sparsetd.system import Array, Batch

DASHED, SOLID = 0, 1


def star(gamma: float = 0.99) -> FiniteMDP:
    """Makes Baird's star, on which TD diverges off-policy although every value is zero.

    V_θ(s) = 2θ_s + θ_8 for s = 1…6 and V_θ(7) = θ_7 + 2θ_8; every reward is 0.

    The behaviour goes dashed (6/7, to one of the states 1–6) or solid (1/7, to state 7), which makes ξ uniform; the
    target always goes solid. θ₀ = (1, 1, 1, 1, 1, 1, 10, 1) (Sutton et al. 2009, in the order of Maei 2011).

    `sample(n, rng)` draws the sub-sampled star of the paper's Algorithm 1, which has no ratio; with
    `importance_sampled=True`, and in `trajectory(n, rng)`, rows come from the behaviour with ratio 7 (solid) or 0.

    See also `boyan_chain`; `random_walk`: other small problems of the literature.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsetd.problems import star
    >>> mdp = star()
    >>> mdp
    FiniteMDP(7 states, 2 actions, 8 features, gamma=0.99)
    >>> bool(np.linalg.eigvals(mdp.A).real.min() < 0)
    True
    """
    features = np.zeros((7, 8))
    features[:6, :6], features[:6, 7] = 2.0 * np.eye(6), 1.0
    features[6, 6:] = 1.0, 2.0
    P = np.zeros((2, 7, 7))
    P[DASHED, :, :6], P[SOLID, :, 6] = 1.0 / 6.0, 1.0
    return FiniteMDP(
        P,
        np.zeros_like(P),
        features,
        gamma,
        start=np.full(7, 1.0 / 7.0),
        target=np.tile([0.0, 1.0], (7, 1)),
        behavior=np.tile([6.0 / 7.0, 1.0 / 7.0], (7, 1)),
        theta0=np.array([1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 10.0, 1.0]),
        theta_star=np.zeros(8),
    )


def boyan_chain(n_states: int = 13, n_features: int = 4) -> FiniteMDP:
    """Makes Boyan's chain, whose value function is linear in its features: for a first check of any method.

    V(s) = −2s: from s one moves to s − 1 or s − 2 at −3 each step, from 1 to 0 at −2, and 0 is terminal; γ = 1.

    Features interpolate linearly between `n_features` equally spaced states, from the start s = n_states − 1 down to 0,
    so θ* = (V(12), V(8), V(4), V(0)) = (−24, −16, −8, 0) for the usual 13 states and 4 features.

    See also `random_walk`; `star`: other small problems of the literature.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsetd.problems import boyan_chain
    >>> mdp = boyan_chain()
    >>> mdp.theta_star
    array([-24., -16.,  -8.,  -0.])
    >>> bool(np.allclose(mdp.A @ mdp.theta_star, mdp.b))
    True
    """
    last = n_states - 1
    if n_states < 3 or n_features < 2 or last % (n_features - 1):
        wanted = "at least 3 states and 2 features, with n_states - 1 a multiple of n_features - 1"
        raise ValueError(f"n_states={n_states} does not fit n_features={n_features}: pass {wanted}")
    states = np.arange(n_states)
    P = 0.5 * (np.eye(n_states, k=-1) + np.eye(n_states, k=-2))
    P[1], P[0, 0] = np.eye(n_states)[0], 1.0
    reward = np.where(states == 1, -2.0, -3.0)
    anchors = np.linspace(last, 0, n_features)
    features = np.maximum(0.0, 1.0 - np.abs(states[:, None] - anchors) * (n_features - 1) / last)
    return FiniteMDP.chain(
        P,
        reward,
        features,
        1.0,
        start=np.eye(n_states)[last],
        terminal=states == 0,
        theta0=np.zeros(n_features),
        theta_star=-2.0 * anchors,
    )


@renamed
def random_walk(
    n_states: int = 5,
    *,
    gamma: float = 1.0,
    left_reward: float = 0.0,
    right_reward: float = 1.0,
    target_right: float = 0.5,
    behavior_right: float = 0.5,
) -> FiniteMDP:
    """Makes a row of n states with a start in the middle and an exit at either end.

    States 0 and n + 1 are the exits, with φ = 0. Leaving on the right pays `right_reward`, on the left `left_reward`.
    With the defaults V(s) = s/(n + 1). `target_right` ≠ `behavior_right` makes it off-policy (Ghiassian et al. 2020 use
    0.6 and 0.5, with rewards −1 and +1).

    See also `boyan_chain`; `star`: other small problems of the literature.

    Examples
    --------
    >>> from sparsetd.problems import random_walk
    >>> random_walk(4).value.round(2)
    array([0. , 0.2, 0.4, 0.6, 0.8, 0. ])
    >>> random_walk(4, target_right=0.6).target[1]
    array([0.4, 0.6])
    """
    if n_states < 2:
        raise ValueError(f"n_states={n_states} is too short for a walk: pass n_states >= 2")
    total = n_states + 2
    P = np.stack([np.eye(total, k=-1), np.eye(total, k=1)])  # left, right
    R = np.zeros_like(P)
    R[:, 1, 0], R[:, n_states, total - 1] = left_reward, right_reward
    return FiniteMDP(
        P,
        R,
        np.eye(total)[:, 1:-1],
        gamma,
        start=np.eye(total)[(n_states + 1) // 2],
        target=np.tile([1.0 - target_right, target_right], (total, 1)),
        behavior=np.tile([1.0 - behavior_right, behavior_right], (total, 1)),
        terminal=np.isin(np.arange(total), [0, total - 1]),
        theta0=np.zeros(n_states),
    )


def random_mdp(
    rng: int | np.random.Generator,
    n_states: int = 20,
    n_features: int = 30,
    n_relevant: int = 5,
    *,
    n_actions: int = 3,
    branching: int = 5,
    gamma: float = 0.9,
    off_policy: float = 0.5,
    misfit: float = 0.0,
    reward_noise: float = 0.0,
) -> FiniteMDP:
    """Makes a random off-policy problem whose value function is known and needs few of its features.

    V = Φθ* + misfit·ε with `n_relevant` non-zero entries in θ* (Garnet transitions, Gaussian features).

    The rewards are made from the value, r = (I − γP_π)V, so that V is exact. Each (s, a) leads to `branching` states.
    The behaviour is random with full support; the target moves a fraction `off_policy` of it to another random policy.
    `reward_noise` spreads R(a, s, s') around its mean without changing r.

    See also `with_noise_features`: more features that do not matter.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsetd.problems import random_mdp
    >>> mdp = random_mdp(np.random.default_rng(0), n_features=30, n_relevant=5)
    >>> int(np.count_nonzero(mdp.theta_star))
    5
    >>> bool(np.allclose(mdp.features @ mdp.theta_star, mdp.value))
    True
    """
    if not 0 <= n_relevant <= n_features:
        raise ValueError(f"n_relevant={n_relevant} is not between 0 and n_features={n_features}")
    if not 1 <= branching <= n_states:
        raise ValueError(f"branching={branching} is not between 1 and n_states={n_states}")
    rng = np.random.default_rng(rng)
    P = garnet(rng, n_states, n_actions, branching)
    behavior, other = rng.dirichlet(np.full(n_actions, 2.0), size=(2, n_states))
    behavior = 0.9 * behavior + 0.1 / n_actions  # ratios stay below 10 n_actions
    target = (1.0 - off_policy) * behavior + off_policy * other
    features = rng.normal(size=(n_states, n_features))
    theta = np.zeros(n_features)
    support = rng.choice(n_features, size=n_relevant, replace=False)
    theta[support] = rng.choice([-1.0, 1.0], size=n_relevant) * rng.uniform(0.5, 1.5, size=n_relevant)
    value = features @ theta + misfit * rng.normal(size=n_states)
    reward = value - gamma * np.einsum("sa,asn,n->s", target, P, value)
    noise = reward_noise * rng.normal(size=P.shape)
    noise -= np.einsum("sa,asn,asn->s", target, P, noise)[:, None]
    return FiniteMDP(
        P,
        reward[:, None] + noise,
        features,
        gamma,
        start=np.full(n_states, 1.0 / n_states),
        target=target,
        behavior=behavior,
        theta0=np.zeros(n_features),
        theta_star=theta,
    )


def garnet(rng: np.random.Generator, n_states: int, n_actions: int, branching: int) -> Array:
    """P[a, s, ·] with `branching` random successors; the first action also steps to s + 1, which joins all states."""
    P = np.zeros((n_actions, n_states, n_states))
    for a in range(n_actions):
        for s in range(n_states):
            P[a, s, rng.choice(n_states, size=branching, replace=False)] = rng.dirichlet(np.ones(branching))
    P[0] = 0.9 * P[0] + 0.1 * np.roll(np.eye(n_states), 1, axis=1)
    return P


def with_noise_features(batch: Batch, n_noise: int, rng: np.random.Generator, scale: float = 1.0) -> Batch:
    """Adds columns of independent noise to rows: features that a sparse method should leave out.

    The same rows with `n_noise` more columns of independent N(0, scale²) numbers, drawn anew for every visit.

    φ'_t carries the noise of the next row's φ where the episode goes on, as observed data would. In expectation the
    noise block of A and C is scale²·I, its coupling to the rest 0 and its part of b 0: θ* is padded with zeros.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsetd.problems import random_walk, with_noise_features
    >>> rng = np.random.default_rng(0)
    >>> rows = random_walk().trajectory(50, rng)
    >>> with_noise_features(rows, 20, rng).phi.shape
    (50, 25)
    """
    n = len(batch)
    noise, following = scale * rng.normal(size=(2, n, n_noise))
    goes_on = np.flatnonzero(~batch.start[1:].astype(bool))
    following[goes_on] = noise[goes_on + 1]
    return replace(batch, phi=beside(batch.phi, noise), phi_next=beside(batch.phi_next, following))
