"""The star and the random walk written out as matrices (ξ, P, R, Φ), and the expected systems built from them."""

from __future__ import annotations

import numpy as np

STAR_GAMMA = 0.99


def star():
    """ξ, P, R, Φ of Baird's star under the target policy, and the paper's θ₀."""
    features = np.zeros((7, 8))
    for i in range(6):
        features[i, i], features[i, 7] = 2.0, 1.0
    features[6, 6], features[6, 7] = 1.0, 2.0
    P = np.zeros((7, 7))
    P[:, 6] = 1.0
    theta0 = np.array([1, 1, 1, 1, 1, 1, 10, 1.0])
    return np.full(7, 1 / 7), P, np.zeros(7), features, theta0


def walk(basis="tabular"):
    """ξ, P, R, Φ of the 5-state walk: leaving on the right pays 1; rows of P that leave sum to ½."""
    P = 0.5 * (np.eye(5, k=1) + np.eye(5, k=-1))
    R = np.array([0, 0, 0, 0, 0.5])
    r2, r3 = np.sqrt(2), np.sqrt(3)
    features = {
        "tabular": np.eye(5),
        "inverted": (np.ones((5, 5)) - np.eye(5)) / 2,
        "dependent": np.array([[1, 0, 0], [1 / r2, 1 / r2, 0], [1 / r3] * 3, [0, 1 / r2, 1 / r2], [0, 0, 1]]),
    }[basis]
    return np.array([1, 2, 3, 2, 1]) / 9, P, R, features


def matrices(xi, P, R, features, gamma):
    """D = ΦᵀΞ(I − γP)Φ, b = ΦᵀΞR, C = ΦᵀΞΦ."""
    weighted = features.T * xi
    return weighted @ (features - gamma * P @ features), weighted @ R, weighted @ features


def tdc_system(xi, P, R, features, gamma, eta):
    """E[A_t], E[b_t] of eq:abc: [[ηC, ηD], [γE[φ'φᵀ], D]] and [ηb; b]."""
    D, b, C = matrices(xi, P, R, features, gamma)
    A = np.block([[eta * C, eta * D], [C - D.T, D]])
    return A, np.concatenate([eta * b, b])


def rmspbe(xi, P, R, features, gamma, theta):
    """√((b − Dθ)ᵀ C⁺ (b − Dθ))."""
    D, b, C = matrices(xi, P, R, features, gamma)
    g = b - D @ theta
    return np.sqrt(g @ np.linalg.pinv(C) @ g)
