"""Compiled steps of online control with one block of weights per action.

φ(s, a) is the state's features in block a and zeros elsewhere; φ̄ = Σ_a π(a|s') φ(s', a) is the next state's
features times π(a|s') in each block. A step is that of any table (`system`) on these stacked rows (φ, ψ, e), with a
step size for every feature, which the solvers of a stream do not have.
"""

from __future__ import annotations

import numpy as np

from sparsetd._tools.jit import njit
from sparsetd.system import Array

# Sums may be reordered; NaN and infinity must still be seen.
FAST = {"reassoc", "contract", "arcp", "nsz"}


@njit(cache=True, fastmath=FAST)
def _dot(a: Array, b: Array) -> float:
    total = 0.0
    for i in range(a.size):
        total += a[i] * b[i]
    return total


@njit(cache=True)
def action_values(theta: Array, phi: Array) -> Array:
    """q(s, ·) = θ_a ᵀ φ(s) for every action."""
    q = np.empty(theta.shape[0])
    for a in range(theta.shape[0]):
        q[a] = _dot(theta[a], phi)
    return q


@njit(cache=True)
def probabilities(q: Array, epsilon: float, temperature: float) -> Array:
    """One row of :class:`~sparsetd.control.policies.Rule`."""
    n, top = q.size, q.max()
    share = np.empty(n)
    for a in range(n):
        if temperature > 0.0:
            share[a] = np.exp((q[a] - top) / temperature)
        else:
            share[a] = 1.0 if q[a] == top else 0.0
    return (1.0 - epsilon) * share / share.sum() + epsilon / n


@njit(cache=True)
def draw(p: Array, u: float) -> int:
    """Action whose cumulative probability first exceeds u ∈ [0, 1); an action of probability 0 is never drawn."""
    total, last = 0.0, 0
    for a in range(p.size):
        if p[a] > 0.0:
            total += p[a]
            last = a
            if u < total:
                return a
    return last


@njit(cache=True)
def stack(rows: Array, phi: Array, action: int, phi_next: Array, next_weight: Array, decay: float) -> None:
    """rows = (φ(s, a), ψ = Σ_a next_weight_a φ(s', a), e ← φ(s, a) + decay · e), stacked by action."""
    d = phi.size
    for a in range(next_weight.size):
        for i in range(d):
            at, here = a * d + i, phi[i] if a == action else 0.0
            rows[0, at], rows[1, at] = here, next_weight[a] * phi_next[i]
            rows[2, at] = here + decay * rows[2, at] if decay != 0.0 else here


@njit(cache=True, fastmath=FAST)
def _products(x: Array, rows: Array) -> Array:
    """(x_bᵀφ, x_bᵀψ, x_bᵀe) of both blocks."""
    out, (f, g, e) = np.empty(6), (rows[0], rows[1], rows[2])
    for b in range(2):
        block, p, q, r = x[b], 0.0, 0.0, 0.0
        for i in range(f.size):
            p += block[i] * f[i]
            q += block[i] * g[i]
            r += block[i] * e[i]
        out[3 * b], out[3 * b + 1], out[3 * b + 2] = p, q, r
    return out


@njit(cache=True, fastmath=FAST)
def table_step(
    x: Array, y: Array, rows: Array, reward: float, step: Array, M: Array, m: Array, rho: Array, saddle: bool
) -> float:
    """One step of a table; returns the TD error δ = r + θᵀψ − θᵀφ.

    x ← S(x − α(A_t x − b_t), αρ), or x ← S(x − α A_tᵀ y, αρ), y ← Π₂(y + α(A_t x − b_t)), both from the old (x, y)
    (`eq:RO-TD`). `step` is α for each stacked feature: the prox and the dual step are in the metric of the steps.
    """
    u, squares, (f, g, e) = _products(x, rows), 0.0, (rows[0], rows[1], rows[2])
    up = M @ u - reward * m
    down = M.T @ _products(y, rows) if saddle else up
    for b in range(2):
        block, dual, c, r = x[b], y[b], down[3 * b : 3 * b + 3], up[3 * b : 3 * b + 3]
        for i in range(f.size):
            bound, moved = step[i] * rho[b], block[i] - step[i] * (c[0] * f[i] + c[1] * g[i] + c[2] * e[i])
            block[i] = moved - min(max(moved, -bound), bound)
            if saddle:
                dual[i] += step[i] * (r[0] * f[i] + r[1] * g[i] + r[2] * e[i])
                squares += dual[i] * dual[i]
    if squares > 1.0:
        y *= 1.0 / np.sqrt(squares)
    return reward + u[4] - u[3]


@njit(cache=True, fastmath=FAST)
def blend(mean: Array, theta: Array, share: float) -> None:
    """mean += share · (θ − mean): the running average for share = 1/t, an exponential one for a constant share."""
    a, b = mean.reshape(-1), theta.reshape(-1)
    for i in range(a.size):
        a[i] += share * (b[i] - a[i])
