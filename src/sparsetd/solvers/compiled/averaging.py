"""Dual averaging on a dense state: the point is a function of the sums s_x and s_y of all gradients.

    x = argmin ⟨s_x, x⟩ + Σa_i h(x) + ½√Σ‖g_x‖² ‖x − x_0‖²      y = Π(R s_y/√Σa_i²‖g_y‖²)      s = Σa_i g

with a_t = max(r̄_t, r_0) and gradients at trial points, which include the row's own gradient. The gradient of x at the
trial point depends on y alone, whose trial point is s_y and D scaled: so a pass over x forms its trial point and its
next one, and a pass over y follows. Other balls than y's l2 ball, and a bound on ‖x‖, need more (`solvers.plain`).
"""

from __future__ import annotations

import numpy as np

from sparsetd.solvers.compiled.compile import kernel, part, piece
from sparsetd.solvers.compiled.dense import (
    HUGE,
    gram_with,
    mixed,
    next_trace,
    products_in_range,
    seen,
    shrunk,
    three,
    write_gram,
)
from sparsetd.solvers.compiled.points import (
    GRADIENT,
    NEXT,
    TRIAL,
    TRIED,
    U,
    adjoint,
    fold,
    inner,
    residual,
    square,
    tried,
)
from sparsetd.solvers.compiled.rules import GX, GY, MASS, REACH, START, WEIGHT, over_root, see


@part
def into_unit_ball(factor, size):
    """The factor of y = factor·v, or of its projection on the unit ball, for ‖v‖² = size."""
    return 1.0 / np.sqrt(size) if factor * factor * size > 1.0 else factor


@part
def _point(s, start, point, threshold, ridge, weigh, one):
    """x of a sum of gradients, start − s/β after its prox; `point` is 1/β."""
    return shrunk(start - point * s, threshold, ridge, weigh, one)


@part
def _penalty(point, l1, l2, factor, kind):
    """1/β, threshold and ridge of a point (1/β, Σa_i), as `shrunk` wants them."""
    ridge = kind(point[0] * point[1] * l2)
    return kind(point[0]), kind(point[0] * point[1] * l1), ridge if factor is not None else kind(1) / (kind(1) + ridge)


@piece
def _x_pass(s, total, share, origin, f, g, h, f2, g2, h2, mid, a, c, first, then, l1, l2, factor, out, tried_out, b):
    """Trial point, sum of gradients and next point of one block; returns ‖x − x_0‖².

    `c` and `mid` are the weights of D in the gradients at the point and at its trial point; `first` and `then` are
    (1/β, Σa_i) of the two points.
    """
    kind = s.dtype.type
    c, mid, weight, zero, one = three(c, b, a, kind), three(mid, b, a, kind), kind(a), kind(0), kind(1)
    (k1, t1, r1), (k2, t2, r2) = _penalty(first, l1, l2, factor, kind), _penalty(then, l1, l2, factor, kind)
    q = p = (zero, zero, zero, zero)
    moved = zero
    for j in range(len(s)):
        hj, h2j = None if h is None else h[j], None if h is None else h2[j]
        start, weigh = zero if origin is None else origin[j], None if factor is None else factor[j]
        trial = _point(mixed(one, s[j], c, f[j], g[j], hj), start, k1, t1, r1, weigh, one)
        s[j] = mixed(one, s[j], mid, f[j], g[j], hj)
        v = _point(s[j], start, k2, t2, r2, weigh, one)
        if total is not None:
            total[j] += weight * trial
            share[j] += weight if trial != 0 else zero
        q, p = seen(q, trial, f[j], g[j], hj, None), seen(p, v, f2[j], g2[j], h2j, None)
        moved += (v - start) * (v - start)
    for i in range(3):
        tried_out[3 * b + i], out[3 * b + i] = q[i], p[i]
    return moved


@piece
def _y_pass(s, total, f, g, h, f2, g2, h2, a, factor, c, mid, out, b, gram, rate, fresh):
    """Average and sum of gradients of one block; returns ‖s‖². `out` gets the products of s with the next row."""
    kind = s.dtype.type
    c, mid, keep, times = three(c, b, a * factor * a, kind), three(mid, b, a, kind), kind(a * factor), kind(rate)
    zero, one = kind(0), kind(1)
    p, sums = (zero, zero, zero, zero), (zero, zero, zero, zero, zero, zero)
    for j in range(len(s)):
        hj, h2j = None if h is None else h[j], None if h is None else h2[j]
        if gram is not None:
            sums = gram_with(sums, f2[j], f2[j] - times * g2[j], h2j)
        if total is not None:
            total[j] += mixed(keep, s[j], c, f[j], g[j], hj)
        s[j] = mixed(one, s[j], mid, f[j], g[j], hj)
        p = seen(p, s[j], f2[j], g2[j], h2j, True)
    for i in range(3):
        out[3 * b + i] = p[i]
    if gram is not None:
        write_gram(gram, sums, h is not None, fresh)
    return p[3]


@kernel
def stream(
    phi, phi_next, reward, discount, fresh, old, x_sum, y_sum, share, origin, e, record, sx, sy,
    M, m, l1, l2, factor, dual_radius, start, limit,
):  # fmt: skip
    """Advance the sums in place; returns how many rows were taken before the run diverged. `origin` is None for 0."""
    n, k, traced, now, taken = len(reward), sx.shape[0], e is not None, 0, 0
    low, width, norm_M = 2 - k, 3 if traced else 2, np.sqrt((M * M).sum())
    G, room, gram, sums = np.zeros((6, 7)), np.zeros((6, 12)), np.zeros(6), np.zeros(12)
    u, c, mid, size, y_factor = room[U], room[GRADIENT], room[NEXT], 0.0, 0.0
    for t in range(-1, n):  # row −1 is row 0 with a weight of 0: its passes form the products
        here, there, after, a, beta, factor_mid = t if t > 0 else 0, t + 1 if t + 1 < n else t, now, 0.0, 0.0, 0.0
        if t >= 0:
            for i in range(6):
                u[6 + i] = y_factor * sums[6 + i]
            if not (gram[0] + gram[2] < HUGE and products_in_range(record, room, reward[t], discount[t], limit)):
                break
            fold(G, M, m, k, traced, discount[t], fresh[t])
            adjoint(G, u, c, low, width)
            residual(G, reward[t], u, c, 6, low, width)
            nx = ny = 0.0
            for b in range(low, 2):
                nx += square(c, b, gram, discount[t])
                ny += square(c, 2 + b, gram, discount[t])
            ny, nx = max(ny, 0.0), max(nx, 0.0)
            length = gram[0] + (gram[0] - 2.0 * gram[1] + gram[2]) + gram[5]
            see(record, ny, norm_M * length)
            a = max(record[REACH], start * record[START])
            beta = np.sqrt(record[GX] + nx)
            growth = a * a * ny
            for b in range(low, 2):
                growth += 2.0 * a * inner(c, sums, 2 + b)
            factor_mid = into_unit_ball(over_root(dual_radius, record[GY] + a * a * ny), size + growth)
            for b in range(low, 2):
                for i in range(6 + 3 * b, 9 + 3 * b):
                    room[TRIAL, i] = factor_mid * a * c[i]
                tried(sums, factor_mid, room[TRIAL], 2 + b, gram, discount[t], room[TRIED])
            adjoint(G, room[TRIED], mid, low, width)
            mx = 0.0
            for b in range(low, 2):
                mx += square(mid, b, gram, discount[t])
            record[GX] += max(nx, mx)
        first = (1.0 / beta if beta > 0.0 else 0.0, record[MASS] + a)
        record[MASS] += a
        root = np.sqrt(record[GX])
        then = (1.0 / root if root > 0.0 else 0.0, record[MASS])
        if e is not None and t + 1 < n:
            after = 1 - now
            next_trace(e[now], e[after], phi[there], fresh[there], old[there])
        f, g, f2, g2 = phi[here], phi_next[here], phi[there], phi_next[there]
        h, h2 = None if e is None else e[now], None if e is None else e[after]
        moved = 0.0
        for b in range(k):
            moved += _x_pass(
                sx[b], None if x_sum is None else x_sum[b], None if x_sum is None else share[b],
                None if origin is None else origin[b], f, g, h, f2, g2, h2, mid, a, c, first, then, l1[low + b],
                l2[low + b], factor, u, room[TRIED], low + b,
            )  # fmt: skip
        if t >= 0:
            residual(G, reward[t], room[TRIED], mid, 6, low, width)
            my = 0.0
            for b in range(low, 2):
                my += square(mid, 2 + b, gram, discount[t])
            record[GY] += a * a * max(ny, my)
            record[WEIGHT] += a
            record[REACH] = max(record[REACH], np.sqrt(moved))
        size = _y_pass(
            sy[k - 1], None if y_sum is None else y_sum[k - 1], f, g, h, f2, g2, h2, a, factor_mid, c, mid, sums, 3,
            gram, discount[there], fresh[there],
        )  # fmt: skip
        if k == 2:
            size += _y_pass(
                sy[0], None if y_sum is None else y_sum[0], f, g, h, f2, g2, h2, a, factor_mid, c, mid, sums, 2,
                None, 0.0, 0.0,
            )  # fmt: skip
        y_factor = into_unit_ball(over_root(dual_radius, record[GY]), size)
        now, taken = after, t + 1
    if e is not None and now == 1:
        e[0] = e[1]
    return taken
