"""All compiled code of the solvers that set their own steps: distance over gradients, dual averaging, coin betting.

They share one row of the stream: the residual A_t x − b_t and, with a dual, the adjoint A_tᵀ y, formed as vectors
because the step depends on their norms before anything moves. x and y have shape (k, d).

`record` holds the scalars of a run (see the names below) in float64 whatever the type of the state. Chunking is bitwise
invariant: a row is taken in the same passes wherever the stream is cut.

Why one file: a cached kernel that calls jitted code of another file returns stale results after an edit.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

# Sums may be reordered and contracted; NaN and infinity keep their meaning, or divergence could not be seen.
_FAST = {"reassoc", "contract", "arcp", "nsz"}

# Entries of `record`: Σ‖g_x‖², Σ‖g_y‖², max‖x_i − x_0‖, the first reach, the weight of the sums, Σ of dual averaging's
# weights, Σ of the bounds of ‖A_t‖, rows.
GX, GY, REACH, START, WEIGHT, MASS, SIZE, ROWS = range(8)
RECORD = 8


def _jit(function: Any) -> Any:
    return njit(function, cache=True, nogil=True, fastmath=_FAST, error_model="numpy")


# --- one row of the stream -----------------------------------------------------------------------------------------


@_jit
def _next_trace(e, phi, fresh, old):
    """e_t = c φ_t + d e_{t−1}, in place."""
    c, d = e.dtype.type(fresh), e.dtype.type(old)
    for j in range(len(e)):
        e[j] = c * phi[j] + d * e[j]


@_jit
def _products(v, f, g, e, discount, out):
    """out = (v_b·φ, v_b·ψ, v_b·e) of every block b, ψ = discount·φ'."""
    for b in range(v.shape[0]):
        row = v[b]
        p0 = p1 = p2 = v.dtype.type(0)
        for j in range(len(row)):
            p0 += row[j] * f[j]
            p1 += row[j] * g[j]
            p2 += row[j] * e[j]
        out[3 * b], out[3 * b + 1], out[3 * b + 2] = p0, discount * p1, p2


@_jit
def _out_of_range(products, limit):
    """Whether a product is NaN or beyond the limit: the iteration has diverged."""
    inside = True
    for i in range(len(products)):
        inside = inside and abs(products[i]) < limit
    return not inside


@_jit
def _combine(weights, f, g, e, discount, damping, v, out):
    """out_b = weights_b·(φ, ψ, e) + damping_b v_b; returns ‖out‖²."""
    total = 0.0
    real = out.dtype.type
    for b in range(out.shape[0]):
        c0, c1, c2 = real(weights[3 * b]), real(discount * weights[3 * b + 1]), real(weights[3 * b + 2])
        c3 = real(damping[b])
        row, at = out[b], v[b]
        for j in range(len(row)):
            a = c0 * f[j] + c1 * g[j] + c2 * e[j] + c3 * at[j]
            row[j] = a
            total += np.float64(a) * a
    return total


@_jit
def _gradients(x, y, f, g, e, discount, reward, M, m, damping, dual_damping, products, weights, gx, gy, limit):
    """gx = A_t x − b_t, or with a dual gx = A_tᵀ y and gy = A_t x − b_t − damping·y.

    Returns ‖gx‖², ‖gy‖² and whether all products are in range.
    """
    size = len(m)
    _products(x, f, g, e, discount, products)
    if _out_of_range(products, limit):
        return 0.0, 0.0, False
    for i in range(size):
        weights[i] = -reward * m[i]
        for c in range(size):
            weights[i] += M[i, c] * products[c]
    if y is None:
        return _combine(weights, f, g, e, discount, damping, x, gx), 0.0, True
    ny = _combine(weights, f, g, e, discount, dual_damping, y, gy)
    _products(y, f, g, e, discount, products)
    if _out_of_range(products, limit):
        return 0.0, 0.0, False
    for i in range(size):
        weights[i] = 0.0
        for c in range(size):
            weights[i] += M[c, i] * products[c]
    return _combine(weights, f, g, e, discount, damping, x, gx), ny, True


@_jit
def _row_size(f, g, e, discount):
    """‖φ‖² + ‖ψ‖² + ‖e‖²: times ‖M‖ it bounds ‖A_t‖."""
    nf = ng = ne = 0.0
    for j in range(len(f)):
        nf += np.float64(f[j]) * f[j]
        ng += np.float64(g[j]) * g[j]
        ne += np.float64(e[j]) * e[j]
    return nf + discount * discount * ng + ne


# --- proximal steps and projections ---------------------------------------------------------------------------------


@_jit
def _shrink(v, threshold, ridge, factor):
    """prox of threshold·‖v‖₁ + ½ ridge·‖v‖², feature by feature."""
    real = v.dtype.type
    bound, ridge = real(threshold), real(ridge)
    one = real(1)
    for j in range(len(v)):
        c = one if factor is None else factor[j]
        tau = bound * c
        v[j] = (v[j] - min(max(v[j], -tau), tau)) / (one + ridge * c)


@_jit
def _within_radius(v, radius):
    """Scale v into the l2 ball of that radius."""
    total = 0.0
    for b in range(v.shape[0]):
        for j in range(v.shape[1]):
            total += np.float64(v[b, j]) * v[b, j]
    if total > radius * radius:
        scale = v.dtype.type(radius / np.sqrt(total))
        for b in range(v.shape[0]):
            for j in range(v.shape[1]):
                v[b, j] *= scale


@_jit
def _within_l1(v):
    """Euclidean projection on the l1 ball: soft threshold at the τ that leaves a norm of 1 (Michelot's iteration)."""
    tau, count = 0.0, -1
    while True:
        total, active = 0.0, 0
        for b in range(v.shape[0]):
            for j in range(v.shape[1]):
                if abs(v[b, j]) > tau:
                    total += abs(v[b, j])
                    active += 1
        if (count < 0 and total <= 1.0) or active == count:
            break
        count, tau = active, (total - 1.0) / active
    if count > 0:
        bound = v.dtype.type(tau)
        for b in range(v.shape[0]):
            for j in range(v.shape[1]):
                v[b, j] -= min(max(v[b, j], -bound), bound)


@_jit
def _within_box(v):
    one = v.dtype.type(1)
    for b in range(v.shape[0]):
        for j in range(v.shape[1]):
            v[b, j] = min(max(v[b, j], -one), one)


@_jit
def _project_dual(y, ball):
    """Euclidean projection on the unit ball of norm 1, 2 or ∞ (0); −1 leaves y alone."""
    if ball == 1:
        _within_l1(y)
    elif ball == 2:
        _within_radius(y, 1.0)
    elif ball == 0:
        _within_box(y)


@_jit
def _descend(x, gradient, alpha, l1, l2, factor, radius):
    """x ← Π(prox_{αh}(x − α gradient))."""
    a = x.dtype.type(alpha)
    for b in range(x.shape[0]):
        for j in range(x.shape[1]):
            x[b, j] -= a * gradient[b, j]
        _shrink(x[b], alpha * l1[b], alpha * l2[b], factor)
    if radius < np.inf:
        _within_radius(x, radius)


@_jit
def _ascend(y, gradient, beta, ball):
    """y ← Π(y + β gradient)."""
    c = y.dtype.type(beta)
    for b in range(y.shape[0]):
        for j in range(y.shape[1]):
            y[b, j] += c * gradient[b, j]
    _project_dual(y, ball)


@_jit
def _accumulate(total, weight, v):
    if total is not None and v is not None:
        c = v.dtype.type(weight)
        for b in range(v.shape[0]):
            for j in range(v.shape[1]):
                total[b, j] += c * v[b, j]


@_jit
def _distance2(x, origin):
    """‖x − origin‖²."""
    total = 0.0
    for b in range(x.shape[0]):
        for j in range(x.shape[1]):
            a = np.float64(x[b, j]) - origin[b, j]
            total += a * a
    return total


@_jit
def _norm2(y):
    total = 0.0
    for b in range(y.shape[0]):
        for j in range(y.shape[1]):
            total += np.float64(y[b, j]) * y[b, j]
    return total


# --- distance over gradients ----------------------------------------------------------------------------------------


@_jit
def _over_root(top, square):
    """top/√square, and 0 where nothing has been seen."""
    return top / np.sqrt(square) if square > 0.0 else 0.0


@_jit
def _two_steps(record, more_x, more_y, dual_radius, top):
    """(α ≤ top, β) with `more_x`, `more_y` on top of the record; dual_radius 0 asks for one step in x and y."""
    reach = max(record[REACH], record[START])
    if dual_radius == 0.0:
        alpha = min(_over_root(reach, record[GX] + more_x + record[GY] + more_y), top)
        return alpha, alpha
    return min(_over_root(reach, record[GX] + more_x), top), _over_root(dual_radius, record[GY] + more_y)


@_jit
def distance_over_gradients(
    phi, phi_next, reward, discount, fresh, old, x, y, x_sum, y_sum, origin, e, record,
    M, m, damping, l1, l2, factor, ball, dual_radius, dual_damping, radius, extragradient, start, cap, limit,
):  # fmt: skip
    """Advance the state in place; returns how many rows were taken before a product left ±`limit`.

        α_t = max(r̄_t, r_0)/√Σ‖g_x‖²      β_t = dual_radius/√Σ‖g_y‖²      r̄_t = max_{i≤t} ‖x_i − x_0‖

    with r_0 = start·max_t ‖A_t x − b_t‖/‖A_t‖, and α_t at most cap over the mean of ‖A_t‖ (of its bound, throughout).
    An extragradient step counts the larger of its two gradients, and the average is that of the trial points.
    """
    n, size = len(reward), M.shape[0]
    products, weights = np.zeros(size), np.zeros(size)
    damped = np.full(len(damping), -dual_damping)
    gx, gy = np.zeros_like(x), np.zeros_like(x)
    mid_x, mid_y = np.zeros_like(x), None if y is None else np.zeros_like(x)
    norm_M, most_damping = np.sqrt((M * M).sum()), damping.max()
    for t in range(n):
        f, g, rate, r = phi[t], phi_next[t], discount[t], reward[t]
        _next_trace(e, f, fresh[t], old[t])
        nx, ny, fine = _gradients(x, y, f, g, e, rate, r, M, m, damping, damped, products, weights, gx, gy, limit)
        if not fine:
            return t
        bound = norm_M * _row_size(f, g, e, rate) + most_damping
        if bound > 0.0:
            record[START] = max(record[START], start * np.sqrt(nx if y is None else ny) / bound)
        record[SIZE] += bound
        record[ROWS] += 1.0
        top = cap * record[ROWS] / record[SIZE] if record[SIZE] > 0.0 else np.inf
        if extragradient:
            alpha, beta = _two_steps(record, nx, ny, dual_radius, top)
            mid_x[:] = x
            _descend(mid_x, gx, alpha, l1, l2, factor, radius)
            if y is not None:
                mid_y[:] = y
                _ascend(mid_y, gy, beta, ball)
            mx, my, fine = _gradients(
                mid_x, mid_y, f, g, e, rate, r, M, m, damping, damped, products, weights, gx, gy, limit
            )
            if not fine:
                return t
            nx, ny = max(nx, mx), max(ny, my)
        alpha, beta = _two_steps(record, nx, ny, dual_radius, top)
        record[GX] += nx
        record[GY] += ny
        _accumulate(x_sum, alpha, mid_x if extragradient else x)
        _accumulate(y_sum, alpha, mid_y if extragradient else y)
        record[WEIGHT] += alpha
        _descend(x, gx, alpha, l1, l2, factor, radius)
        moved = _distance2(x, origin)
        if y is not None:
            _ascend(y, gy, beta, ball)
            if dual_radius == 0.0:
                moved += _norm2(y)
        record[REACH] = max(record[REACH], np.sqrt(moved))
    return n


# --- dual averaging -------------------------------------------------------------------------------------------------


@_jit
def _from_sum(x, origin, total, gradient, more, beta, mass, l1, l2, factor, radius):
    """x = argmin ⟨total + more·gradient, x⟩ + (mass + more) h(x) + ½β‖x − origin‖²."""
    if beta > 0.0:
        step = 1.0 / beta
        c, a = x.dtype.type(step), x.dtype.type(more)
        for b in range(x.shape[0]):
            for j in range(x.shape[1]):
                x[b, j] = origin[b, j] - c * (total[b, j] + a * gradient[b, j])
            _shrink(x[b], step * (mass + more) * l1[b], step * (mass + more) * l2[b], factor)
        if radius < np.inf:
            _within_radius(x, radius)


@_jit
def _dual_from_sum(y, total, gradient, more, scale, ball):
    """y = Π(scale·(total + more·gradient))."""
    c, a = y.dtype.type(scale), y.dtype.type(more)
    for b in range(y.shape[0]):
        for j in range(y.shape[1]):
            y[b, j] = c * (total[b, j] + a * gradient[b, j])
    _project_dual(y, ball)


@_jit
def _count(share, weight, x):
    """share += weight where x is not zero."""
    if share is not None:
        c = x.dtype.type(weight)
        for b in range(x.shape[0]):
            for j in range(x.shape[1]):
                if x[b, j] != 0:
                    share[b, j] += c


@_jit
def dual_averaging(
    phi, phi_next, reward, discount, fresh, old, x, y, x_sum, y_sum, share, origin, e, record, sx, sy,
    M, m, damping, l1, l2, factor, ball, dual_radius, radius, start, limit,
):  # fmt: skip
    """Advance the state in place; returns how many rows were taken before a product left ±`limit`.

    With a_t = max(r̄_t, r_0), s_x = Σ a_i g_x and s_y = Σ a_i g_y, gradients at trial points that include the row's own,

        x = argmin ⟨s_x, x⟩ + Σa_i h(x) + ½√Σ‖g_x‖² ‖x − x_0‖²      y = Π(R s_y/√Σ a_i²‖g_y‖²)
    """
    n, size = len(reward), M.shape[0]
    products, weights, damped = np.zeros(size), np.zeros(size), np.zeros(len(damping))
    gx, gy, mid_x, mid_y = np.zeros_like(x), np.zeros_like(x), np.zeros_like(x), np.zeros_like(x)
    norm_M = np.sqrt((M * M).sum())
    for t in range(n):
        f, g, rate, r = phi[t], phi_next[t], discount[t], reward[t]
        _next_trace(e, f, fresh[t], old[t])
        nx, ny, fine = _gradients(x, y, f, g, e, rate, r, M, m, damping, damped, products, weights, gx, gy, limit)
        if not fine:
            return t
        bound = norm_M * _row_size(f, g, e, rate)
        if bound > 0.0:
            record[START] = max(record[START], start * np.sqrt(ny) / bound)
        a, mass = max(record[REACH], record[START]), record[MASS]
        mid_x[:] = x
        _from_sum(mid_x, origin, sx, gx, a, np.sqrt(record[GX] + nx), mass, l1, l2, factor, radius)
        _dual_from_sum(mid_y, sy, gy, a, _over_root(dual_radius, record[GY] + a * a * ny), ball)
        mx, my, fine = _gradients(
            mid_x, mid_y, f, g, e, rate, r, M, m, damping, damped, products, weights, gx, gy, limit
        )
        if not fine:
            return t
        record[GX] += max(nx, mx)
        record[GY] += a * a * max(ny, my)
        record[MASS] += a
        record[WEIGHT] += a
        _accumulate(x_sum, a, mid_x)
        _accumulate(y_sum, a, mid_y)
        _count(share, a, mid_x)
        _accumulate(sx, a, gx)
        _accumulate(sy, a, gy)
        _from_sum(x, origin, sx, gx, 0.0, np.sqrt(record[GX]), record[MASS], l1, l2, factor, radius)
        _dual_from_sum(y, sy, gy, 0.0, _over_root(dual_radius, record[GY]), ball)
        record[REACH] = max(record[REACH], np.sqrt(_distance2(x, origin)))
    return n


# --- coin betting ---------------------------------------------------------------------------------------------------

# Columns of `coins`: betting fraction, wealth, Σm², Σ‖g‖², the largest gradient.
BETA, WEALTH, CURVATURE, SQUARES, HINT = range(5)
COINS = 5


@_jit
def _toss(x, origin, u, gradient, coin):
    """One round of one block: outcome s = gᵀu, new fraction, wealth and direction, and the next point origin + βW u."""
    square = 0.0
    for j in range(len(u)):
        square += np.float64(gradient[j]) * gradient[j]
    norm = np.sqrt(square)
    clip = 1.0 if norm <= coin[HINT] else coin[HINT] / norm
    coin[HINT] = max(coin[HINT], norm)
    s = 0.0
    for j in range(len(u)):
        s += clip * gradient[j] * u[j]
    stake = coin[BETA] * coin[WEALTH]
    slope = s / (1.0 - coin[BETA] * s)
    coin[CURVATURE] += slope * slope
    if coin[CURVATURE] > 0.0:
        most = 0.5 / coin[HINT]
        coin[BETA] = min(max(coin[BETA] - 2.0 * slope / ((2.0 - np.log(3.0)) * coin[CURVATURE]), -most), most)
    coin[WEALTH] -= s * stake
    coin[SQUARES] += clip * clip * square
    step = u.dtype.type(clip * _over_root(np.sqrt(0.5), coin[SQUARES]))
    length = 0.0
    for j in range(len(u)):
        u[j] -= step * gradient[j]
        length += np.float64(u[j]) * u[j]
    scale = u.dtype.type(1.0 / np.sqrt(length)) if length > 1.0 else u.dtype.type(1)
    bet = u.dtype.type(coin[BETA] * coin[WEALTH])
    for j in range(len(u)):
        u[j] *= scale
        x[j] = origin[j] + bet * u[j]


@_jit
def coin_betting(
    phi, phi_next, reward, discount, fresh, old, x, x_sum, origin, e, record, u, coins, M, m, damping, radius, limit,
):  # fmt: skip
    """Advance the state in place, every block with its own coin; returns the rows taken before leaving ±`limit`."""
    n, size = len(reward), M.shape[0]
    products, weights = np.zeros(size), np.zeros(size)
    gx = np.zeros_like(x)
    for t in range(n):
        _next_trace(e, phi[t], fresh[t], old[t])
        f, g, rate, r = phi[t], phi_next[t], discount[t], reward[t]
        fine = _gradients(x, None, f, g, e, rate, r, M, m, damping, damping, products, weights, gx, gx, limit)[2]
        if not fine:
            return t
        _accumulate(x_sum, 1.0, x)
        record[WEIGHT] += 1.0
        for b in range(x.shape[0]):
            _toss(x[b], origin[b], u[b], gx[b], coins[b])
        if radius < np.inf:
            _within_radius(x, radius)
    return n
