"""Random off-policy problems whose value function is known and sparse, and noise features for any problem."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import scipy.sparse as sp

from sparsetd.problems.finite import FiniteMDP
from sparsetd.system import Array, Batch


def random_mdp(
    rng: np.random.Generator,
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
    >>> from sparsetd.problems import boyan_chain, with_noise_features
    >>> rng = np.random.default_rng(0)
    >>> rows = boyan_chain().trajectory(50, rng)
    >>> with_noise_features(rows, 20, rng).phi.shape
    (50, 24)
    """
    n = len(batch)
    noise, following = scale * rng.normal(size=(2, n, n_noise))
    goes_on = np.flatnonzero(~batch.start[1:].astype(bool))
    following[goes_on] = noise[goes_on + 1]
    return replace(batch, phi=_beside(batch.phi, noise), phi_next=_beside(batch.phi_next, following))


def _beside(rows: Array | sp.csr_array, columns: Array) -> Array | sp.csr_array:
    if sp.issparse(rows):
        return sp.csr_array(sp.hstack([rows, columns]))
    return np.hstack([rows, columns])
