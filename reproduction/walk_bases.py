"""The five-state random walk of Sutton et al. (2009) with its three bases."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

import numpy as np

from sparsetd.problems import FiniteMDP, random_walk
from sparsetd.system import Array

Basis = Literal["tabular", "inverted", "dependent"]
BASES: tuple[Basis, ...] = ("tabular", "inverted", "dependent")


def walk(n_states: int = 5, basis: Basis = "tabular", **how: Any) -> FiniteMDP:
    """`random_walk` with the features of a basis; the exits have φ = 0."""
    rows = basis_rows(n_states, basis)
    features = np.pad(rows, ((1, 1), (0, 0)))
    return replace(random_walk(n_states, **how), features=features, theta0=np.zeros(rows.shape[1]))


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
