"""Coordinates for the Fourier basis of the triple link, from no knowledge of the plant to all of it.

The basis needs the state in a box. The paper does not say which box, nor along which axes, and this decides whether
the task can be learnt. Every choice below is a linear map u = ½ + ½ c T s, clipped to [0, 1], with a note on what
must be known to make T.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import scipy.linalg as sla
from numba import njit

from reproduction.triple_link_plant import ANGLE, FORCES, Plant, derivative, failed, rk4
from sparsetd.system import Array

KNOWLEDGE = {
    "raw": "the limits of the task (±1 m, ±20°) and guesses of the speeds (1 m/s, 5 rad/s)",
    "walk": "standard deviations of the eight state variables in a random walk",
    "relative": "the same, for angles between neighbouring links",
    "principal": "whitened principal components of a random walk",
    "modal": "the linearised model: its eigenvectors, scaled by what ±5 N can do to each mode",
    "lqr": "the linearised model and a quadratic cost: the Cholesky factor of the optimal value matrix",
}


def linearize(plant: Plant, step: float = 1e-6) -> tuple[Array, Array]:
    """(A, B) of ṡ ≈ A s + B force upright, without Coulomb friction (which has no derivative at 0)."""
    constants = replace(plant, coulomb=(0.0,) * 4).constants()

    def f(state: Array, force: float) -> Array:
        out = np.empty(8)
        derivative(state, force, constants, out)
        return out

    A = np.column_stack([(f(step * e, 0.0) - f(-step * e, 0.0)) / (2 * step) for e in np.eye(8)])
    B = (f(np.zeros(8), step) - f(np.zeros(8), -step)) / (2 * step)
    return A, B[:, None]


@dataclass(frozen=True)
class LQR:
    """The reference controller: force = −K s, rounded to the nearest of the paper's three actions.

    `value` is the matrix P of the cost Σ sᵀ Q s + R force², so sᵀ P s is the (unquantised) cost to go. It knows the
    model: it shows that the task can be solved, and is not a competitor.
    """

    gain: Array
    value: Array

    def __call__(self, state: Array) -> int:
        """Index of the action nearest to −K s."""
        return int(np.argmin(np.abs(FORCES + self.gain @ state)))


def lqr(plant: Plant, dt: float, control_cost: float = 0.01) -> LQR:
    """Discrete-time linear-quadratic controller for the linearised plant, with unit state costs, held for `dt`."""
    A, B = linearize(plant)
    block = sla.expm(dt * np.block([[A, B], [np.zeros((1, 9))]]))
    Ad, Bd = block[:8, :8], block[:8, 8:]
    P = sla.solve_discrete_are(Ad, Bd, np.eye(8), np.array([[control_cost]]))
    gain = np.linalg.solve(control_cost + Bd.T @ P @ Bd, Bd.T @ P @ Ad)
    return LQR(gain[0], P)


def walk_states(dt: float, n_episodes: int = 100, seed: int = 0) -> Array:
    """States visited by uniformly random actions until failure, again and again."""
    rng, constants, states = (
        np.random.default_rng(np.random.SeedSequence(99, spawn_key=(seed,))),
        Plant().constants(),
        [],
    )
    for _ in range(n_episodes):
        state = np.zeros(8)
        while not failed(state):
            states.append(state)
            state = rk4(state, rng.choice(FORCES), constants, dt, 1)
    return np.array(states)


@cache
def coordinates(name: str, dt: float) -> Array:
    """The matrix T of one of `KNOWLEDGE`."""
    if name == "raw":
        return np.diag(1.0 / np.array([1.0, ANGLE, ANGLE, ANGLE, 1.0, 5.0, 5.0, 5.0]))
    if name == "lqr":
        return np.asarray(np.linalg.cholesky(lqr(Plant(), dt).value).T)
    if name == "modal":
        return _modal()
    states = walk_states(dt)
    axes = {"walk": np.eye(8), "relative": _relative(), "principal": _principal(states)}[name]
    return np.asarray(axes / (states @ axes.T).std(axis=0)[:, None])


def _relative() -> Array:
    axes = np.eye(8)
    for link in (2, 3, 6, 7):
        axes[link, link - 1] = -1.0
    return axes


def _principal(states: Array) -> Array:
    scale = states.std(axis=0)
    return np.asarray(np.linalg.svd(states / scale, full_matrices=False)[2] / scale)


def _modal() -> Array:
    """Left eigenvectors; a mode ż = μz + b·force can be held by ±5 N while |z| < 5|b/μ|."""
    A, B = linearize(Plant())
    rates, right = np.linalg.eig(A)
    left = np.linalg.inv(right).real
    reach = 5.0 * np.abs(left @ B)[:, 0] / np.maximum(np.abs(rates.real), 0.5)
    return np.asarray((left / reach[:, None])[np.argsort(-rates.real)])


def fourier_features(name: str, dt: float, scale: float, order: int) -> Callable[[Array], Array]:
    """state (8,) → cos(π cᵀu) for all c ∈ {0..order}⁸."""
    T = scale * coordinates(name, dt)
    return lambda state: fourier(np.clip(0.5 + 0.5 * (T @ state), 0.0, 1.0), order)


@njit(cache=True)
def _waves(s: Array, order: int) -> tuple[Array, Array]:
    """Real and imaginary part of e^{iπcᵀs} for all c ∈ {0..order}^p in lexicographic order, by products alone."""
    re, im, base = np.ones(1), np.zeros(1), order + 1
    for k in range(s.size):
        c, d = np.cos(np.pi * s[k]), np.sin(np.pi * s[k])
        new_re, new_im = np.empty(re.size * base), np.empty(re.size * base)
        for j in range(re.size):
            a, b = re[j], im[j]
            for n in range(base):
                new_re[j * base + n], new_im[j * base + n] = a, b
                a, b = a * c - b * d, a * d + b * c
        re, im = new_re, new_im
    return re, im


@njit(cache=True)
def fourier(s: Array, order: int) -> Array:
    """cos(π cᵀs) for all c ∈ {0..order}^p, lexicographic: the real part of one half's waves ⊗ the other's."""
    half = s.size // 2
    a, b = _waves(s[:half], order)
    c, d = _waves(s[half:], order)
    out = np.empty((a.size, c.size))
    for i in range(a.size):
        for j in range(c.size):
            out[i, j] = a[i] * c[j] - b[i] * d[j]
    return out.reshape(-1)
