"""The chain of Boyan (1999), whose value function is linear in its features."""

from __future__ import annotations

import numpy as np

from sparsetd.problems.finite import FiniteMDP


def boyan_chain(n_states: int = 13, n_features: int = 4) -> FiniteMDP:
    """V(s) = −2s: from s one moves to s − 1 or s − 2 at −3 each step, from 1 to 0 at −2, and 0 is terminal; γ = 1.

    Features interpolate linearly between `n_features` equally spaced states, from the start s = n_states − 1 down to 0,
    so θ* = (V(12), V(8), V(4), V(0)) = (−24, −16, −8, 0) for the usual 13 states and 4 features.
    """
    last = n_states - 1
    if n_states < 3 or n_features < 2 or last % (n_features - 1):
        raise ValueError(
            f"n_states={n_states} does not fit n_features={n_features}: pass at least 3 states and 2 features, with "
            "n_states - 1 a multiple of n_features - 1"
        )
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
