"""What one pass per row cannot do, in separate passes and one idea each: group penalties, p-norm maps, the l1 ball, the
box form of `eq:ROTD2`, trial points that a soft threshold or a box has bent, and coin betting.

The step is that of `dense`; gradients are known by their weights of φ, φ' and e (`points`), but norms are taken of the
vectors themselves. x and y are tuples of their blocks.
"""

from __future__ import annotations

import numpy as np

from sparsetd.solvers.compiled.balls import FREE, project, square_size, within_radius
from sparsetd.solvers.compiled.compile import kernel, piece
from sparsetd.solvers.compiled.dense import next_trace, products_in_range
from sparsetd.solvers.compiled.points import GRADIENT, U, fold, gradient
from sparsetd.solvers.compiled.rules import GX, GY, REACH, WEIGHT, over_root, see, steps

# --- one row ------------------------------------------------------------------------------------------------------


@piece
def products(v, f, g, h, out, at):
    """out = (v_b·φ, v_b·φ', v_b·e) of every block b, from place `at` on."""
    for b in range(len(v)):
        row, place = v[b], at + 3 * (2 - len(v) + b)
        p0 = p1 = p2 = row.dtype.type(0)
        for j in range(len(row)):
            p0 += row[j] * f[j]
            p1 += row[j] * g[j]
            if h is not None:
                p2 += row[j] * h[j]
        out[place], out[place + 1], out[place + 2] = p0, p1, p2


@piece
def add(v, weights, at, step, f, g, h, damping, point):
    """v ← v − step·(weights·(φ, φ', e) + damping·point), block by block."""
    kind = v[0].dtype.type
    for b in range(len(v)):
        place = 2 - len(v) + b
        i, row, there = at + 3 * place, v[b], point[b]
        c0, c1, c2 = kind(step * weights[i]), kind(step * weights[i + 1]), kind(step * weights[i + 2])
        c3 = kind(step * damping[at // 3 + place])
        for j in range(len(row)):
            a = c0 * f[j] + c1 * g[j] + c3 * there[j]
            if h is not None:
                a += c2 * h[j]
            row[j] -= a


@piece
def square_norm(weights, at, f, g, h, damping, point):
    """‖weights·(φ, φ', e) + damping·point‖²."""
    total, kind = 0.0, f.dtype.type
    for b in range(len(point)):
        place = 2 - len(point) + b
        i, there = at + 3 * place, point[b]
        c0, c1, c2, c3 = kind(weights[i]), kind(weights[i + 1]), kind(weights[i + 2]), kind(damping[at // 3 + place])
        for j in range(len(there)):
            a = c0 * f[j] + c1 * g[j] + c3 * there[j]
            if h is not None:
                a += c2 * h[j]
            total += np.float64(a) * a
    return total


@piece
def row_size(f, g, h, rate, fresh):
    """‖φ‖² + ‖ψ‖² + ‖e‖²."""
    nf = ng = ne = 0.0
    for j in range(len(f)):
        nf += np.float64(f[j]) * f[j]
        ng += np.float64(g[j]) * g[j]
        if h is not None:
            ne += np.float64(h[j]) * h[j]
    return nf + rate * rate * ng + (ne if h is not None else fresh * fresh * nf)


@piece
def distance2(x, origin):
    """‖x − origin‖²."""
    total = 0.0
    for b in range(len(x)):
        row, start = x[b], origin[b]
        for j in range(len(row)):
            a = np.float64(row[j]) - start[j]
            total += a * a
    return total


@piece
def copy(target, v):
    for b in range(len(v)):
        row, source = target[b], v[b]
        for j in range(len(row)):
            row[j] = source[j]


@piece
def accumulate(total, weight, v):
    if total is not None:
        for b in range(len(v)):
            row, target, c = v[b], total[b], v[b].dtype.type(weight)
            for j in range(len(row)):
                target[j] += c * row[j]


# --- proximal steps -------------------------------------------------------------------------------------------------


@piece
def shrink(v, threshold, ridge, factor):
    """prox of threshold·‖v‖₁ + ½ ridge·‖v‖², feature by feature."""
    kind = v.dtype.type
    bound, ridge, one = kind(threshold), kind(ridge), kind(1)
    for j in range(len(v)):
        c = one if factor is None else factor[j]
        tau = bound * c
        v[j] = (v[j] - min(max(v[j], -tau), tau)) / (one + ridge * c)


@piece
def _group_shrink(v, groups, threshold, norms):
    """v_g ← max(0, 1 − threshold_g/‖v_g‖) v_g for every group g."""
    norms[:] = 0.0
    for j in range(len(v)):
        norms[groups[j]] += v[j] * v[j]
    for i in range(len(norms)):
        norm = np.sqrt(norms[i])
        norms[i] = max(0.0, 1.0 - threshold[i] / norm) if norm > 0 else 1.0
    for j in range(len(v)):
        v[j] *= norms[groups[j]]


@piece
def _link(v, p):
    """v ← ∇½‖v‖_p²: sign(v_j)|v_j|^{p−1}/‖v‖_p^{p−2}; the conjugate exponent inverts it."""
    total = 0.0
    for j in range(len(v)):
        total += abs(v[j]) ** p
    if total > 0.0:
        norm = total ** (1.0 / p)
        for j in range(len(v)):
            magnitude = norm * (abs(v[j]) / norm) ** (p - 1.0)
            v[j] = magnitude if v[j] >= 0 else -magnitude


@piece
def _box(v, u, alpha, rho, factor):
    """v ← v − αu, u ← clip(u + αv, ±ρ), both from the old values: ρ‖v‖₁ as a maximum over a box (`eq:ROTD2`)."""
    for j in range(len(v)):
        bound = rho if factor is None else rho * factor[j]
        old = v[j]
        v[j] = old - alpha * u[j]
        u[j] = min(max(u[j] + alpha * old, -bound), bound)


@piece
def _descend(x, u, weights, alpha, f, g, h, damping, point, l1, l2, factor, groups, group_l1, norms, radius, p):
    """A step of x: in the mirror image, with its prox, and back."""
    first = 2 - len(x)
    for b in range(len(x)):
        if u is not None:
            _box(x[b], u[b], alpha, l1[first + b], factor)
        if p != 2.0:
            _link(x[b], p / (p - 1.0))
    add(x, weights, 0, alpha, f, g, h, damping, point)
    for b in range(len(x)):
        if groups is not None:
            _group_shrink(x[b], groups, alpha * group_l1[b], norms)
        elif u is None:
            shrink(x[b], alpha * l1[first + b], alpha * l2[first + b], factor)
        if p != 2.0:
            _link(x[b], p)
    if radius < np.inf:
        within_radius(x, radius)


@kernel
def stream(
    rule, phi, phi_next, reward, discount, fresh, old, alpha, x, y, x_sum, y_sum, u, mid_x, mid_y, e, origin, record,
    M, m, damping, l1, l2, factor, groups, group_l1, measured, trial, ball, radius, p, limit,
):  # fmt: skip
    """Advance the state in place; returns how many rows were taken before the run diverged. See `dense.stream`.

    `mid_x` and `mid_y` are room for a trial point; `u` asks for the box form of the l1 norm, `p` is the exponent of the
    mirror map (2: Euclidean).
    """
    n, k, saddle, traced = len(reward), len(x), y is not None, e is not None
    first, width, norm_M = 2 - k, 3 if traced else 2, np.sqrt((M * M).sum())
    G, room, norms = np.zeros((6, 7)), np.zeros((6, 12)), np.zeros(group_l1.shape[1])
    weights = room[GRADIENT]
    for t in range(n):
        f, g, h = phi[t], phi_next[t], None if e is None else e[0]
        if e is not None:
            next_trace(e[0], e[0], f, fresh[t], old[t])
        products(x, f, g, h, room[U], 0)
        if y is not None:
            products(y, f, g, h, room[U], 6)
        if not products_in_range(record, room, reward[t], discount[t], limit):
            return t
        fold(G, M, m, k, traced, discount[t], fresh[t])
        gradient(G, reward[t], room[U], weights, first, width, saddle)
        nx = ny = 0.0
        if measured is not None:
            nx = square_norm(weights, 0, f, g, h, damping, x)
            if y is not None:
                ny = square_norm(weights, 6, f, g, h, damping, y)
            size = row_size(f, g, h, discount[t], fresh[t])
            see(record, ny if saddle else nx, norm_M * size + max(damping[0], damping[1]))
        step, beta = steps(rule, record, alpha[t], nx, ny)
        if trial is None:
            accumulate(x_sum, step, x)
            if y is not None:
                accumulate(y_sum, step, y)
                add(y, weights, 6, beta, f, g, h, damping, y)
                project(y, ball)
            _descend(
                x, u, weights, step, f, g, h, damping, x, l1, l2, factor, groups, group_l1, norms, radius, p
            )  # fmt: skip
        else:
            copy(mid_x, x)
            _descend(
                mid_x, None, weights, step, f, g, h, damping, x, l1, l2, factor, groups, group_l1, norms, radius, p
            )  # fmt: skip
            if y is not None:
                copy(mid_y, y)
                add(mid_y, weights, 6, beta, f, g, h, damping, y)
                project(mid_y, ball)
                products(mid_y, f, g, h, room[U], 6)
            products(mid_x, f, g, h, room[U], 0)
            gradient(G, reward[t], room[U], weights, first, width, saddle)
            if measured is not None:
                nx = max(nx, square_norm(weights, 0, f, g, h, damping, mid_x))
                if y is not None:
                    ny = max(ny, square_norm(weights, 6, f, g, h, damping, mid_y))
            step, beta = steps(rule, record, alpha[t], nx, ny)
            accumulate(x_sum, step, mid_x)
            if y is not None:
                accumulate(y_sum, step, mid_y)
                add(y, weights, 6, beta, f, g, h, damping, mid_y)
                project(y, ball)
            _descend(
                x, u, weights, step, f, g, h, damping, mid_x, l1, l2, factor, groups, group_l1, norms, radius, p
            )  # fmt: skip
        record[GX] += nx
        record[GY] += ny
        record[WEIGHT] += step
        if measured is not None:
            moved = distance2(x, origin)
            if y is not None and ball == FREE:  # one step for x and y, one distance
                moved += square_size(y)
            record[REACH] = max(record[REACH], np.sqrt(moved))
    return n


# --- coin betting ---------------------------------------------------------------------------------------------------

# Columns of `coins`: betting fraction, wealth, Σm², Σ‖g‖², the largest gradient.
BETA, WEALTH, CURVATURE, SQUARES, HINT = range(5)
COINS = 5


@piece
def _toss(x, origin, u, gradient, coin):
    """One round of one block: outcome s = gᵀu, new fraction, wealth and direction, and the next point origin + βW u."""
    square = s = 0.0
    for j in range(len(u)):
        square += np.float64(gradient[j]) * gradient[j]
        s += np.float64(gradient[j]) * u[j]
    norm = np.sqrt(square)
    clip = 1.0 if norm <= coin[HINT] else coin[HINT] / norm
    coin[HINT] = max(coin[HINT], norm)
    s *= clip
    stake = coin[BETA] * coin[WEALTH]
    slope = s / (1.0 - coin[BETA] * s)
    coin[CURVATURE] += slope * slope
    if coin[CURVATURE] > 0.0:
        most = 0.5 / coin[HINT]
        coin[BETA] = min(max(coin[BETA] - 2.0 * slope / ((2.0 - np.log(3.0)) * coin[CURVATURE]), -most), most)
    coin[WEALTH] -= s * stake
    coin[SQUARES] += clip * clip * square
    step = u.dtype.type(clip * over_root(np.sqrt(0.5), coin[SQUARES]))
    length = 0.0
    for j in range(len(u)):
        u[j] -= step * gradient[j]
        length += np.float64(u[j]) * u[j]
    scale = u.dtype.type(1.0 / np.sqrt(length)) if length > 1.0 else u.dtype.type(1)
    bet = u.dtype.type(coin[BETA] * coin[WEALTH])
    for j in range(len(u)):
        u[j] *= scale
        x[j] = origin[j] + bet * u[j]


@kernel
def coin_betting(
    phi, phi_next, reward, discount, fresh, old, x, x_sum, e, origin, record, directions, coins,
    M, m, damping, radius, limit,
):  # fmt: skip
    """Advance the state in place, every block with its own coin; returns the rows taken before the run diverged."""
    k, traced = len(x), e is not None
    G, room, direction = np.zeros((6, 7)), np.zeros((6, 12)), np.zeros_like(directions)
    for t in range(len(reward)):
        f, g, h = phi[t], phi_next[t], None if e is None else e[0]
        if e is not None:
            next_trace(e[0], e[0], f, fresh[t], old[t])
        products(x, f, g, h, room[U], 0)
        if not products_in_range(record, room, reward[t], discount[t], limit):
            return t
        fold(G, M, m, k, traced, discount[t], fresh[t])
        gradient(G, reward[t], room[U], room[GRADIENT], 2 - k, 3 if traced else 2, False)
        direction[:] = 0.0
        add(direction, room[GRADIENT], 0, -1.0, f, g, h, damping, x)
        accumulate(x_sum, 1.0, x)
        record[WEIGHT] += 1.0
        for b in range(k):
            _toss(x[b], origin[b], directions[b], direction[b], coins[b])
        if radius < np.inf:
            within_radius(x, radius)
    return len(reward)
