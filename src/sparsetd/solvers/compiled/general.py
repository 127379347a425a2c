"""What one pass per row cannot do, in separate passes and one idea each: p-norm maps, the l1 ball, the box form of
`eq:ROTD2`, and trial points that a soft threshold or a box has bent.

The step is that of `dense`; gradients are known by their weights of φ, φ' and e (`points`), but norms are taken of the
vectors themselves. x and y are tuples of their blocks.
"""

from __future__ import annotations

import numpy as np

from sparsetd.solvers.compiled.balls import FREE, project, square_size, within_radius
from sparsetd.solvers.compiled.compile import kernel, part, piece
from sparsetd.solvers.compiled.dense import mixed, next_trace, products_in_range, seen, shrunk, three
from sparsetd.solvers.compiled.points import GRADIENT, U, fold, gradient
from sparsetd.solvers.compiled.rules import GX, GY, WEIGHT, see, see_distance, size_of_row, steps

# --- one row ------------------------------------------------------------------------------------------------------


@piece
def products(v, f, g, h, out, at):
    """out = (v_b·φ, v_b·φ', v_b·e) of every block b, from place `at` on."""
    for b in range(len(v)):
        row, place = v[b], at + 3 * (2 - len(v) + b)
        zero = row.dtype.type(0)
        p = (zero, zero, zero, zero)
        for j in range(len(row)):
            p = seen(p, row[j], f[j], g[j], None if h is None else h[j], None)
        out[place], out[place + 1], out[place + 2] = p[0], p[1], p[2]


@piece
def add(v, weights, at, step, f, g, h, damping, point):
    """v ← v − step·(weights·(φ, φ', e) + damping·point), block by block."""
    kind = v[0].dtype.type
    for b in range(len(v)):
        place, row, there = at // 3 + 2 - len(v) + b, v[b], point[b]
        c, d = three(weights, place, step, kind), kind(step * damping[place])
        for j in range(len(row)):
            row[j] -= mixed(d, there[j], c, f[j], g[j], None if h is None else h[j])


@piece
def square_norm(weights, at, f, g, h, damping, point):
    """‖weights·(φ, φ', e) + damping·point‖²."""
    total, kind = 0.0, f.dtype.type
    for b in range(len(point)):
        place, there = at // 3 + 2 - len(point) + b, point[b]
        c, d = three(weights, place, 1.0, kind), kind(damping[place])
        for j in range(len(there)):
            a = mixed(d, there[j], c, f[j], g[j], None if h is None else h[j])
            total += np.float64(a) * a
    return total


@part
def row_size(f, g, h, rate, fresh):
    """The bound of ‖A_t‖/‖M‖."""
    nf = square_size((f,))
    return size_of_row(nf, rate * rate * square_size((g,)), fresh * fresh * nf if h is None else square_size((h,)))


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
        v[j] = shrunk(v[j], bound, ridge, one if factor is None else factor[j], one)


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
def _descend(x, u, weights, alpha, row, fixed, point, factor, p):
    """A step of x: in the mirror image, with its prox, and back."""
    first, l1, l2, (f, g, h) = 2 - len(x), fixed.l1, fixed.l2, row
    for b in range(len(x)):
        if u is not None:
            _box(x[b], u[b], alpha, l1[first + b], factor)
        if p != 2.0:
            _link(x[b], p / (p - 1.0))
    add(x, weights, 0, alpha, f, g, h, fixed.damping, point)
    for b in range(len(x)):
        if u is None:
            shrink(x[b], alpha * l1[first + b], alpha * l2[first + b], factor)
        if p != 2.0:
            _link(x[b], p)
    if fixed.radius < np.inf:
        within_radius(x, fixed.radius)


@kernel
def stream(rule, rows, x, y, averages, u, mid, e, origin, record, fixed, factor, measured, trial, ball, p):
    """Advance the state in place; returns how many rows were taken before the run diverged. See `dense.stream`.

    `averages` are the sums of x and y, or None, and `mid` is room for a trial point; `u` asks for the box form of the
    l1 norm, `p` is the exponent of the mirror map (2: Euclidean).
    """
    phi, phi_next, reward, discount, fresh, old, alpha = rows
    k, saddle, traced, damping = len(x), y is not None, e is not None, fixed.damping
    first, width, G, room = 2 - k, 3 if traced else 2, np.zeros((6, 7)), np.zeros((6, 12))
    weights = room[GRADIENT]
    for t in range(len(reward)):
        f, g, h = phi[t], phi_next[t], None if e is None else e[0]
        row = (f, g, h)
        if e is not None:
            next_trace(e[0], e[0], f, fresh[t], old[t])
        products(x, f, g, h, room[U], 0)
        if y is not None:
            products(y, f, g, h, room[U], 6)
        if not products_in_range(record, room, reward[t], discount[t], fixed.limit):
            return t
        fold(G, fixed.M, fixed.m, k, traced, discount[t], fresh[t])
        gradient(G, reward[t], room[U], weights, first, width, saddle)
        nx = ny = 0.0
        if measured is not None:
            nx = square_norm(weights, 0, f, g, h, damping, x)
            if y is not None:
                ny = square_norm(weights, 6, f, g, h, damping, y)
            size = row_size(f, g, h, discount[t], fresh[t])
            see(record, ny if saddle else nx, fixed.norm * size + max(damping[0], damping[1]))
        step, beta = steps(rule, record, alpha[t], nx, ny)
        at_x, at_y = x, y
        if trial is not None:
            at_x, at_y = mid
            copy(at_x, x)
            _descend(at_x, None, weights, step, row, fixed, x, factor, p)
            products(at_x, f, g, h, room[U], 0)
            if y is not None:
                copy(at_y, y)
                add(at_y, weights, 6, beta, f, g, h, damping, y)
                project(at_y, ball)
                products(at_y, f, g, h, room[U], 6)
            gradient(G, reward[t], room[U], weights, first, width, saddle)
            if measured is not None:
                nx = max(nx, square_norm(weights, 0, f, g, h, damping, at_x))
                if y is not None:
                    ny = max(ny, square_norm(weights, 6, f, g, h, damping, at_y))
            step, beta = steps(rule, record, alpha[t], nx, ny)
        if averages is not None:
            accumulate(averages[0], step, at_x)
            if y is not None:
                accumulate(averages[1], step, at_y)
        if y is not None:
            add(y, weights, 6, beta, f, g, h, damping, at_y)
            project(y, ball)
        _descend(x, u, weights, step, row, fixed, at_x, factor, p)
        record[GX] += nx
        record[GY] += ny
        record[WEIGHT] += step
        if measured is not None:
            moved = distance2(x, origin)
            if y is not None and ball == FREE:  # one step for x and y, one distance
                moved += square_size(y)
            see_distance(record, moved)
    return len(reward)
