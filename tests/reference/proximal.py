"""Proximal maps, projections and mirror maps."""

from __future__ import annotations

import numpy as np


def soft_threshold(x, threshold):
    """S_ρ(x)_i = max(x_i − ρ, 0) − max(−x_i − ρ, 0)."""
    return np.maximum(x - threshold, 0.0) - np.maximum(-x - threshold, 0.0)


def twothreshold(x, alpha, rho_theta, rho_w):
    """twothreshold: θ ← S_{αρ1}(θ), w ← S_{αρ2}(w) for x = [w; θ] flat."""
    w, theta = np.split(x, 2)
    return np.concatenate([soft_threshold(w, alpha * rho_w), soft_threshold(theta, alpha * rho_theta)])


def project_l1(y):
    """Nearest point of {‖z‖₁ ≤ 1}: sort, then soft-threshold (Duchi et al. 2008)."""
    if np.abs(y).sum() <= 1.0:
        return y.copy()
    magnitudes = np.sort(np.abs(y))[::-1]
    excess = (np.cumsum(magnitudes) - 1.0) / np.arange(1, len(y) + 1)
    tau = excess[np.nonzero(magnitudes > excess)[0][-1]]
    return soft_threshold(y, tau)


def project_l2(y):
    """Π_2(y) = min(1, 1/‖y‖₂) y."""
    norm = np.linalg.norm(y)
    return y if norm <= 1.0 else y / norm


def project_linf(y):
    """Π_∞(y)_i = min(1, 1/|y_i|) y_i."""
    return np.clip(y, -1.0, 1.0)


def project_ln(y, n):
    """Nearest point of {‖z‖_n ≤ 1}, 1 < n < ∞: z_i + μ n z_i^{n−1} = |y_i| Σ z_iⁿ = 1, by bisection on μ."""
    magnitude = np.abs(y)
    if (magnitude**n).sum() <= 1.0:
        return y.copy()

    def solve(mu):
        low, high = np.zeros_like(magnitude), magnitude.copy()
        for _ in range(100):
            z = (low + high) / 2
            above = z + mu * n * z ** (n - 1) > magnitude
            low, high = np.where(above, low, z), np.where(above, z, high)
        return (low + high) / 2

    low, high = 0.0, 1.0
    while (solve(high) ** n).sum() > 1.0:
        high *= 2.0
    for _ in range(100):
        mu = (low + high) / 2
        low, high = (mu, high) if (solve(mu) ** n).sum() > 1.0 else (low, mu)
    return np.sign(y) * solve(high)


def project(y, n):
    """The true Euclidean projection on the unit l_n ball."""
    if n == 1:
        return project_l1(y)
    if n == 2:
        return project_l2(y)
    return project_linf(y) if np.isinf(n) else project_ln(y, n)


def project_radial(y, n):
    """l2proj as printed for n = 2, 3, …: min(1, 1/‖y‖_n) y, which is not the projection unless n = 2 (E1, E2)."""
    norm = np.linalg.norm(y, ord=n)
    return y if norm <= 1.0 else y / norm


def conjugate(m):
    """n with 1/m + 1/n = 1."""
    if m == 1:
        return np.inf
    return 1.0 if np.isinf(m) else m / (m - 1.0)


def link(x, q):
    """f_j(x) = sign(x_j)|x_j|^{q−1} / ‖x‖_q^{q−2} = ∇½‖x‖_q²; its inverse is the link with p, 1/p + 1/q = 1."""
    norm = np.linalg.norm(x, ord=q)
    return np.zeros_like(x) if norm == 0.0 else np.sign(x) * np.abs(x) ** (q - 1) / norm ** (q - 2)
