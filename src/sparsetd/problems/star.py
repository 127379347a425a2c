"""The star of Baird (1995): seven states, eight features, and TD diverges."""

from __future__ import annotations

import numpy as np

from sparsetd.problems.finite import FiniteMDP

DASHED, SOLID = 0, 1


def star(gamma: float = 0.99) -> FiniteMDP:
    """V_θ(s) = 2θ_s + θ_8 for s = 1…6 and V_θ(7) = θ_7 + 2θ_8; every reward is 0.

    The behaviour goes dashed (6/7, to one of the states 1–6) or solid (1/7, to state 7), which makes ξ uniform; the
    target always goes solid. θ₀ = (1, 1, 1, 1, 1, 1, 10, 1) (Sutton et al. 2009, in the order of Maei 2011).

    `sample(n, rng)` draws the sub-sampled star of the paper's Algorithm 1, which has no ratio; with
    `importance_sampled=True`, and in `trajectory(n, rng)`, rows come from the behaviour with ratio 7 (solid) or 0.
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
