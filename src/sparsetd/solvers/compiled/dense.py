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
from sparsetd.solvers.compiled.points import NEXT, NUMBERS, TRIAL, N, S, T, U, fixed_plan, fold, plan
from sparsetd.solvers.compiled.rules import REACH, WEIGHT, in_range


@part
def next_trace(e, e_next, phi, fresh, old):
    """e_{t+1} = c φ_{t+1} + d e_t."""
    c, d = e.dtype.type(fresh), e.dtype.type(old)
    for j in range(len(phi)):
        e_next[j] = c * phi[j] + d * e[j]


@part
def products_in_range(record, room, reward, rate, limit):
    """Whether the run has not diverged, by the products in `room`."""
    u = room[U]
    value, others = abs(u[3]) + rate * abs(u[4]), abs(u[5])
    for i in range(12):
        others += abs(u[i]) if i < 3 or i > 5 else 0.0
    return in_range(record, reward, value, others, limit)


@part
def _moved(origin, squares, distance, along, origin_size, scale):
    """‖x − x_0‖² after x was scaled."""
    if origin is None:
        return scale * scale * squares
    return scale * scale * distance + (scale - 1.0) * (2.0 * scale * along + (scale - 1.0) * origin_size)


@kernel
def stream(
    rule, phi, phi_next, reward, discount, fresh, old, alpha, w, th, y1, y2, w_sum, th_sum, y1_sum, y2_sum, e,
    origin_w, origin, record, pending, M, m, damping, l1, l2, factor, across, measured, sized, trial, clip, radius,
    ball, limit,
):  # fmt: skip
    """Advance the state in place, one pass per row; returns how many rows were taken before the run diverged.

    w is None without an auxiliary block, y1 and y2 without a dual, e without traces, the origin where x_0 = 0 or nobody
    asks. `pending` holds the scales of x and y that the projections ask for and no pass has applied yet. `measured` is
    None for a step set by hand, `trial` without a trial point, `across` where φ' meets neither w nor y1, `clip` but for
    an l∞ ball, `sized` where nobody asks for ‖x‖. `radius` bounds ‖x‖ and `ball` ‖y‖, or they are ∞.

    The pass over the state, sums += α·point and new = prox(s·old + c·(f, g, h)) with the products of new with the next
    row's (f2, g2, h2), stands here and not in a function of its own: a call with so many arrays costs as much as a pass
    over a hundred features.
    """
    n, k, saddle, traced = len(reward), 1 if w is None else 2, y2 is not None, e is not None
    kind, G, room, gram = th.dtype.type, np.zeros((6, 7)), np.zeros((6, 12)), np.zeros(6)
    numbers, norm_M = room[NUMBERS], np.sqrt((M * M).sum())
    zero, one, old_discount, old_fresh = kind(0), kind(1), np.nan, np.nan
    ow0 = ow1 = ow2 = ot0 = ot1 = ot2 = oy0 = oy1 = oy2 = oz0 = oz1 = oz2 = zero
    pw0 = pw1 = pw2 = pt0 = pt1 = pt2 = py0 = py1 = py2 = pz0 = pz1 = pz2 = zero
    qw = qt = qy = qz = ff = fd = dd = fe = de = ee = far = along = zero
    origin_size, scale_x, scale_y, now, taken = 0.0, 1.0, 1.0, 0, 0
    if origin is not None:
        for j in range(len(th)):
            origin_size += np.float64(origin[j]) * origin[j]
            if w is not None:
                origin_size += np.float64(origin_w[j]) * origin_w[j]
    for t in range(-1, n):  # row −1 is row 0 with a step of 0: its pass forms the products
        here, there, after = t if t > 0 else 0, t + 1 if t + 1 < n else t, now
        rate, next_rate = discount[here], kind(discount[there])
        if t < 0:
            step_x = weight = 0.0
            for i in range(12):
                room[NEXT, i] = room[TRIAL, i] = 0.0
            for b in range(4):
                numbers[S + b] = numbers[T + b] = 1.0
        else:
            u = room[U]
            u[0], u[1], u[2], u[3], u[4], u[5] = pw0, pw1, pw2, pt0, pt1, pt2
            u[6], u[7], u[8], u[9], u[10], u[11] = py0, py1, py2, pz0, pz1, pz2
            for i in range(6):
                u[i] *= scale_x
                u[6 + i] *= scale_y
            if not products_in_range(record, room, reward[t], rate, limit):
                break
            if rate != old_discount or fresh[t] != old_fresh:
                old_discount, old_fresh = rate, fresh[t]
                fold(G, M, m, k, traced, rate, old_fresh)
            if measured is None:
                fixed_plan(room, G, reward[t], alpha[t], damping, k, traced, saddle)
                step_x = alpha[t]
            else:
                gram[0], gram[1], gram[2], gram[3], gram[4], gram[5] = ff, fd, dd, fe, de, ee
                if not traced:
                    gram[3], gram[4], gram[5] = old_fresh * ff, old_fresh * fd, old_fresh * old_fresh * ff
                numbers[N], numbers[N + 1] = scale_x * scale_x * qw, scale_x * scale_x * qt
                numbers[N + 2], numbers[N + 3] = scale_y * scale_y * qy, scale_y * scale_y * qz
                step_x, _ = plan(
                    rule, record, room, G, gram, reward[t], alpha[t], rate, damping, l2, norm_M, radius, ball,
                    trial is not None, k, traced, saddle,
                )  # fmt: skip
            weight = step_x
        c = room[NEXT]
        cw0, cw1, cw2, ct0, ct1, ct2 = kind(c[0]), kind(c[1]), kind(c[2]), kind(c[3]), kind(c[4]), kind(c[5])
        cy0, cy1, cy2, cz0, cz1, cz2 = kind(c[6]), kind(c[7]), kind(c[8]), kind(c[9]), kind(c[10]), kind(c[11])
        sw, st = kind(scale_x * numbers[S]), kind(scale_x * numbers[S + 1])
        sy, sz = kind(scale_y * numbers[S + 2]), kind(scale_y * numbers[S + 3])
        weight_w = weight_t = kind(weight * scale_x)
        weight_y = weight_z = kind(weight * scale_y)
        if trial is not None:
            c = room[TRIAL]
            weight_w, weight_t = weight_w * kind(numbers[T]), weight_t * kind(numbers[T + 1])
            weight_y, weight_z = weight_y * kind(numbers[T + 2]), weight_z * kind(numbers[T + 3])
            ow0, ow1, ow2 = kind(weight * c[0]), kind(weight * c[1]), kind(weight * c[2])
            ot0, ot1, ot2 = kind(weight * c[3]), kind(weight * c[4]), kind(weight * c[5])
            oy0, oy1, oy2 = kind(weight * c[6]), kind(weight * c[7]), kind(weight * c[8])
            oz0, oz1, oz2 = kind(weight * c[9]), kind(weight * c[10]), kind(weight * c[11])
        tw, tt, rw, rt = kind(step_x * l1[0]), kind(step_x * l1[1]), kind(step_x * l2[0]), kind(step_x * l2[1])
        kw, kt = one / (one + rw), one / (one + rt)
        if e is not None and t + 1 < n:
            after = 1 - now
            next_trace(e[now], e[after], phi[there], fresh[there], old[there])
        f, g, f2, g2 = phi[here], phi_next[here], phi[there], phi_next[there]
        if e is not None:
            h, h2 = e[now], e[after]
        pw0 = pw1 = pw2 = pt0 = pt1 = pt2 = py0 = py1 = py2 = pz0 = pz1 = pz2 = zero
        qw = qt = qy = qz = ff = fd = dd = fe = de = ee = far = along = zero
        # The rows of the state are written out: a loop over them inside would read φ once per row, 1.4 times slower.
        for j in range(len(th)):
            fj, gj, f2j, g2j = f[j], g[j], f2[j], g2[j]
            if measured is not None:
                d2j = f2j - next_rate * g2j
                ff += f2j * f2j
                fd += f2j * d2j
                dd += d2j * d2j
                if e is not None:
                    fe += f2j * h2[j]
                    de += d2j * h2[j]
                    ee += h2[j] * h2[j]
            if w is not None:
                if w_sum is not None:
                    p = weight_w * w[j]
                    if trial is not None:
                        p += ow0 * fj + ow1 * gj
                        if e is not None:
                            p += ow2 * h[j]
                    w_sum[j] += p
                a = sw * w[j] + cw0 * fj
                if across is not None:
                    a += cw1 * gj
                if e is not None:
                    a += cw2 * h[j]
                if factor is None:
                    a = kw * (a - min(max(a, -tw), tw))
                else:
                    tj = tw * factor[j]
                    a = (a - min(max(a, -tj), tj)) / (one + rw * factor[j])
                w[j] = a
                pw0 += a * f2j
                if across is not None:
                    pw1 += a * g2j
                if e is not None:
                    pw2 += a * h2[j]
                if sized is not None:
                    qw += a * a
                if origin is not None:
                    a -= origin_w[j]
                    far += a * a
                    along += a * origin_w[j]
            if th_sum is not None:
                p = weight_t * th[j]
                if trial is not None:
                    p += ot0 * fj + ot1 * gj
                    if e is not None:
                        p += ot2 * h[j]
                th_sum[j] += p
            b = st * th[j] + ct0 * fj + ct1 * gj
            if e is not None:
                b += ct2 * h[j]
            if factor is None:
                b = kt * (b - min(max(b, -tt), tt))
            else:
                uj = tt * factor[j]
                b = (b - min(max(b, -uj), uj)) / (one + rt * factor[j])
            th[j] = b
            pt0 += b * f2j
            pt1 += b * g2j
            if e is not None:
                pt2 += b * h2[j]
            if sized is not None:
                qt += b * b
            if origin is not None:
                b -= origin[j]
                far += b * b
                along += b * origin[j]
            if y1 is not None:
                if y1_sum is not None:
                    p = weight_y * y1[j]
                    if trial is not None:
                        p += oy0 * fj + oy1 * gj
                        if e is not None:
                            p += oy2 * h[j]
                    y1_sum[j] += p
                y = sy * y1[j] + cy0 * fj
                if across is not None:
                    y += cy1 * gj
                if e is not None:
                    y += cy2 * h[j]
                if clip is not None:
                    y = min(max(y, -clip), clip)
                y1[j] = y
                py0 += y * f2j
                if across is not None:
                    py1 += y * g2j
                if e is not None:
                    py2 += y * h2[j]
                qy += y * y
            if y2 is not None:
                if y2_sum is not None:
                    p = weight_z * y2[j]
                    if trial is not None:
                        p += oz0 * fj + oz1 * gj
                        if e is not None:
                            p += oz2 * h[j]
                    y2_sum[j] += p
                z = sz * y2[j] + cz0 * fj + cz1 * gj
                if e is not None:
                    z += cz2 * h[j]
                if clip is not None:
                    z = min(max(z, -clip), clip)
                y2[j] = z
                pz0 += z * f2j
                pz1 += z * g2j
                if e is not None:
                    pz2 += z * h2[j]
                qz += z * z
        if t < 0:
            scale_x, scale_y = pending[0], pending[1]
        else:
            scale_x = radius / np.sqrt(qw + qt) if qw + qt > radius * radius else 1.0
            scale_y = ball / np.sqrt(qy + qz) if qy + qz > ball * ball else 1.0
            record[WEIGHT] += weight
            if measured is not None:
                moved = _moved(origin, qw + qt, far, along, origin_size, scale_x)
                if saddle and ball == np.inf and clip is None:  # one step for x and y, one distance
                    moved += qy + qz
                record[REACH] = max(record[REACH], np.sqrt(moved))
        now, taken = after, t + 1
    pending[0], pending[1] = scale_x, scale_y
    if e is not None and now == 1:
        e[0] = e[1]
    return taken
