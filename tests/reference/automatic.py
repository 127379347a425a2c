"""The rules of the automatic solvers as one reads them, on explicit matrices A_t; nothing here comes from sparsetd."""

from __future__ import annotations

import numpy as np


def log(n=120, d=5, seed=0):
    """Columns (φ, φ', r, γ, ρ, start) of an off-policy log of several episodes."""
    rng = np.random.default_rng(seed)
    start = rng.random(n) < 0.1
    start[0] = True
    discount = np.where(rng.random(n) < 0.1, 0.0, 0.9)
    phi, phi_next = rng.normal(size=(2, n, d))
    return phi, phi_next, rng.normal(size=n) + phi[:, 0], discount, rng.uniform(0.3, 1.7, n), start


def systems(name, columns, eta=1.0, lam=0.0, beta=0.0):
    """[(A_t, b_t, bound of ‖A_t‖ without ‖M‖)] of TD, TDC and GTD2 as the papers print them; x = θ or [w; θ]."""
    phi, phi_next, reward, discount, ratio, start = columns
    d, e, out = phi.shape[1], np.zeros(phi.shape[1]), []
    for t in range(len(reward)):
        into = 0.0 if start[t] or t == 0 else discount[t - 1]
        e = ratio[t] * (phi[t] + into * lam * e)
        psi = discount[t] * phi_next[t]
        delta, (ff, gg, ee) = phi[t] - psi, (v @ v for v in (phi[t], psi, e))
        size = ff + gg + np.sqrt(ee * max(ff, gg))
        top = [eta * np.outer(phi[t], phi[t]) + eta * beta * np.eye(d), eta * np.outer(e, delta)]
        if name == "td":
            A, b = np.outer(e, delta), reward[t] * e
        elif name == "tdc":
            A = np.block([top, [(1 - lam) * np.outer(psi, e), np.outer(e, delta)]])
            b = reward[t] * np.concatenate([eta * e, e])
        else:
            A = np.block([top, [-np.outer(delta, e), np.zeros((d, d))]])
            b = reward[t] * np.concatenate([eta * e, 0 * e])
        out.append((A, b, size))
    return out


def soft(v, threshold, ridge=0.0):
    return np.sign(v) * np.maximum(np.abs(v) - threshold, 0.0) / (1.0 + ridge)


def project(y, norm):
    """On the unit ball of the l1, l2 or l∞ norm, the l1 ball by bisection."""
    if norm is None:
        return y
    if norm == 2:
        return y / max(1.0, np.linalg.norm(y))
    if norm == np.inf:
        return np.clip(y, -1, 1)
    if np.abs(y).sum() <= 1:
        return y
    low, high = 0.0, np.abs(y).max()
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if np.abs(soft(y, middle)).sum() > 1 else (low, middle)
    return soft(y, high)


def divide(a, square):
    return a / np.sqrt(square) if square > 0 else 0.0


def distance_over_gradients(
    rows, x0, norm_M, start, cap, l1=0.0, l2=0.0, extragradient=False, damping=0.0, radius=np.inf
):
    """x ← prox(x − α(A_t x − b_t)): (last point, points averaged, their weights)."""
    x, G, reach, first, sizes, points, weights = x0.copy(), 0.0, 0.0, 0.0, [], [], []

    def step(x, g, alpha):
        x = soft(x - alpha * g, alpha * l1, alpha * l2)
        return x * min(1.0, radius / max(np.linalg.norm(x), 1e-300))

    for A, b, size in rows:
        g = A @ x - b
        bound = norm_M * size + damping
        first = max(first, start * np.linalg.norm(g) / bound)
        sizes.append(bound)
        top, square, point = cap * min(1.0 / np.mean(sizes), 1.5 / bound), g @ g, x
        if extragradient:
            point = step(x, g, min(divide(max(reach, first), G + square), top))
            g = A @ point - b
            square = max(square, g @ g)
        G += square
        alpha = min(divide(max(reach, first), G), top)
        points.append(point)
        weights.append(alpha)
        x = step(x, g, alpha)
        reach = max(reach, np.linalg.norm(x - x0))
    return x, np.array(points), np.array(weights)


def saddle_distance_over_gradients(rows, x0, norm_M, start, ball, l1=0.0, l2=0.0, joint=False):
    """Extragradient on yᵀ(A_t x − b_t) (− ½‖y‖² if joint) + h(x): (x, y, trial points of x, of y, weights)."""
    x, y, Gx, Gy, reach, first = x0.copy(), 0 * x0, 0.0, 0.0, 0.0, 0.0
    dual_radius = np.sqrt(len(x0)) if ball == np.inf else 1.0
    xs, ys, weights = [], [], []

    def steps(far, Gx, Gy):
        return (divide(far, Gx + Gy),) * 2 if joint else (divide(far, Gx), divide(dual_radius, Gy))

    for A, b, size in rows:
        gx, gy = A.T @ y, A @ x - b - joint * y
        first = max(first, start * np.linalg.norm(gy) / (norm_M * size))
        alpha, beta = steps(max(reach, first), Gx + gx @ gx, Gy + gy @ gy)
        xm, ym = soft(x - alpha * gx, alpha * l1, alpha * l2), project(y + beta * gy, ball)
        hx, hy = A.T @ ym, A @ xm - b - joint * ym
        Gx, Gy = Gx + max(gx @ gx, hx @ hx), Gy + max(gy @ gy, hy @ hy)
        alpha, beta = steps(max(reach, first), Gx, Gy)
        xs.append(xm)
        ys.append(ym)
        weights.append(alpha)
        x, y = soft(x - alpha * hx, alpha * l1, alpha * l2), project(y + beta * hy, ball)
        reach = max(reach, np.sqrt(np.sum((x - x0) ** 2) + joint * (y @ y)))
    return x, y, np.array(xs), np.array(ys), np.array(weights)


def dual_averaging(rows, x0, norm_M, start, ball, l1=0.0, l2=0.0):
    """The point as a function of all gradients: (x, y, trial points of x, of y, weights)."""
    x, y, sx, sy, Gx, Gy, mass, reach, first = x0.copy(), 0 * x0, 0 * x0, 0 * x0, 0.0, 0.0, 0.0, 0.0, 0.0
    dual_radius = np.sqrt(len(x0)) if ball == np.inf else 1.0

    def primal(s, G, mass, old):
        return soft(x0 - s / np.sqrt(G), mass * l1 / np.sqrt(G), mass * l2 / np.sqrt(G)) if G > 0 else old

    xs, ys, weights = [], [], []
    for A, b, size in rows:
        gx, gy = A.T @ y, A @ x - b
        first = max(first, start * np.linalg.norm(gy) / (norm_M * size))
        a = max(reach, first)
        xm = primal(sx + a * gx, Gx + gx @ gx, mass + a, x)
        ym = project((sy + a * gy) * divide(dual_radius, Gy + a * a * (gy @ gy)), ball)
        hx, hy = A.T @ ym, A @ xm - b
        Gx, Gy, mass = Gx + max(gx @ gx, hx @ hx), Gy + a * a * max(gy @ gy, hy @ hy), mass + a
        sx, sy = sx + a * hx, sy + a * hy
        xs.append(xm)
        ys.append(ym)
        weights.append(a)
        x, y = primal(sx, Gx, mass, x), project(sy * divide(dual_radius, Gy), ball)
        reach = max(reach, np.linalg.norm(x - x0))
    return x, y, np.array(xs), np.array(ys), np.array(weights)


def coin_betting(rows, x0, n_blocks, wealth, hint):
    """One gambler per block: (last point, points played)."""
    d = len(x0) // n_blocks
    gamblers = [
        {"beta": 0.0, "W": wealth / n_blocks, "A": 0.0, "G": 0.0, "h": hint, "u": np.zeros(d)} for _ in range(n_blocks)
    ]
    x, points = x0.copy(), []
    for A, b, _ in rows:
        points.append(x.copy())
        gradient = (A @ x - b).reshape(n_blocks, d)
        for i, (p, g) in enumerate(zip(gamblers, gradient, strict=True)):
            norm = np.linalg.norm(g)
            cut = g if norm <= p["h"] else g * p["h"] / norm
            p["h"] = max(p["h"], norm)
            s, v = cut @ p["u"], p["beta"] * p["W"]
            m = s / (1 - p["beta"] * s)
            p["A"] += m * m
            if p["A"] > 0:
                p["beta"] = np.clip(p["beta"] - 2 * m / ((2 - np.log(3)) * p["A"]), -0.5 / p["h"], 0.5 / p["h"])
            p["W"] -= s * v
            p["G"] += cut @ cut
            u = p["u"] - divide(np.sqrt(0.5), p["G"]) * cut
            p["u"] = u / max(1.0, np.linalg.norm(u))
            x[i * d : (i + 1) * d] = x0[i * d : (i + 1) * d] + p["beta"] * p["W"] * p["u"]
    return x, np.array(points)
