"""Dual averaging on a dense state: the point is a function of the sums s_x and s_y of all gradients.

    x = argmin ⟨s_x, x⟩ + Σa_i h(x) + ½√Σ‖g_x‖² ‖x − x_0‖²      y = Π(R s_y/√Σa_i²‖g_y‖²)      s = Σa_i g

with a_t = max(r̄_t, r_0) and gradients at trial points, which include the row's own gradient. The gradient of x at the
trial point depends on y alone, whose trial point is s_y and D scaled: so a pass over x forms its trial point and its
next one, and a pass over y follows. Other balls than y's l2 ball, and a bound on ‖x‖, need more passes (`stepwise`).
"""

from __future__ import annotations

import numpy as np

from sparsetd.solvers.compiled.balls import project, within_radius
from sparsetd.solvers.compiled.compile import kernel, part, piece
from sparsetd.solvers.compiled.dense import next_trace, products_in_range
from sparsetd.solvers.compiled.general import accumulate, add, copy, distance2, products, row_size, shrink, square_norm
from sparsetd.solvers.compiled.points import (
    GRADIENT,
    NEXT,
    TRIAL,
    TRIED,
    U,
    adjoint,
    fold,
    gradient,
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


@piece
def _x_pass(s, total, share, origin, f, g, h, f2, g2, h2, mid, a, c, first, then, l1, l2, factor, out, tried_out, b):
    """Trial point, sum of gradients and next point of one block; returns ‖x − x_0‖².

    `c` and `mid` are the weights of D in the gradients at the point and at its trial point; `first` and `then` are
    (1/β, Σa_i) of the two points.
    """
    kind, i = s.dtype.type, 3 * b
    c0, c1, c2 = kind(a * c[i]), kind(a * c[i + 1]), kind(a * c[i + 2])
    m0, m1, m2 = kind(a * mid[i]), kind(a * mid[i + 1]), kind(a * mid[i + 2])
    k1, k2, weight, one = kind(first[0]), kind(then[0]), kind(a), kind(1)
    t1, t2 = kind(first[0] * first[1] * l1), kind(then[0] * then[1] * l1)
    r1, r2 = kind(first[0] * first[1] * l2), kind(then[0] * then[1] * l2)
    q0 = q1 = q2 = p0 = p1 = p2 = moved = kind(0)
    for j in range(len(s)):
        v, start = s[j], kind(0) if origin is None else origin[j]
        weigh = one if factor is None else factor[j]
        trial = v + c0 * f[j] + c1 * g[j]
        v += m0 * f[j] + m1 * g[j]
        if h is not None:
            trial += c2 * h[j]
            v += m2 * h[j]
        s[j] = v
        trial, v = start - k1 * trial, start - k2 * v
        bound, other = t1 * weigh, t2 * weigh
        trial = (trial - min(max(trial, -bound), bound)) / (one + r1 * weigh)
        v = (v - min(max(v, -other), other)) / (one + r2 * weigh)
        if total is not None:
            total[j] += weight * trial
            share[j] += weight if trial != 0 else kind(0)
        q0 += trial * f[j]
        q1 += trial * g[j]
        p0 += v * f2[j]
        p1 += v * g2[j]
        if h is not None:
            q2 += trial * h[j]
            p2 += v * h2[j]
        moved += (v - start) * (v - start)
    tried_out[i], tried_out[i + 1], tried_out[i + 2] = q0, q1, q2
    out[i], out[i + 1], out[i + 2] = p0, p1, p2
    return moved


@piece
def _y_pass(s, total, f, g, h, f2, g2, h2, a, factor, c, mid, out, b, gram, rate, fresh):
    """Average and sum of gradients of one block; returns ‖s‖². `out` gets the products of s with the next row."""
    kind, i = s.dtype.type, 3 * b
    c0, c1, c2 = kind(a * factor * a * c[i]), kind(a * factor * a * c[i + 1]), kind(a * factor * a * c[i + 2])
    m0, m1, m2, keep = kind(a * mid[i]), kind(a * mid[i + 1]), kind(a * mid[i + 2]), kind(a * factor)
    p0 = p1 = p2 = size = ff = fd = dd = fe = de = ee = kind(0)
    times = kind(rate)
    for j in range(len(s)):
        v = s[j]
        if gram is not None:
            d = f2[j] - times * g2[j]
            ff += f2[j] * f2[j]
            fd += f2[j] * d
            dd += d * d
            if h is not None:
                fe += f2[j] * h2[j]
                de += d * h2[j]
                ee += h2[j] * h2[j]
        if total is not None:
            more = keep * v + c0 * f[j] + c1 * g[j]
            if h is not None:
                more += c2 * h[j]
            total[j] += more
        v += m0 * f[j] + m1 * g[j]
        if h is not None:
            v += m2 * h[j]
        s[j] = v
        p0 += v * f2[j]
        p1 += v * g2[j]
        if h is not None:
            p2 += v * h2[j]
        size += v * v
    out[i], out[i + 1], out[i + 2] = p0, p1, p2
    if gram is not None:
        gram[0], gram[1], gram[2] = ff, fd, dd
        gram[3], gram[4], gram[5] = (fe, de, ee) if h is not None else (fresh * ff, fresh * fd, fresh * fresh * ff)
    return size


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
            if not products_in_range(record, room, reward[t], discount[t], limit):
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


# --- the same in separate passes --------------------------------------------------------------------------------------


@piece
def _from_sum(x, origin, total, beta, mass, l1, l2, factor, radius):
    """x = argmin ⟨total, x⟩ + mass·h(x) + ½β‖x − origin‖²."""
    if beta > 0.0:
        low = 2 - len(x)
        for b in range(len(x)):
            row, at, s, c = x[b], origin[b], total[b], x[b].dtype.type(1.0 / beta)
            for j in range(len(row)):
                row[j] = at[j] - c * s[j]
            shrink(row, mass / beta * l1[low + b], mass / beta * l2[low + b], factor)
        if radius < np.inf:
            within_radius(x, radius)


@piece
def _dual_from_sum(y, total, scale, ball):
    """y = Π(scale·total)."""
    for b in range(len(y)):
        row, s, c = y[b], total[b], y[b].dtype.type(scale)
        for j in range(len(row)):
            row[j] = c * s[j]
    project(y, ball)


@piece
def _count(share, weight, x):
    """share += weight where x is not zero."""
    if share is not None:
        for b in range(len(x)):
            row, times, c = x[b], share[b], x[b].dtype.type(weight)
            for j in range(len(row)):
                times[j] += c if row[j] != 0 else 0


@kernel
def stepwise(
    phi, phi_next, reward, discount, fresh, old, x, y, x_sum, y_sum, share, origin, e, record, sx, sy,
    M, m, l1, l2, factor, dual_radius, start, limit, ball, radius,
):  # fmt: skip
    """Advance sums and points in place; returns how many rows were taken before the run diverged."""
    k, traced, norm_M, none = len(x), e is not None, np.sqrt((M * M).sum()), np.zeros(4)
    G, room, mid_x, mid_y = np.zeros((6, 7)), np.zeros((6, 12)), np.zeros_like(sx), np.zeros_like(sx)
    low, width, c = 2 - k, 3 if traced else 2, room[GRADIENT]
    for t in range(len(reward)):
        f, g, h, rate = phi[t], phi_next[t], None if e is None else e[0], discount[t]
        if e is not None:
            next_trace(e[0], e[0], f, fresh[t], old[t])
        products(x, f, g, h, room[U], 0)
        products(y, f, g, h, room[U], 6)
        if not products_in_range(record, room, reward[t], rate, limit):
            return t
        fold(G, M, m, k, traced, rate, fresh[t])
        gradient(G, reward[t], room[U], c, low, width, True)
        nx, ny = square_norm(c, 0, f, g, h, none, x), square_norm(c, 6, f, g, h, none, x)
        see(record, ny, norm_M * row_size(f, g, h, rate, fresh[t]))
        a = max(record[REACH], start * record[START])
        mid_x[:] = sx
        add(mid_x, c, 0, -a, f, g, h, none, x)
        mid_y[:] = sy
        add(mid_y, c, 6, a, f, g, h, none, x)
        beta = np.sqrt(record[GX] + nx)
        if beta > 0.0:
            _from_sum(mid_x, origin, mid_x, beta, record[MASS] + a, l1, l2, factor, radius)
        else:
            copy(mid_x, x)
        _dual_from_sum(mid_y, mid_y, over_root(dual_radius, record[GY] + a * a * ny), ball)
        products(mid_x, f, g, h, room[U], 0)
        products(mid_y, f, g, h, room[U], 6)
        gradient(G, reward[t], room[U], c, low, width, True)
        record[GX] += max(nx, square_norm(c, 0, f, g, h, none, x))
        record[GY] += a * a * max(ny, square_norm(c, 6, f, g, h, none, x))
        record[MASS] += a
        record[WEIGHT] += a
        accumulate(x_sum, a, mid_x)
        accumulate(y_sum, a, mid_y)
        _count(share, a, mid_x)
        add(sx, c, 0, -a, f, g, h, none, x)
        add(sy, c, 6, a, f, g, h, none, x)
        _from_sum(x, origin, sx, np.sqrt(record[GX]), record[MASS], l1, l2, factor, radius)
        _dual_from_sum(y, sy, over_root(dual_radius, record[GY]), ball)
        record[REACH] = max(record[REACH], np.sqrt(distance2(x, origin)))
    return len(reward)
