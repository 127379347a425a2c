"""Dual averaging on a dense state: the point is a function of the sums s_x and s_y of all gradients.

    x = argmin ⟨s_x, x⟩ + Σa_i h(x) + ½√Σ‖g_x‖² ‖x − x_0‖²      y = Π(R s_y/√Σa_i²‖g_y‖²)      s = Σa_i g

with a_t = max(r̄_t, r_0) and gradients at trial points, which include the row's own gradient. The gradient of x at the
trial point depends on y alone, whose trial point is s_y and D scaled: so a pass over x forms its trial point and its
next one, and a pass over y follows. Other balls than y's l2 ball, and a bound on ‖x‖, need more (`solvers.plain`).
"""

from __future__ import annotations

import numpy as np

from sparsetd.solvers.compiled import dense, points
from sparsetd.solvers.compiled.compile import kernel, part
from sparsetd.solvers.compiled.dense import HUGE, gram_with, mixed, products_in_range, seen, shrunk, three
from sparsetd.solvers.compiled.intrinsics import borrow, borrow_rows
from sparsetd.solvers.compiled.points import GRADIENT, NEXT, TRIAL, TRIED, U, adjoint, inner, residual
from sparsetd.solvers.compiled.rules import GX, GY, MASS, REACH, START, WEIGHT, over_root, see, see_distance


@part
def into_unit_ball(factor, size):
    """The factor of y = factor·v, or of its projection on the unit ball, for ‖v‖² = size."""
    return 1.0 / np.sqrt(size) if factor * factor * size > 1.0 else factor


@part
def squares(c, first, gram, inverse):
    """‖c·D‖² of the vectors first and second of x, or of y."""
    total = 0.0
    for b in range(first, first // 2 * 2 + 2):
        total += points.square(c, b, gram, inverse)
    return max(total, 0.0)


@part
def _point(s, start, law, weigh, one):
    """x of a sum of gradients, start − s/β after its prox; `law` is (1/β, threshold, ridge)."""
    return shrunk(start - law[0] * s, law[1], law[2], weigh, one)


@part
def _step(s, j, start, laws, row, weigh, one):
    """Take the gradients of a row into the sum; returns its trial point and its next one.

    `laws` are those of the two points, `row` the weights of the two gradients and (φ, φ', e) of the coordinate.
    """
    (trial, then), (first, second, f, g, h) = laws, row
    tried = _point(mixed(one, s[j], first, f, g, h), start, trial, weigh, one)
    s[j] = mixed(one, s[j], second, f, g, h)
    return tried, _point(s[j], start, then, weigh, one)


@part
def _count(total, share, j, weight, trial, zero):
    """The weighted sum of trial points, and the weight of those that are not zero."""
    total[j] += weight * trial
    share[j] += weight if trial != 0 else zero


@part
def _law(root, mass, l1, l2, factor, kind):
    """1/β, threshold and ridge of a point for β = `root` and Σa_i = `mass`, as `shrunk` wants them."""
    inverse = 1.0 / root if root > 0.0 else 0.0
    ridge = kind(inverse * mass * l2)
    return kind(inverse), kind(inverse * mass * l1), ridge if factor is not None else kind(1) / (kind(1) + ridge)


@kernel
def stream(rule, rows, s, totals, origin, e, factor, two, record, work, fixed):
    """Advance the sums in place; returns how many rows were taken before the run diverged.

    `s` are the sums of w, θ, y1 and y2, and `totals` what is averaged of them with the shares of w and θ, or None; in
    a system of θ alone (`two` is None) the places of w and y1 hold θ and y2. `origin` is None for 0.
    """
    phi, phi_next, reward, discount, fresh, old, _ = rows
    phi, phi_next, record, fixed = borrow(phi), borrow(phi_next), borrow(record), points.lent(fixed)
    n, k, traced, now, taken = len(reward), 1 if two is None else 2, e is not None, 0, 0
    low, width, kind, old_discount, old_fresh, inverse = 2 - k, 3 if traced else 2, s[0].dtype.type, np.nan, np.nan, 0.0
    G, room, gram, sums = borrow_rows(work[0], 7), borrow_rows(work[1], 12), borrow(work[2]), borrow(work[3])
    u, c, mid, size, y_factor, zero, one = room[U], room[GRADIENT], room[NEXT], 0.0, 0.0, kind(0), kind(1)
    nothing = (zero, zero, zero, zero)
    for t in range(-1, n):  # row −1 is row 0 with a weight of 0: its passes form the products
        here, there, after, a, beta, y_mid = t if t > 0 else 0, t + 1 if t + 1 < n else t, now, 0.0, 0.0, 0.0
        rate, ny = discount[here], 0.0
        if t >= 0:
            for i in range(6):
                u[6 + i] = y_factor * sums[6 + i]
            if not (gram[0] + gram[2] < HUGE and products_in_range(record, room, reward[t], rate, fixed.limit)):
                break
            if rate != old_discount or fresh[t] != old_fresh:
                old_discount, old_fresh, inverse = rate, fresh[t], points.inverse_of(rate)
                points.fold(G, fixed.M, fixed.m, k, traced, rate, old_fresh)
            adjoint(G, u, c, low, width)
            residual(G, reward[t], u, c, 6, low, width)
            nx, ny = squares(c, low, gram, inverse), squares(c, 2 + low, gram, inverse)
            see(record, ny, fixed.norm * points.row_size(gram))
            a = max(record[REACH], rule.start * record[START])
            beta = np.sqrt(record[GX] + nx)
            growth = a * a * ny
            for b in range(2 + low, 4):
                growth += 2.0 * a * inner(c, sums, b)
            y_mid = into_unit_ball(over_root(rule.dual_radius, record[GY] + a * a * ny), size + growth)
            for b in range(2 + low, 4):
                for i in range(3 * b, 3 * b + 3):
                    room[TRIAL, i] = y_mid * a * c[i]
                points.tried(sums, y_mid, room[TRIAL], b, gram, inverse, room[TRIED])
            adjoint(G, room[TRIED], mid, low, width)
            record[GX] += max(nx, squares(mid, low, gram, inverse))
        mass = record[MASS] = record[MASS] + a
        l1, l2, root, weight = fixed.l1, fixed.l2, np.sqrt(record[GX]), kind(a)
        trial_w, trial_t = _law(beta, mass, l1[0], l2[0], factor, kind), _law(beta, mass, l1[1], l2[1], factor, kind)
        next_w, next_t = _law(root, mass, l1[0], l2[0], factor, kind), _law(root, mass, l1[1], l2[1], factor, kind)
        cw, ct, dw, dt = three(c, 0, a, kind), three(c, 1, a, kind), three(mid, 0, a, kind), three(mid, 1, a, kind)
        if e is not None and t + 1 < n:
            after = 1 - now
            dense.next_trace(e[now], e[after], phi[there], fresh[there], old[there])
        f, g, f2, g2 = phi[here], phi_next[here], phi[there], phi_next[there]
        if e is not None:
            h, h2 = e[now], e[after]
        qw = qt = pw = pt = py = pz = nothing
        moved, start, start_w, products = zero, zero, zero, (zero, zero, zero, zero, zero, zero)
        for j in range(len(f)):
            hj, h2j = None if e is None else h[j], None if e is None else h2[j]
            weigh = None if factor is None else factor[j]
            if two is not None:
                if origin is not None:
                    start_w = origin[0][j]
                trial, v = _step(s[0], j, start_w, (trial_w, next_w), (cw, dw, f[j], g[j], hj), weigh, one)
                if totals is not None:
                    _count(totals[0], totals[4], j, weight, trial, zero)
                qw, pw = seen(qw, trial, f[j], g[j], hj, None), seen(pw, v, f2[j], g2[j], h2j, None)
                moved += (v - start_w) * (v - start_w)
            if origin is not None:
                start = origin[1][j]
            trial, v = _step(s[1], j, start, (trial_t, next_t), (ct, dt, f[j], g[j], hj), weigh, one)
            if totals is not None:
                _count(totals[1], totals[5], j, weight, trial, zero)
            qt, pt = seen(qt, trial, f[j], g[j], hj, None), seen(pt, v, f2[j], g2[j], h2j, None)
            moved += (v - start) * (v - start)
        for i in range(3):
            u[i], u[3 + i], room[TRIED, i], room[TRIED, 3 + i] = pw[i], pt[i], qw[i], qt[i]
        if t >= 0:
            residual(G, reward[t], room[TRIED], mid, 6, low, width)
            record[GY] += a * a * max(ny, squares(mid, 2 + low, gram, inverse))
            record[WEIGHT] += a
            see_distance(record, moved)
        keep, next_rate, both = kind(a * y_mid), kind(discount[there]), a * y_mid * a
        cw, ct, dw, dt = (
            three(c, 2, both, kind),
            three(c, 3, both, kind),
            three(mid, 2, a, kind),
            three(mid, 3, a, kind),
        )
        for j in range(len(f)):
            hj, h2j = None if e is None else h[j], None if e is None else h2[j]
            products = gram_with(products, f2[j], f2[j] - next_rate * g2[j], h2j)
            if two is not None:
                if totals is not None:
                    totals[2][j] += mixed(keep, s[2][j], cw, f[j], g[j], hj)
                s[2][j] = mixed(one, s[2][j], dw, f[j], g[j], hj)
                py = seen(py, s[2][j], f2[j], g2[j], h2j, True)
            if totals is not None:
                totals[3][j] += mixed(keep, s[3][j], ct, f[j], g[j], hj)
            s[3][j] = mixed(one, s[3][j], dt, f[j], g[j], hj)
            pz = seen(pz, s[3][j], f2[j], g2[j], h2j, True)
        for i in range(3):
            sums[6 + i], sums[9 + i] = py[i], pz[i]
        dense.write_gram(gram, products, traced, fresh[there])
        size = py[3] + pz[3]
        y_factor = into_unit_ball(over_root(rule.dual_radius, record[GY]), size)
        now, taken = after, t + 1
    if e is not None and now == 1:
        e[0] = e[1]
    return taken
