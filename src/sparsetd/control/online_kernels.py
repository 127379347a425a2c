"""Compiled steps of online control with one block of weights per action.

φ(s, a) is the state's features in block a and zeros elsewhere; φ̄ = Σ_a π(a|s') φ(s', a) is the next state's
features times π(a|s') in each block. Nothing here forms the stacked vectors. With A blocks of d features a step
costs O(A d), in arrays of shape (A, d). The formulas are those of `operators.gq` (`eq:gqAb`), and the tests hold
them equal to the estimators.
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
def move_trace(e: Array, phi: Array, action: int, decay: float) -> None:
    """e ← φ(s, a) + decay · e with decay = ρ_t γ_t λ."""
    flat = e.reshape(-1)
    if decay == 0.0:
        flat[:] = 0.0
    else:
        for i in range(flat.size):
            flat[i] *= decay
    block = e[action]
    for i in range(phi.size):
        block[i] += phi[i]


@njit(cache=True)
def td_error(theta: Array, phi: Array, action: int, reward: float, phi_next: Array, next_weight: Array) -> float:
    """δ = r + θᵀψ − θᵀφ with ψ = Σ_a next_weight_a φ(s', a) and next_weight = γ π(·|s')."""
    delta = reward - _dot(theta[action], phi)
    for a in range(theta.shape[0]):
        if next_weight[a] != 0.0:
            delta += next_weight[a] * _dot(theta[a], phi_next)
    return delta


@njit(cache=True, fastmath=FAST)
def gq_step(
    theta: Array,
    w: Array,
    e: Array,
    phi: Array,
    action: int,
    reward: float,
    phi_next: Array,
    next_weight: Array,
    step: Array,
    eta: float,
    lam: float,
) -> float:
    """θ += α(δe − (1−λ)(wᵀe)ψ),  w += ηα(δe − (wᵀφ)φ); `step` is α for each state feature. Returns δ."""
    delta = td_error(theta, phi, action, reward, phi_next, next_weight)
    w_e = (1.0 - lam) * _dot(w.reshape(-1), e.reshape(-1))
    w_phi = _dot(w[action], phi)
    for a in range(theta.shape[0]):
        back = w_e * next_weight[a]
        own = w_phi if a == action else 0.0
        for i in range(phi.size):
            along = delta * e[a, i]
            theta[a, i] += step[i] * (along - back * phi_next[i])
            w[a, i] += eta * step[i] * (along - own * phi[i])
    return delta


@njit(cache=True, fastmath=FAST)
def rogq_step(
    x: Array,
    y: Array,
    e: Array,
    phi: Array,
    action: int,
    reward: float,
    phi_next: Array,
    next_weight: Array,
    step: Array,
    eta: float,
    lam: float,
    rho_theta: float,
    rho_w: float,
) -> float:
    """x ← prox(x − α A_tᵀ y),  y ← Π₂(y + α (A_t x − b_t)), both from the old (x, y) (`eq:RO-TD`). Returns δ.

    x[0] = w and x[1] = θ, each (A, d); y alike. With per-feature steps the threshold is α_i ρ (the prox in the
    metric of the steps), and the dual steps are the same α_i.
    """
    w, theta, y1, y2 = x[0], x[1], y[0], y[1]
    delta = td_error(theta, phi, action, reward, phi_next, next_weight)
    flat = e.reshape(-1)
    w_e, y_e = (1.0 - lam) * _dot(w.reshape(-1), flat), eta * _dot(y1.reshape(-1), flat) + _dot(y2.reshape(-1), flat)
    w_phi, y_phi, y_psi = eta * _dot(w[action], phi), eta * _dot(y1[action], phi), 0.0
    for a in range(theta.shape[0]):
        if next_weight[a] != 0.0:
            y_psi += next_weight[a] * _dot(y2[a], phi_next)
    y_psi *= 1.0 - lam
    squares = 0.0
    for a in range(theta.shape[0]):
        here, ahead = 1.0 if a == action else 0.0, next_weight[a]
        for i in range(phi.size):
            f, g, t, alpha = here * phi[i], ahead * phi_next[i], e[a, i], step[i]
            y1[a, i] += alpha * (w_phi * f - eta * delta * t)
            y2[a, i] += alpha * (w_e * g - delta * t)
            squares += y1[a, i] * y1[a, i] + y2[a, i] * y2[a, i]
            w[a, i] = _soft(w[a, i] - alpha * (y_phi * f + y_psi * t), alpha * rho_w)
            theta[a, i] = _soft(theta[a, i] - alpha * y_e * (f - g), alpha * rho_theta)
    if squares > 1.0:
        y *= 1.0 / np.sqrt(squares)
    return delta


@njit(cache=True)
def _soft(value: float, threshold: float) -> float:
    if value > threshold:
        return value - threshold
    if value < -threshold:
        return value + threshold
    return 0.0


@njit(cache=True, fastmath=FAST)
def blend(mean: Array, theta: Array, share: float) -> None:
    """mean += share · (θ − mean): the running average for share = 1/t, an exponential one for a constant share."""
    a, b = mean.reshape(-1), theta.reshape(-1)
    for i in range(a.size):
        a[i] += share * (b[i] - a[i])


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
