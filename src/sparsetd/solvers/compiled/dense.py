"""The pass over a dense state: one sweep per row, whatever the rule. With x = [w; θ] and a dual y where there is one,

    x ← prox(x − α(A_t x − b_t))                                             without a dual
    x ← prox(x − α A_tᵀ y),  y ← Π(y + β(A_t x − b_t))                       with one (`eq:RO-TD`)

While coordinate j moves for row t its products with row t + 1 are accumulated, and so are the norms and the Gram matrix
of that row: what lies between two passes is all scalars (`points`). Projections on l2 balls are carried as pending
scales. Chunking is bitwise invariant: a call begins with a pass of zero coefficients through the very same loop.
"""

from __future__ import annotations

import numpy as np

from sparsetd.solvers.compiled.compile import kernel, part
from sparsetd.solvers.compiled.intrinsics import borrow, borrow_rows
from sparsetd.solvers.compiled.points import NEXT, NUMBERS, TRIAL, N, S, T, U, fixed_plan, fold, inverse_of, lent, plan
from sparsetd.solvers.compiled.rules import WEIGHT, in_range, see_distance

HUGE = 1e200  # a row with a larger square, or with NaN, ends a run as divergence does: the caller says which it was


@part
def next_trace(e, e_next, phi, fresh, old):
    """e_{t+1} = c φ_{t+1} + d e_t."""
    c, d = e.dtype.type(fresh), e.dtype.type(old)
    for j in range(len(phi)):
        e_next[j] = c * phi[j] + d * e[j]


@part
def products_in_range(record, room, reward, rate, limit):
    """Return whether the run has not diverged, by the products in `room`."""
    u = room[U]
    value, others = abs(u[3]) + rate * abs(u[4]), abs(u[5])
    for i in range(12):
        others += abs(u[i]) if i < 3 or i > 5 else 0.0
    return in_range(record, reward, value, others, limit)


@part
def _moved(origin, squares, far, origin_size, scale):
    """‖x − x_0‖² after x was scaled."""
    if origin is None:
        return scale * scale * squares
    return scale * scale * far[0] + (scale - 1.0) * (2.0 * scale * far[1] + (scale - 1.0) * origin_size)


# --- one feature ------------------------------------------------------------------------------------------------------


@part
def three(row, b, times, kind):
    """times·(the three numbers of vector b)."""
    return kind(times * row[3 * b]), kind(times * row[3 * b + 1]), kind(times * row[3 * b + 2])


@part
def move_of(room, b, scale, step, trial, kind):
    """What a step does to vector b: (s, c) of the next point, and (o, ĉ) of what its sum gets, for v to be scaled."""
    numbers, weight = room[NUMBERS], kind(step * scale)
    if trial is None:
        nothing = (kind(0), kind(0), kind(0))
        return kind(scale * numbers[S + b]), three(room[NEXT], b, 1.0, kind), weight, nothing
    o, c = weight * kind(numbers[T + b]), three(room[TRIAL], b, step, kind)
    return kind(scale * numbers[S + b]), three(room[NEXT], b, 1.0, kind), o, c


@part
def mixed(s, v, c, f, g, h):
    """s v + c·(φ, φ', e); None where φ' or e does not take part."""
    total = s * v + c[0] * f
    if g is not None:
        total += c[1] * g
    if h is not None:
        total += c[2] * h
    return total


@part
def averaged(v, move, trial, f, g, h):
    """Return what a number adds to its sum: of the point, or of the trial point."""
    return move[2] * v if trial is None else mixed(move[2], v, move[3], f, g, h)


@part
def shrunk(v, threshold, ridge, weight, one):
    """The prox of a number, with its weight in the penalty (None: 1, and `ridge` is 1/(1 + ridge))."""
    if weight is None:
        return ridge * (v - min(max(v, -threshold), threshold))
    bound = threshold * weight
    return (v - min(max(v, -bound), bound)) / (one + ridge * weight)


@part
def bounded(v, clip):
    return v if clip is None else min(max(v, -clip), clip)


@part
def seen(p, v, f, g, h, sized):
    """The products p with (φ, φ', e), and the square, with one more feature."""
    p1, p2 = p[1] if g is None else p[1] + v * g, p[2] if h is None else p[2] + v * h
    return p[0] + v * f, p1, p2, p[3] if sized is None else p[3] + v * v


@part
def gram_with(gram, f, delta, h):
    """The Gram matrix of (φ, δ, e) with one more feature."""
    ff, fd, dd, fe, de, ee = gram
    ff, fd, dd = ff + f * f, fd + f * delta, dd + delta * delta
    if h is not None:
        fe, de, ee = fe + f * h, de + delta * h, ee + h * h
    return ff, fd, dd, fe, de, ee


@part
def squares_with(gram, f, g):
    """The same where only the size of a row is asked for."""
    return gram[0] + (f * f + g * g), gram[1], gram[2], gram[3], gram[4], gram[5]


@part
def away(far, v, start):
    """Σ(x − x_0)² and Σ(x − x_0)x_0 with one more feature."""
    return far[0] + (v - start) * (v - start), far[1] + (v - start) * start


# --- one row ----------------------------------------------------------------------------------------------------------


@part
def write_products(room, b, scale, p):
    """Products and square of vector b, which is to be scaled."""
    for i in range(3):
        room[U, 3 * b + i] = scale * p[i]
    room[NUMBERS, N + b] = scale * scale * p[3]


@part
def write_gram(out, gram, traced, fresh):
    """A Gram matrix; without traces e is cφ."""
    out[0], out[1], out[2], out[3], out[4], out[5] = gram
    if not traced:
        out[3], out[4], out[5] = fresh * out[0], fresh * out[1], fresh * fresh * out[0]


@kernel
def stream(
    rule, rows, vectors, averages, e, origin, record, work, fixed, factor, two, saddle, across, measured, sized,
    trial, clip,
):  # fmt: skip
    """Advance the state in place, one pass per row; returns how many rows were taken before the run diverged.

    `vectors` are w, θ, y1 and y2, and `averages` their sums, or None. `two` is None without w and y1, and `saddle`
    without a dual: other vectors then stand in their places. e is None without traces, the origin where x_0 = 0 or
    nobody asks. `work` is room for a step, and the scales of x and y which projections ask for and no pass has applied.
    `measured` is None for a step set by hand, `trial` without a trial point, `across` where φ' meets neither w nor y1,
    `clip` but for an l∞ ball, `sized` where nobody asks for ‖x‖.

    The pass over the state is one loop over the features in which every vector takes its turn, so that φ is read once.
    Functions get numbers only in there: a call with so many arrays costs as much as a pass over a hundred features.
    """
    (phi, phi_next, reward, discount, fresh, old, alpha), (w, th, y1, y2) = rows, vectors
    phi, phi_next, record, pending, fixed = borrow(phi), borrow(phi_next), borrow(record), work[3], lent(fixed)
    n, k, traced, radius, ball = len(reward), 1 if two is None else 2, e is not None, fixed.radius, fixed.ball
    G, room, gram = borrow_rows(work[0], 7), borrow_rows(work[1], 12), borrow(work[2])
    kind, l1, l2 = th.dtype.type, fixed.l1, fixed.l2
    zero, one, old_discount, old_fresh, inverse = kind(0), kind(1), np.nan, np.nan, 0.0
    nothing, origin_size, scale_x, scale_y, now, taken = (zero, zero, zero, zero), 0.0, 1.0, 1.0, 0, 0
    pw = pt = py = pz = nothing
    sums = (zero, zero, zero, zero, zero, zero)
    if origin is not None:
        for j in range(len(th)):
            origin_size += np.float64(origin[1][j]) * origin[1][j]
            if two is not None:
                origin_size += np.float64(origin[0][j]) * origin[0][j]
    for t in range(-1, n):  # row −1 is row 0 with a step of 0: its pass forms the products
        here, there, after = t if t > 0 else 0, t + 1 if t + 1 < n else t, now
        rate, next_rate, step = discount[here], kind(discount[there]), 0.0
        if t < 0:
            room[NUMBERS, :N] = 1.0
        else:
            write_products(room, 0, scale_x, pw)
            write_products(room, 1, scale_x, pt)
            write_products(room, 2, scale_y, py)
            write_products(room, 3, scale_y, pz)
            if not (sums[0] + sums[2] < HUGE and products_in_range(record, room, reward[t], rate, fixed.limit)):
                break
            if rate != old_discount or fresh[t] != old_fresh:
                old_discount, old_fresh, inverse = rate, fresh[t], inverse_of(rate)
                fold(G, fixed.M, fixed.m, k, traced, rate, old_fresh)
            step = alpha[t]
            if measured is None:
                fixed_plan(room, G, reward[t], step, fixed.damping, k, traced, saddle is not None)
            else:
                write_gram(gram, sums, traced, old_fresh)
                kinds = (trial is not None, k, traced, saddle is not None)
                step, _ = plan(rule, record, room, G, gram, reward[t], step, inverse, fixed, kinds)
        move_w, move_t = move_of(room, 0, scale_x, step, trial, kind), move_of(room, 1, scale_x, step, trial, kind)
        move_y, move_z = move_of(room, 2, scale_y, step, trial, kind), move_of(room, 3, scale_y, step, trial, kind)
        tw, tt, rw, rt = kind(step * l1[0]), kind(step * l1[1]), kind(step * l2[0]), kind(step * l2[1])
        if factor is None:
            rw, rt = one / (one + rw), one / (one + rt)
        if e is not None and t + 1 < n:
            after = 1 - now
            next_trace(e[now], e[after], phi[there], fresh[there], old[there])
        f, g, f2, g2 = phi[here], phi_next[here], phi[there], phi_next[there]
        if e is not None:
            h, h2 = e[now], e[after]
        pw = pt = py = pz = nothing
        far, sums = (zero, zero), (zero, zero, zero, zero, zero, zero)
        for j in range(len(th)):
            fj, gj, f2j, g2j = f[j], g[j], f2[j], g2[j]
            hj, h2j = None if e is None else h[j], None if e is None else h2[j]
            gw, g2w = None if across is None else gj, None if across is None else g2j
            weigh = None if factor is None else factor[j]
            if measured is not None:
                sums = gram_with(sums, f2j, f2j - next_rate * g2j, h2j)
            else:
                sums = squares_with(sums, f2j, g2j)
            if two is not None:
                if averages is not None:
                    averages[0][j] += averaged(w[j], move_w, trial, fj, gj, hj)
                v = shrunk(mixed(move_w[0], w[j], move_w[1], fj, gw, hj), tw, rw, weigh, one)
                w[j], pw = v, seen(pw, v, f2j, g2w, h2j, sized)
                if origin is not None:
                    far = away(far, v, origin[0][j])
            if averages is not None:
                averages[1][j] += averaged(th[j], move_t, trial, fj, gj, hj)
            v = shrunk(mixed(move_t[0], th[j], move_t[1], fj, gj, hj), tt, rt, weigh, one)
            th[j], pt = v, seen(pt, v, f2j, g2j, h2j, sized)
            if origin is not None:
                far = away(far, v, origin[1][j])
            if two is not None and saddle is not None:
                if averages is not None:
                    averages[2][j] += averaged(y1[j], move_y, trial, fj, gj, hj)
                v = bounded(mixed(move_y[0], y1[j], move_y[1], fj, gw, hj), clip)
                y1[j], py = v, seen(py, v, f2j, g2w, h2j, True)
            if saddle is not None:
                if averages is not None:
                    averages[3][j] += averaged(y2[j], move_z, trial, fj, gj, hj)
                v = bounded(mixed(move_z[0], y2[j], move_z[1], fj, gj, hj), clip)
                y2[j], pz = v, seen(pz, v, f2j, g2j, h2j, True)
        size_x, size_y = pw[3] + pt[3], py[3] + pz[3]
        if t < 0:
            scale_x, scale_y = pending[0], pending[1]
        else:
            scale_x = radius / np.sqrt(size_x) if size_x > radius * radius else 1.0
            scale_y = ball / np.sqrt(size_y) if size_y > ball * ball else 1.0
            record[WEIGHT] += step
            if measured is not None:
                moved = _moved(origin, size_x, far, origin_size, scale_x)
                if saddle is not None and ball == np.inf and clip is None:  # one step for x and y, one distance
                    moved += size_y
                see_distance(record, moved)
        now, taken = after, t + 1
    pending[0], pending[1] = scale_x, scale_y
    if e is not None and now == 1:
        e[0] = e[1]
    return taken
