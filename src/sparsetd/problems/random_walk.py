"""The random walk with the three bases of Sutton et al. (2009)."""

from __future__ import annotations

from typing import Literal

import numpy as np

from sparsetd.problems.finite import FiniteMDP
from sparsetd.system import Array

Basis = Literal["tabular", "inverted", "dependent"]
BASES: tuple[Basis, ...] = ("tabular", "inverted", "dependent")


def random_walk(
    n_states: int = 5,
    basis: Basis = "tabular",
    *,
    gamma: float = 1.0,
    left_reward: float = 0.0,
    right_reward: float = 1.0,
    target_right: float = 0.5,
    behavior_right: float = 0.5,
) -> FiniteMDP:
    """n states in a row, a start in the middle, and an exit at either end.

    States 0 and n + 1 are the exits, with φ = 0. Leaving on the right pays `right_reward`, on the left `left_reward`.
    With the defaults V(s) = s/(n + 1). `target_right` ≠ `behavior_right` makes it off-policy (Ghiassian et al. 2020 use
    0.6 and 0.5, with rewards −1 and +1).
    """
    if n_states < 2:
        raise ValueError(f"n_states={n_states} is too short for a walk: pass n_states >= 2")
    total = n_states + 2
    P = np.stack([np.eye(total, k=-1), np.eye(total, k=1)])  # left, right
    R = np.zeros_like(P)
    R[:, 1, 0], R[:, n_states, total - 1] = left_reward, right_reward
    features = basis_rows(n_states, basis)
    return FiniteMDP(
        P,
        R,
        np.pad(features, ((1, 1), (0, 0))),
        gamma,
        start=np.eye(total)[(n_states + 1) // 2],
        target=np.tile([1.0 - target_right, target_right], (total, 1)),
        behavior=np.tile([1.0 - behavior_right, behavior_right], (total, 1)),
        terminal=np.isin(np.arange(total), [0, total - 1]),
        theta0=np.zeros(features.shape[1]),
    )


def basis_rows(n: int, basis: Basis) -> Array:
    """Unit-norm rows φ(1)…φ(n).

    tabular     e_i
    inverted    every entry but the i-th, 1/√(n − 1)
    dependent   n//2 + 1 features; a window of ones that grows to the middle and shrinks again, normalised
    """
    if basis == "tabular":
        return np.eye(n)
    if basis == "inverted":
        return (np.ones((n, n)) - np.eye(n)) / np.sqrt(n - 1)
    if basis != "dependent":
        raise ValueError(f"basis={basis!r} is unknown: choose one of {', '.join(BASES)}")
    d = n // 2 + 1
    lag = np.arange(n)[:, None] - np.arange(d)
    window = ((lag >= 0) & (lag < d)).astype(np.float64)
    return np.asarray(window / np.linalg.norm(window, axis=1, keepdims=True))
