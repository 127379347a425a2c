"""All compiled code of the dense streaming solvers. With x = [w; θ] and a dual y where there is one,

    x ← prox(x − α(A_t x − b_t))                                             without a dual
    x ← prox(x − α A_tᵀ y),  y ← Π(y + α(A_t x − b_t))                       with one (`eq:RO-TD`)

A_t enters as the table (M, m): A_t x needs only the products of x with φ_t, φ'_t and e_t, and the step is a
combination of those three vectors.

`stream` is the fast path: separable penalties, l2 and l∞ balls, one pass over the state per row. While coordinate j is
updated for row t its products with row t+1 are accumulated, and so is the norm of y; the projection on the l2 ball is
carried as a pending scale. `stream_stepwise` does everything else (extragradient, p-norms, groups, the l1 ball, the
box form of `eq:ROTD2`) in separate passes.

Chunking is bitwise invariant: what decides the order of a sum is the same for every split of the stream. `stream`
begins a call with a pass of zero coefficients through the very loop that does the updates.

Why one file: a cached kernel that calls jitted code of another file returns stale results after an edit. Arguments that
are None remove their branches at compile time.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

# Sums may be reordered and contracted; NaN and infinity keep their meaning, or divergence could not be seen.
_FAST = {"reassoc", "contract", "arcp", "nsz"}


def _jit(function: Any) -> Any:
    return njit(function, cache=True, nogil=True, fastmath=_FAST, error_model="numpy", no_cfunc_wrapper=True)


def _part(function: Any) -> Any:
    """Part of a kernel: compiled into it and stored with it, without a way in from Python."""
    wrappers = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
    return njit(function, nogil=True, fastmath=_FAST, error_model="numpy", **wrappers)


@_part
def _next_trace(e, e_next, phi, fresh, old):
    """e_{t+1} = c φ_{t+1} + d e_t."""
    for j in range(len(phi)):
        e_next[j] = fresh * phi[j] + old * e[j]


@_part
def _fold(G, H, M, m, k, saddle, traced, discount, fresh):
    """A_t = D G Dᵀ and b_t = r D g with φ, φ' and e themselves in D: γ goes into G, and c too where e is cφ_t.

    Rows are φ and φ' of w, φ and φ' of θ, then e of both; columns likewise, and g. H is what the step of x takes: the
    same, or Gᵀ where it goes along A_tᵀy.
    """
    first = 2 - k
    for b in range(k):
        for i in range(3):
            row, left = 4 + first + b if i == 2 else 2 * (first + b) + i, discount if i == 1 else 1.0
            G[row, 6] = left * m[3 * b + i]
            for c in range(k):
                G[row, 2 * (first + c)] = left * M[3 * b + i, 3 * c]
                G[row, 2 * (first + c) + 1] = left * discount * M[3 * b + i, 3 * c + 1]
                G[row, 4 + first + c] = left * M[3 * b + i, 3 * c + 2]
    if not traced:
        for b in range(2):
            for c in range(7):
                G[2 * b, c] += fresh * G[4 + b, c]
        for b in range(2):
            for row in range(4):
                G[row, 2 * b] += fresh * G[row, 4 + b]
    for row in range(6):
        H[row, 6] = 0.0 if saddle else G[row, 6]
        for c in range(6):
            H[row, c] = G[c, row] if saddle else G[row, c]


@_part
def _along(G, step, reward, u, traced):
    """step·(G u − r g): the weights of φ and φ' in the steps of w and of θ, then those of e."""
    a, b, c, d, f, g = u
    w0 = (G[0, 0] * a + G[0, 1] * b) + (G[0, 2] * c + G[0, 3] * d) - reward * G[0, 6]
    w1 = (G[1, 0] * a + G[1, 1] * b) + (G[1, 2] * c + G[1, 3] * d) - reward * G[1, 6]
    t0 = (G[2, 0] * a + G[2, 1] * b) + (G[2, 2] * c + G[2, 3] * d) - reward * G[2, 6]
    t1 = (G[3, 0] * a + G[3, 1] * b) + (G[3, 2] * c + G[3, 3] * d) - reward * G[3, 6]
    w2 = t2 = 0.0
    if traced:
        w0 += G[0, 4] * f + G[0, 5] * g
        w1 += G[1, 4] * f + G[1, 5] * g
        t0 += G[2, 4] * f + G[2, 5] * g
        t1 += G[3, 4] * f + G[3, 5] * g
        w2 = G[4, 0] * a + G[4, 1] * b + G[4, 2] * c + G[4, 3] * d + G[4, 4] * f + G[4, 5] * g - reward * G[4, 6]
        t2 = G[5, 0] * a + G[5, 1] * b + G[5, 2] * c + G[5, 3] * d + G[5, 4] * f + G[5, 5] * g - reward * G[5, 6]
    return step * w0, step * w1, step * t0, step * t1, step * w2, step * t2


@_jit
def stream(
    phi, phi_next, reward, discount, fresh, old, alpha, weight,
    w, th, y1, y2, w_sum, th_sum, y1_sum, y2_sum, e, pending, folded,
    M, m, damping, l1, l2, factor, across, unit_ball, clip, radius, limit, mass,
):  # fmt: skip
    """Advance the state in place, one pass per row; returns how many rows were taken before a product left ±`limit`,
    and `mass` with their weights added.

    w is None without an auxiliary block, y1 and y2 without a dual, e without traces. `pending` holds the scales of x
    and y that the projections ask for and no pass has applied yet; `folded` is (2, 6, 7) zeros to work in. `unit_ball`
    projects y on the l2 ball, `clip` (1, or None) on the l∞ ball, `radius` (or None) keeps ‖x‖₂ bounded; `l2` is None
    where there is no ridge, `across` where φ' meets neither w nor y1.

    The pass over the state, sums += weight·old and new = prox(scale·old + coef·(f, g, h)) with the products of new
    with the next row's (f2, g2, h2), stands here and not in a function of its own: a call with so many arrays costs
    as much as a pass over a hundred features. For the same reason what lies between two passes is all scalars.
    """
    n, saddle, traced, i_th = len(reward), y2 is not None, e is not None, 0 if w is None else 1
    kind, G, H, old_discount, old_fresh = th.dtype.type, folded[0], folded[1], np.nan, np.nan
    zero, one = kind(0), kind(1)
    pw0 = pw1 = pw2 = pt0 = pt1 = pt2 = py0 = py1 = py2 = pz0 = pz1 = pz2 = zero
    rw, rt, kw, kt, scale_x, scale_y = zero, zero, one, one, 1.0, 1.0
    now, taken = 0, 0
    for t in range(-1, n):  # row −1 is row 0 with a step of 0: its pass forms the products
        u = (scale_x * pw0, scale_x * pw1, scale_x * pt0, scale_x * pt1, scale_x * pw2, scale_x * pt2)
        v = (scale_y * py0, scale_y * py1, scale_y * pz0, scale_y * pz1, scale_y * py2, scale_y * pz2)
        size = abs(u[0]) + abs(u[1]) + abs(u[2]) + abs(u[3]) + abs(u[4]) + abs(u[5])
        size += abs(v[0]) + abs(v[1]) + abs(v[2]) + abs(v[3]) + abs(v[4]) + abs(v[5])
        if not size < limit:
            break
        here, there, after = t if t > 0 else 0, t + 1 if t + 1 < n else t, now
        live = 1.0 if t >= 0 else 0.0
        if discount[here] != old_discount or fresh[here] != old_fresh:
            old_discount, old_fresh = discount[here], fresh[here]
            _fold(G, H, M, m, i_th + 1, saddle, traced, old_discount, old_fresh)
        step, omega, sw, st = live * alpha[here], live * weight[here], scale_x, scale_x
        if not saddle:
            sw, st = sw * (1.0 - step * damping[0]), st * (1.0 - step * damping[i_th])
        sw, st, sy, tw, tt = kind(sw), kind(st), kind(scale_y), kind(step * l1[0]), kind(step * l1[i_th])
        if l2 is not None:
            rw, rt = kind(step * l2[0]), kind(step * l2[i_th])
            kw, kt = one / (one + rw), one / (one + rt)
        c = _along(H, -step, reward[here], v if saddle else u, traced)
        cw0, cw1, ct0, ct1, cw2, ct2 = kind(c[0]), kind(c[1]), kind(c[2]), kind(c[3]), kind(c[4]), kind(c[5])
        c = _along(G, step, reward[here], u, traced)
        cy0, cy1, cz0, cz1, cy2, cz2 = kind(c[0]), kind(c[1]), kind(c[2]), kind(c[3]), kind(c[4]), kind(c[5])
        weight_x, weight_y = kind(omega * scale_x), kind(omega * scale_y)
        if e is not None and t + 1 < n:
            after = 1 - now
            _next_trace(e[now], e[after], phi[there], fresh[there], old[there])
        f, g, f2, g2 = phi[here], phi_next[here], phi[there], phi_next[there]
        if e is not None:
            h, h2 = e[now], e[after]
        pw0 = pw1 = pw2 = pt0 = pt1 = pt2 = py0 = py1 = py2 = pz0 = pz1 = pz2 = qx = qy = zero
        # The rows of the state are written out: a loop over them inside would read φ once per row, 1.4 times slower.
        for j in range(len(th)):
            fj, gj, f2j, g2j = f[j], g[j], f2[j], g2[j]
            if w is not None:
                if w_sum is not None:
                    w_sum[j] += weight_x * w[j]
                a = sw * w[j] + cw0 * fj
                if across is not None:
                    a += cw1 * gj
                if e is not None:
                    a += cw2 * h[j]
                if factor is None:
                    a -= min(max(a, -tw), tw)
                    if l2 is not None:
                        a *= kw
                else:
                    tj = tw * factor[j]
                    a = (a - min(max(a, -tj), tj)) / (one + rw * factor[j])
                w[j] = a
                pw0 += a * f2j
                if across is not None:
                    pw1 += a * g2j
                if e is not None:
                    pw2 += a * h2[j]
                if radius is not None:
                    qx += a * a
            if th_sum is not None:
                th_sum[j] += weight_x * th[j]
            b = st * th[j] + ct0 * fj + ct1 * gj
            if e is not None:
                b += ct2 * h[j]
            if factor is None:
                b -= min(max(b, -tt), tt)
                if l2 is not None:
                    b *= kt
            else:
                uj = tt * factor[j]
                b = (b - min(max(b, -uj), uj)) / (one + rt * factor[j])
            th[j] = b
            pt0 += b * f2j
            pt1 += b * g2j
            if e is not None:
                pt2 += b * h2[j]
            if radius is not None:
                qx += b * b
            if y1 is not None:
                if y1_sum is not None:
                    y1_sum[j] += weight_y * y1[j]
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
                    y2_sum[j] += weight_y * y2[j]
                z = sy * y2[j] + cz0 * fj + cz1 * gj
                if e is not None:
                    z += cz2 * h[j]
                if clip is not None:
                    z = min(max(z, -clip), clip)
                y2[j] = z
                pz0 += z * f2j
                pz1 += z * g2j
                if e is not None:
                    pz2 += z * h2[j]
                qy += z * z
        if t < 0:
            if radius is not None:
                scale_x = pending[0]
            scale_y = pending[1]
        else:
            if radius is not None:
                scale_x = radius / np.sqrt(qx) if qx > radius * radius else 1.0
            scale_y = 1.0 / np.sqrt(qy) if unit_ball and qy > 1.0 else 1.0
        now, taken, mass = after, t + 1, mass + omega
    pending[0], pending[1] = scale_x, scale_y
    if e is not None and now == 1:
        e[0] = e[1]
    return taken, mass


# --- the general path: one idea per pass ---------------------------------------------------------------------------


@_part
def _coefficients(out, work, coef, M, m, k, saddle, traced, discount, fresh, reward, alpha):
    """Weights of φ, φ' and e in the step of every row of the state: −α(M u − r m), or −αMᵀv and +α(M u − r m).

    u and v, the products of x and y with φ, ψ and e, are laid out in `work`.
    """
    size = 3 * k
    for b in range(2 * k if saddle else k):
        work[3 * b], work[3 * b + 1] = out[b, 0], discount * out[b, 1]
        work[3 * b + 2] = out[b, 2] if traced else fresh * out[b, 0]
    for b in range(k):
        for i in range(3):
            row = 3 * b + i
            residual = -reward * m[row]
            for c in range(size):
                residual += M[row, c] * work[c]
            coef[k + b, i] = alpha * residual
            if saddle:
                adjoint = 0.0
                for c in range(size):
                    adjoint += M[c, row] * work[size + c]
                coef[b, i] = -alpha * adjoint
            else:
                coef[b, i] = -alpha * residual
    for b in range(2 * k):
        coef[b, 1] *= discount
        if not traced:
            coef[b, 0] += fresh * coef[b, 2]


@_part
def _out_of_range(out, rows, limit):
    """Whether the products are NaN or beyond the limit: the iteration has diverged."""
    total = 0.0
    for b in range(rows):
        total += abs(out[b, 0]) + abs(out[b, 1]) + abs(out[b, 2])
    return not total < limit


@_part
def _products(v, f, g, h, out):
    """out = (v·f, v·g, v·h)."""
    if v is not None:
        p0 = p1 = p2 = v.dtype.type(0)
        for j in range(len(v)):
            p0 += v[j] * f[j]
            p1 += v[j] * g[j]
            if h is not None:
                p2 += v[j] * h[j]
        out[0], out[1], out[2] = p0, p1, p2


@_part
def _add(v, coef, f, g, h, damp, at):
    """v ← v + coef·(f, g, h) − damp·at."""
    if v is not None:
        c0, c1, c2, c3 = v.dtype.type(coef[0]), v.dtype.type(coef[1]), v.dtype.type(coef[2]), v.dtype.type(damp)
        for j in range(len(v)):
            a = v[j] + c0 * f[j] + c1 * g[j] - c3 * at[j]
            if h is not None:
                a += c2 * h[j]
            v[j] = a


@_part
def _accumulate(total, weight, v):
    if total is not None and v is not None:
        for j in range(len(v)):
            total[j] += weight * v[j]


@_part
def _copy(target, v):
    if v is not None:
        target[:] = v


@_part
def _elastic_net(v, threshold, ridge, factor):
    """prox of threshold·‖v‖₁ + ½ ridge·‖v‖², feature by feature."""
    for j in range(len(v)):
        c = 1.0 if factor is None else factor[j]
        bound = threshold * c
        v[j] = (v[j] - min(max(v[j], -bound), bound)) / (1.0 + ridge * c)


@_part
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


@_part
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


@_part
def _shrink(v, alpha, l1, l2, factor, groups, group_l1, norms):
    """prox_{αh} of one block of x."""
    if groups is None:
        _elastic_net(v, alpha * l1, alpha * l2, factor)
    else:
        _group_shrink(v, groups, alpha * group_l1, norms)


@_part
def _box(v, u, alpha, rho, factor):
    """v ← v − αu, u ← clip(u + αv, ±ρ), both from the old values: ρ‖v‖₁ as a maximum over a box (`eq:ROTD2`)."""
    for j in range(len(v)):
        bound = rho if factor is None else rho * factor[j]
        old = v[j]
        v[j] = old - alpha * u[j]
        u[j] = min(max(u[j] + alpha * old, -bound), bound)


@_part
def _within_radius(v1, v2, radius):
    """Scale [v1; v2] into the l2 ball of that radius."""
    total = 0.0
    for j in range(len(v2)):
        total += v2[j] * v2[j]
        if v1 is not None:
            total += v1[j] * v1[j]
    if total > radius * radius:
        factor = radius / np.sqrt(total)
        for j in range(len(v2)):
            v2[j] *= factor
            if v1 is not None:
                v1[j] *= factor


@_part
def _within_l1(v1, v2):
    """Euclidean projection of [v1; v2] on the l1 ball: soft threshold at the τ that leaves a norm of 1 (Michelot's
    iteration)."""
    tau, count = 0.0, -1
    while True:
        total, active = 0.0, 0
        for j in range(len(v2)):
            if v1 is not None and abs(v1[j]) > tau:
                total += abs(v1[j])
                active += 1
            if abs(v2[j]) > tau:
                total += abs(v2[j])
                active += 1
        if (count < 0 and total <= 1.0) or active == count:
            break
        count, tau = active, (total - 1.0) / active
    if count > 0:
        for j in range(len(v2)):
            v2[j] -= min(max(v2[j], -tau), tau)
            if v1 is not None:
                v1[j] -= min(max(v1[j], -tau), tau)


@_part
def _within_box(v):
    if v is not None:
        for j in range(len(v)):
            v[j] = min(max(v[j], -1.0), 1.0)


@_part
def _project_dual(y1, y2, ball):
    """True Euclidean projection on the unit ball of norm 1, 2 or ∞ (0); −1 leaves y alone."""
    if y2 is not None:
        if ball == 1:
            _within_l1(y1, y2)
        elif ball == 2:
            _within_radius(y1, y2, 1.0)
        elif ball == 0:
            _within_box(y1)
            _within_box(y2)


@_part
def _move_block(v, coef, f, g, h, damp, at, alpha, l1, l2, factor, groups, group_l1, norms, u, p):
    """One block of x: step in the mirror image, prox, back."""
    if v is not None:
        if u is not None:
            _box(v, u, alpha, l1, factor)
        if p != 2.0:
            _link(v, p / (p - 1.0))
        _add(v, coef, f, g, h, damp, at)
        if u is None:
            _shrink(v, alpha, l1, l2, factor, groups, group_l1, norms)
        if p != 2.0:
            _link(v, p)


@_part
def _move(
    w, th, y1, y2, u_w, u_th, at_w, at_th, at_y1, at_y2, f, g, h, coef, alpha,
    damping, l1, l2, factor, groups, group_l1, norms, ball, radius, dual_damping, p,
):  # fmt: skip
    """One step of all of the state along `coef`; the damping terms are taken at the point (at_w, …) of the gradient."""
    k = len(damping)
    x_damp = alpha if y2 is None else 0.0  # a saddle's damping would couple x and y: its solvers refuse such tables
    _move_block(
        w, coef[0], f, g, h, x_damp * damping[0], at_w, alpha, l1[0], l2[0], factor, groups, group_l1[0], norms, u_w, p
    )
    i = k - 1
    _move_block(
        th,
        coef[i],
        f,
        g,
        h,
        x_damp * damping[i],
        at_th,
        alpha,
        l1[i],
        l2[i],
        factor,
        groups,
        group_l1[i],
        norms,
        u_th,
        p,
    )
    _within_radius(w, th, radius)
    _add(y1, coef[k], f, g, h, alpha * dual_damping, at_y1)
    _add(y2, coef[2 * k - 1], f, g, h, alpha * dual_damping, at_y2)
    _project_dual(y1, y2, ball)


@_part
def _all_products(w, th, y1, y2, k, f, g, h, out):
    _products(w, f, g, h, out[0])
    _products(th, f, g, h, out[k - 1])
    _products(y1, f, g, h, out[k])
    _products(y2, f, g, h, out[2 * k - 1])


@_jit
def stream_stepwise(
    phi, phi_next, reward, discount, fresh, old, alpha, weight,
    w, th, y1, y2, w_sum, th_sum, y1_sum, y2_sum, u_w, u_th, mid_w, mid_th, mid_y1, mid_y2, e,
    M, m, damping, l1, l2, factor, groups, group_l1, ball, radius, dual_damping, p, limit, mass,
):  # fmt: skip
    """Advance the state in place, in separate passes; returns how many rows were taken before a product left ±`limit`,
    and `mass` with their weights added.

    Room for a midpoint (`mid_th` is not None) asks for an extragradient step: the gradient is taken at a trial step,
    and the average is that of the trial points. `u_th` asks for the box form of the l1 norm, `dual_damping` = 1 adds
    −½‖y‖² to the saddle function, `p` is the exponent of the mirror map (2: Euclidean).
    """
    n, k, saddle, traced = len(reward), len(damping), y2 is not None, e is not None
    rows, out, work, coef = (2 if saddle else 1) * k, np.zeros((4, 3)), np.zeros(12), np.zeros((4, 3))
    norms = np.zeros(group_l1.shape[1])
    taken = 0
    for t in range(n):
        f, g, h = phi[t], phi_next[t], None if e is None else e[0]
        if e is not None:
            _next_trace(e[0], e[0], f, fresh[t], old[t])
        _all_products(w, th, y1, y2, k, f, g, h, out)
        if _out_of_range(out, rows, limit):
            break
        _coefficients(out, work, coef, M, m, k, saddle, traced, discount[t], fresh[t], reward[t], alpha[t])
        if mid_th is None:
            _accumulate(w_sum, weight[t], w)
            _accumulate(th_sum, weight[t], th)
            _accumulate(y1_sum, weight[t], y1)
            _accumulate(y2_sum, weight[t], y2)
            _move(w, th, y1, y2, u_w, u_th, w, th, y1, y2, f, g, h, coef, alpha[t],
                  damping, l1, l2, factor, groups, group_l1, norms, ball, radius, dual_damping, p)  # fmt: skip
        else:
            _copy(mid_w, w)
            _copy(mid_th, th)
            _copy(mid_y1, y1)
            _copy(mid_y2, y2)
            _move(mid_w, mid_th, mid_y1, mid_y2, None, None, w, th, y1, y2, f, g, h, coef, alpha[t],
                  damping, l1, l2, factor, groups, group_l1, norms, ball, radius, dual_damping, p)  # fmt: skip
            _accumulate(w_sum, weight[t], mid_w)
            _accumulate(th_sum, weight[t], mid_th)
            _accumulate(y1_sum, weight[t], mid_y1)
            _accumulate(y2_sum, weight[t], mid_y2)
            _all_products(mid_w, mid_th, mid_y1, mid_y2, k, f, g, h, out)
            _coefficients(out, work, coef, M, m, k, saddle, traced, discount[t], fresh[t], reward[t], alpha[t])
            _move(w, th, y1, y2, u_w, u_th, mid_w, mid_th, mid_y1, mid_y2, f, g, h, coef, alpha[t],
                  damping, l1, l2, factor, groups, group_l1, norms, ball, radius, dual_damping, p)  # fmt: skip
        taken, mass = t + 1, mass + weight[t]
    return taken, mass
