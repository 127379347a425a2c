"""The paper's iterations with literal matrices. `pairs` is the list of (A_t, b_t); x and y are flat vectors.

`steps` holds N + 1 numbers: α_t for t < N moves the iterate, and α_N only weighs x_N in the average (eq:averaging).
`prox(x, alpha)` is prox_{αh}. Every loop returns a dict with `x` (last), `x_bar` (averaged) and, for saddle points, y.
"""

from __future__ import annotations

import numpy as np

from .proximal import link, project, soft_threshold


def no_penalty(x, alpha):  # noqa: ARG001 (the signature of a prox)
    return x


def l1(rho):
    """prox of h = ρ‖x‖₁; ρ a number or a vector."""
    return lambda x, alpha: soft_threshold(x, alpha * rho)


def averaged(iterates, steps):
    """x̄ = (Σ_{i=0}^{N} α_i)⁻¹ Σ_{i=0}^{N} α_i x_i: eq:averaging, x_0 and x_N included."""
    return np.average(np.array(iterates), axis=0, weights=np.asarray(steps)[: len(iterates)])


def stochastic(pairs, x0, steps, prox=no_penalty):
    """x ← prox_{αh}(x − α(A_t x − b_t)): TD, TDC, GTD2, GQ and their L1 versions."""
    xs = [np.array(x0, dtype=float)]
    for (A, b), alpha in zip(pairs, steps, strict=False):
        xs.append(prox(xs[-1] - alpha * (A @ xs[-1] - b), alpha))
    return {"x": xs[-1], "x_bar": averaged(xs, steps), "xs": np.array(xs)}


def primal_dual(pairs, x0, y0, steps, n=2, prox=no_penalty, projection=project):
    """eq:RO-TD with eq:averaging."""
    xs, ys = [np.array(x0, dtype=float)], [np.array(y0, dtype=float)]
    for (A, b), alpha in zip(pairs, steps, strict=False):
        x, y = xs[-1], ys[-1]
        x_half, y_half = x - alpha * A.T @ y, y + alpha * (A @ x - b)
        xs.append(prox(x_half, alpha))
        ys.append(projection(y_half, n))
    return _saddle_result(xs, ys, steps)


def mirror_prox(pairs, x0, steps, prox=no_penalty):
    """Extragradient on F(x) = A_t x − b_t, the same sample twice; x̄ averages the midpoints (GTD2-MP, TDC-MP)."""
    x, midpoints = np.array(x0, dtype=float), []
    for (A, b), alpha in zip(pairs, steps, strict=False):
        middle = prox(x - alpha * (A @ x - b), alpha)
        x = prox(x - alpha * (A @ middle - b), alpha)
        midpoints.append(middle)
    return {"x": x, "x_bar": averaged(midpoints, steps)}


def mirror_prox_saddle(pairs, x0, y0, steps, n=2, prox=no_penalty, p=None, blocks=2, rho=0.0):
    """Extragradient on the saddle function of eq:regminimax; x̄, ȳ average the midpoints.

    With `p`, x moves through the p-norm link and its soft threshold αρ instead of by `prox`.
    """
    x, y = np.array(x0, dtype=float), np.array(y0, dtype=float)
    x_mids, y_mids = [], []

    def move(x, gradient, alpha):
        return prox(x - alpha * gradient, alpha) if p is None else mirror_step(x, gradient, alpha, p, rho, blocks)

    for (A, b), alpha in zip(pairs, steps, strict=False):
        x_mid, y_mid = move(x, A.T @ y, alpha), project(y + alpha * (A @ x - b), n)
        x, y = move(x, A.T @ y_mid, alpha), project(y + alpha * (A @ x_mid - b), n)
        x_mids.append(x_mid)
        y_mids.append(y_mid)
    return {"x": x, "y": y, "x_bar": averaged(x_mids, steps), "y_bar": averaged(y_mids, steps)}


def least_squares_saddle(pairs, x0, y0, u0, steps, rho):
    """eq:ROTD2 in the scaled form of E5: u ← ρu, y ← ρy turn the printed updates into descent–ascent with step α."""
    xs, ys, us = [np.array(x0, dtype=float)], [np.array(y0, dtype=float)], [np.array(u0, dtype=float)]
    for (A, b), alpha in zip(pairs, steps, strict=False):
        x, y, u = xs[-1], ys[-1], us[-1]
        xs.append(x - alpha * (u + A.T @ y))
        ys.append(y + alpha * (A @ x - b - y))
        us.append(np.clip(u + alpha * x, -rho, rho))
    return {**_saddle_result(xs, ys, steps), "u": us[-1], "u_bar": averaged(us, steps)}


def least_squares_saddle_printed(pairs, x0, y0, u0, steps, rho):
    """eq:ROTD2 exactly as printed, ‖u‖_∞ ≤ 1."""
    xs, ys, us = [np.array(x0, dtype=float)], [np.array(y0, dtype=float)], [np.array(u0, dtype=float)]
    for (A, b), alpha in zip(pairs, steps, strict=False):
        x, y, u = xs[-1], ys[-1], us[-1]
        xs.append(x - alpha * rho * (u + A.T @ y))
        ys.append(y + alpha / rho * (A @ x - b - rho * y))
        us.append(np.clip(u + alpha / rho * x, -1.0, 1.0))
    return {**_saddle_result(xs, ys, steps), "u": us[-1], "u_bar": averaged(us, steps)}


def mirror_step(x, gradient, alpha, p, rho, blocks):
    """f_p(S_{αρ}(f_q(x) − α gradient)), 1/p + 1/q = 1, in each of the equal blocks of x; ρ may be a vector."""
    q = p / (p - 1.0)
    dual = np.concatenate([link(part, q) for part in np.split(x, blocks)]) - alpha * gradient
    return np.concatenate([link(part, p) for part in np.split(soft_threshold(dual, alpha * rho), blocks)])


def mirror_descent(pairs, x0, steps, p, rho=0.0, blocks=1):
    """p-norm mirror descent: f_q(x⁺) = S_{αρ}(f_q(x) − α(A_t x − b_t)); p = 2 is `stochastic`."""
    xs = [np.array(x0, dtype=float)]
    for (A, b), alpha in zip(pairs, steps, strict=False):
        xs.append(mirror_step(xs[-1], A @ xs[-1] - b, alpha, p, rho, blocks))
    return {"x": xs[-1], "x_bar": averaged(xs, steps)}


def mirror_prox_p_norm(pairs, x0, steps, p, rho=0.0, blocks=1):
    """Mirror-prox with the p-norm link: both steps start from x; x̄ averages the midpoints."""
    x, midpoints = np.array(x0, dtype=float), []
    for (A, b), alpha in zip(pairs, steps, strict=False):
        middle = mirror_step(x, A @ x - b, alpha, p, rho, blocks)
        x = mirror_step(x, A @ middle - b, alpha, p, rho, blocks)
        midpoints.append(middle)
    return {"x": x, "x_bar": averaged(midpoints, steps)}


def _saddle_result(xs, ys, steps):
    return {
        "x": xs[-1],
        "y": ys[-1],
        "x_bar": averaged(xs, steps),
        "y_bar": averaged(ys, steps),
        "xs": np.array(xs),
        "ys": np.array(ys),
    }
