"""The pass over dense rows. A number v of the state moves along D = (φ, φ', e), and its point z follows from it:

    v' = keep · v + c·D        z = scale · S_bound(start + slope · v')

    proximal steps     v ← z     slope 1, start 0           bound αρ         scale 1/(1 + αρ₂)
    dual averaging     v ← v'    slope −1/β, start x_0      bound ρΣa/β      scale 1/(1 + ρ₂Σa/β)      β = √Σ‖g_x‖²

With a p-norm v is the mirror image of the point, which is ∇½‖z‖_p². The ball of y is a factor (l2), a clip (l∞) or a
bound that is found beforehand (l1). `eq:RO-TD` is the first line for x and for y.

While coordinate j moves for row t its products with row t + 1 are accumulated, together with the norms and the Gram
matrix of that row. Between two sweeps there are only scalars (`points`). Scales that follow from norms (l2 balls,
radius) are carried to the next sweep. A trial point that a threshold or a box has bent is no combination of v and D:
its products take a sweep of their own. Chunking is bitwise invariant: a call begins with a sweep of zero coefficients.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np

from sparsetd.solvers.compiled import points, rules
from sparsetd.solvers.compiled.compile import kernel, part
from sparsetd.solvers.compiled.intrinsics import borrow
from sparsetd.solvers.compiled.points import GRADIENT, NEXT, NUMBERS, TRIAL, N, S, T, U, gram_with
from sparsetd.solvers.compiled.rules import GX, GY, MASS, WEIGHT, over_root, steps

HUGE = 1e200  # a row with a larger square, or with NaN, ends a run as divergence does: the caller says which it was


class Kinds(NamedTuple):
    """The choices that a kernel is compiled for: a branch that no method takes costs nothing."""

    two: bool  # there are w and y1
    saddle: bool
    traced: bool
    across: bool  # φ' meets w or y1
    measured: bool  # a rule looks at gradients
    sized: bool  # somebody asks for ‖x‖
    started: bool  # x_0 is not zero, and somebody asks
    weighed: bool  # features have weights of their own in the penalty
    averaged: bool
    trial: bool
    swept: bool  # the trial point takes a sweep of its own
    summed: bool  # dual averaging
    clipped: bool  # the l∞ ball of y
    cornered: bool  # the l1 ball of y
    outer: bool  # the l1 norm of x as a maximum over a box (`eq:ROTD2`)
    mirrored: bool  # a p-norm
    looks: bool = False  # a sweep that only looks at the trial point: nothing is written


class Dense(NamedTuple):
    """The vectors w, θ, y1 and y2, each with its sum, share and origin and its point u of the box; the trace (two
    rows); the weight of each feature; scales of x and y that no sweep has applied. What there is none of has another
    array in its place."""

    vectors: Any
    trace: Any
    factor: Any
    pending: Any


# --- one number -------------------------------------------------------------------------------------------------------


@part
def mixed(move, v, D, across, traced):
    """keep · v + c·D."""
    total = move[0] * v + move[1] * D[0]
    if across:
        total += move[2] * D[1]
    if traced:
        total += move[3] * D[2]
    return total


@part
def _seen(p, v, size, D, across, traced):
    """The products p with D, and the sum of sizes, with one more feature."""
    return p[0] + v * D[0], p[1] + v * D[1] if across else p[1], p[2] + v * D[2] if traced else p[2], p[3] + size


@part
def _point(v, start, law, weigh, one, kinds):
    """scale · S_bound(start + slope · v). A weight multiplies the bound and the ridge; without weights the ridge of a
    law is its scale."""
    slope, bound, ridge = law
    if kinds.summed:
        v = start + slope * v
    if kinds.weighed:
        return (v - min(max(v, -bound * weigh), bound * weigh)) / (one + ridge * weigh)
    return ridge * (v - min(max(v, -bound), bound))


@part
def _linked(v, exponent, kinds):
    """sgn(v)|v|^{p − 1}: the point of a mirror image v, without the factor ‖v‖_p^{2 − p}."""
    return np.copysign(np.abs(v) ** exponent, v) if kinds.mirrored else v


@part
def _bounded(v, bound, kinds):
    """A number of y in its box, or less what the l1 ball takes off."""
    if kinds.clipped:
        return min(max(v, -bound), bound)
    return v - min(max(v, -bound), bound) if kinds.cornered else v


@part
def _move_primal(b, j, vector, way, row, seen, numbers, kinds):
    """Move number j of w (b = 0) or θ (1); returns the products and sizes of the next point, and how far x is from x_0.

    The point that counts in the average is the trial point, or the one before the step. `way` says how the trial point
    and the next one follow, and `row` are D, the row ahead, the weight of the feature and that of the step.
    """
    (x, total, share, origin, outer), (D, E, weigh, weight), (p, far) = vector, row, seen
    (exponent, one, zero), ((tried, tried_law, scale), (move, law, pull)) = numbers, way
    across, start = kinds.across or b == 1, origin[j] if kinds.started else zero
    counted = mixed(tried, x[j], D, across, kinds.traced) if kinds.trial else x[j]
    if kinds.swept:
        counted = _point(counted, start, tried_law, weigh, one, kinds)
    counted = scale * _linked(counted, exponent, kinds)
    image = mixed(move, x[j], D, across, kinds.traced)
    if kinds.swept:
        image += pull * counted
    if kinds.outer:  # u ← clip(u + αx, ±ρ)
        bound = law[1] * weigh if kinds.weighed else law[1]
        stored = point = image + pull * outer[j]
        outer[j] = min(max(outer[j] - pull * counted, -bound), bound)
    else:
        point = _point(image, start, law, weigh, one, kinds)
        stored, point = image if kinds.summed else point, _linked(point, exponent, kinds)
    if not kinds.looks:
        x[j] = stored
    if kinds.averaged:
        total[j] += weight * counted
    if kinds.averaged and kinds.summed:
        share[j] += weight if counted != zero else zero
    if kinds.started or kinds.mirrored:
        moved = point - start
        along, square = far[2] + moved * start, moved * moved
        far = (far[0] + square, far[1], along) if b == 0 else (far[0], far[1] + square, along)
    # The size is a square, or the power p of a mirror image.
    size = point * (stored if kinds.mirrored else point) if kinds.sized else zero
    return _seen(p, point, size, E, across, kinds.traced), far


@part
def _move_dual(b, j, vector, way, row, p, kinds):
    """Move number j of y1 (b = 2) or y2 (3); returns the products and sizes of the next point."""
    y, total, ((tried, tried_bound, scale), (move, bound, pull)), (D, E, _, weight) = vector[0], vector[1], way, row
    across = kinds.across or b == 3
    counted = mixed(tried, y[j], D, across, kinds.traced) if kinds.trial else y[j]
    if kinds.swept:
        counted = _bounded(counted, tried_bound, kinds)
    counted *= scale
    point = mixed(move, y[j], D, across, kinds.traced)
    if kinds.swept:
        point += pull * counted
    point = _bounded(point, bound, kinds)
    if not kinds.looks:
        y[j] = point
    if kinds.averaged:
        total[j] += weight * counted
    return _seen(p, point, point * point, E, across, kinds.traced)


# --- one row ----------------------------------------------------------------------------------------------------------


@part
def _sweep(s, rows, rate, trial, then, weight, numbers, kinds):
    """Move the state by a row; returns the products and sizes of the next points of every vector with the row ahead,
    what x is away from x_0, and the Gram matrix of the row ahead. `trial` and `then` say how every vector moves.

    It is one loop in which every vector takes its turn, so that φ is read once, with functions of numbers in it.
    """
    ((f, g, h), (f2, g2, h2)), (w, theta, y1, y2), zero, factor = rows, s.vectors, numbers[2], s.factor
    pw = pt = py = pz = (zero, zero, zero, zero)
    far, gram = (zero, zero, zero), (zero, zero, zero, zero, zero, zero)
    for j in range(len(theta[0])):
        D, E = (f[j], g[j], h[j]), (f2[j], g2[j], h2[j])
        row = (D, E, factor[j], weight)
        if kinds.measured:
            gram = gram_with(gram, E[0], E[0] - rate * E[1], E[2], kinds.traced)
        else:  # whether the row is finite is all that is asked for
            gram = (gram[0] + (E[0] * E[0] + E[1] * E[1]), zero, zero, zero, zero, zero)
        if kinds.two:
            pw, far = _move_primal(0, j, w, (trial[0], then[0]), row, (pw, far), numbers, kinds)
        pt, far = _move_primal(1, j, theta, (trial[1], then[1]), row, (pt, far), numbers, kinds)
        if kinds.saddle and kinds.two:
            py = _move_dual(2, j, y1, (trial[2], then[2]), row, py, kinds)
        if kinds.saddle:
            pz = _move_dual(3, j, y2, (trial[3], then[3]), row, pz, kinds)
    return (pw, pt, py, pz), far, gram


@part
def _level(vectors, row, ways, kinds):
    """The τ at which a soft threshold leaves y with an l1 norm of 1 (Michelot's iteration); 0 inside the ball."""
    tau, before = 0.0, -1
    while True:
        total, active = 0.0, 0
        for b in range(0 if kinds.two else 1, 2):
            v = vectors[2 + b][0]
            for j in range(len(v)):
                size = abs(mixed(ways[b], v[j], (row[0][j], row[1][j], row[2][j]), True, kinds.traced))
                total, active = (total + size, active + 1) if size > tau else (total, active)
        if (before < 0 and total <= 1.0) or active == before:
            return tau
        before, tau = active, (total - 1.0) / active


@part
def next_trace(e, e_next, phi, fresh, old):
    """e_{t+1} = c φ_{t+1} + d e_t."""
    c, d = e.dtype.type(fresh), e.dtype.type(old)
    for j in range(len(phi)):
        e_next[j] = c * phi[j] + d * e[j]


@part
def _write_products(room, products, scales):
    """Products and squares of vectors that are to be scaled."""
    for b in range(4):
        p, scale = products[b], scales[b]
        for i in range(3):
            room[U, 4 * i + b] = scale * p[i]
        room[NUMBERS, N + b] = scale * scale * p[3]


@part
def _write_move(room, at, numbers, step, beta, damping, kinds):
    """How the gradient moves every vector, in row `at`; the sums of dual averaging grow by it in x."""
    for b in range(4):
        by = (step if kinds.summed else -step) if b < 2 else -beta
        room[NUMBERS, numbers + b] = 1.0 - (step if b < 2 else beta) * damping[b] if numbers == T else 1.0
        for i in range(b, 12, 4):
            room[at, i] = by * room[GRADIENT, i]


@part
def _law(b, step, squares, mass, fixed, kinds, kind):
    """The slope, bound and ridge of the points of w (0) or θ (1), as `_point` wants them."""
    slope, amount = 1.0, step
    if kinds.summed:
        slope = -over_root(1.0, squares)
        amount = -slope * mass
    ridge = kind(0.0 if kinds.outer else amount * fixed.l2[b])
    bound = fixed.l1[b] if kinds.outer else amount * fixed.l1[b]
    return kind(slope), kind(bound), ridge if kinds.weighed else kind(1) / (kind(1) + ridge)


@part
def _move(room, at, numbers, b, scale, kind):
    """(keep, c) of a vector that is to be scaled."""
    c = room[at]
    return kind(scale * room[NUMBERS, numbers + b]), kind(c[b]), kind(c[4 + b]), kind(c[8 + b])


@part
def _ways(vectors, row, room, at, about, fixed, kinds, kind):
    """How every vector moves by row `at` of `room`: (keep, c), its law (of y: its bound), and a place for a number.

    `about` is where the numbers keep begin, the scales of x and y, the step, and Σ‖g_x‖² and Σa of dual averaging.
    """
    numbers, scale_x, scale_y, step, squares, mass = about
    move_y, move_z = _move(room, at, numbers, 2, scale_y, kind), _move(room, at, numbers, 3, scale_y, kind)
    searched = kinds.cornered and (kinds.swept or at == NEXT)
    bound = kind(_level(vectors, row, (move_y, move_z), kinds) if searched else 1.0)
    law_w, law_t = _law(0, step, squares, mass, fixed, kinds, kind), _law(1, step, squares, mass, fixed, kinds, kind)
    move_w, move_t = _move(room, at, numbers, 0, scale_x, kind), _move(room, at, numbers, 1, scale_x, kind)
    return (move_w, law_w), (move_t, law_t), (move_y, bound), (move_z, bound)


@part
def _with_numbers(ways, numbers, kind):
    """The `_ways` with a number for every vector: a scale of the point that counts, or a pull towards it."""
    (w, law_w), (t, law_t), (y, bound), (z, _) = ways
    a, b, c, d = numbers
    return (w, law_w, kind(a)), (t, law_t, kind(b)), (y, bound, kind(c)), (z, bound, kind(d))


@part
def _normal(size, power):
    """‖v‖_p^{2 − p} of Σ|v_j|^p."""
    return size ** ((2.0 - power) / power) if size > 0.0 else 1.0


@part
def _scales(products, far, squares, fixed, power, kinds):
    """The factors that bring x and y into their balls, and further factors of w and θ."""
    (pw, pt, py, pz), nw, nt = products, 1.0, 1.0
    size_x, size_y = pw[3] + pt[3], py[3] + pz[3]
    if kinds.mirrored:
        nw, nt = _normal(pw[3], power), _normal(pt[3], power)
        size_x = nw * nw * far[0] + nt * nt * far[1]
    x = fixed.radius / np.sqrt(size_x) if size_x > fixed.radius * fixed.radius else 1.0
    y = fixed.ball / np.sqrt(size_y) if size_y > fixed.ball * fixed.ball else 1.0
    if kinds.summed:
        y = rules.into_unit_ball(over_root(fixed.ball, squares), size_y)
    return x, y, nw, nt


@part
def _see_distance(record, s, products, far, scale, fixed, kinds):
    """Take note of how far x is from x_0 after it was scaled, and of ‖y‖ where x and y share one step."""
    moved, size, w, theta = scale * scale * (products[0][3] + products[1][3]), 0.0, s.vectors[0][3], s.vectors[1][3]
    if kinds.started:
        for j in range(len(theta) if scale != 1.0 else 0):
            size += np.float64(theta[j]) * theta[j]
            size += np.float64(w[j]) * w[j] if kinds.two else 0.0
        moved = scale * scale * (far[0] + far[1]) + (scale - 1.0) * (2.0 * scale * far[2] + (scale - 1.0) * size)
    if kinds.saddle and fixed.ball == np.inf and not (kinds.clipped or kinds.cornered):
        moved += products[2][3] + products[3][3]
    rules.see_distance(record, moved)


@part
def _pulls(step, beta, damping, kinds):
    """What pulls every vector towards the point that counts, or towards u."""
    if kinds.outer:
        return -step, -step, 0.0, 0.0
    return -step * damping[0], -step * damping[1], -beta * damping[2], -beta * damping[3]


@part
def _plan_swept(rule, s, row, record, work, given, fixed, numbers, kinds, look):
    """One step whose trial point takes a sweep; leaves the next move in `room`. Returns the steps of x and y, how the
    trial point moves, and the scales of its vectors. `given` are the reward, the step set by hand, 1/γ, the scales of x
    and y, p, and what `points.plan` asks for."""
    (G, room, gram, _), (reward, alpha, inverse, scale_x, scale_y, power, chosen) = work, given
    damping, kind = fixed.damping, s.vectors[1][0].dtype.type
    if kinds.measured:
        nx, ny, (step, beta) = points.first_look(rule, record, room, G, gram, reward, alpha, inverse, fixed, chosen)
    else:
        points.look(room, U, G, gram, reward, inverse, fixed, chosen)
        nx, ny, step, beta = 0.0, 0.0, alpha, alpha
    _write_move(room, TRIAL, T, step, beta, damping, kinds)
    about = (T, scale_x, scale_y, step, record[GX] + nx, record[MASS] + step)
    ways = _ways(s.vectors, row, room, TRIAL, about, fixed, kinds, kind)
    trial = _with_numbers(ways, (1.0, 1.0, 1.0, 1.0), kind)
    products, far, _ = _sweep(s, (row, row), numbers[2], trial, trial, numbers[2], numbers, look)
    x, y, nw, nt = _scales(products, far, record[GY] + step * step * ny, fixed, power, kinds)
    scales = (nw * x, nt * x, y, y)
    _write_products(room, products, scales)
    mx, my = points.look(room, U, G, gram, reward, inverse, fixed, chosen)
    if kinds.measured:
        nx, ny = max(nx, mx), max(ny, my)
        step, beta = steps(rule, record, alpha, nx, ny)
    _write_move(room, NEXT, S, step, beta, damping, kinds)
    record[GX] += nx
    record[GY] += step * step * ny if kinds.summed else ny
    record[MASS] += step if kinds.summed else 0.0
    return step, beta, ways, scales


@part
def _leave(s, now, scale_x, scale_y, kinds):
    """Leave the trace and the scales that no sweep has applied to the next call."""
    if not kinds.summed:
        s.pending[0], s.pending[1] = scale_x, scale_y
    if kinds.traced and now == 1:
        s.trace[0] = s.trace[1]


@cache
def stepping(kinds):
    """The kernel of these kinds: (rule, rows, state, record, work, constants, p) → rows before the run diverged.

    Numba leaves out what follows an `if` on a plain constant of the closure before it looks at types.
    """
    k, measured, swept = 2 if kinds.two else 1, kinds.measured, kinds.swept
    chosen = (measured, kinds.trial, k, kinds.traced, kinds.saddle)  # what a step in scalars asks for
    look = kinds._replace(trial=False, swept=False, averaged=False, measured=False, looks=True)

    def stream(rule, rows, s, record, work, constants, power):
        s, record, fixed, work = borrow(s, 0), borrow(record, 0), borrow(constants, 0), borrow(work, points.ROOM)
        (G, room, gram, folded), phi, phi_next = work, borrow(rows.phi, 0), borrow(rows.phi_next, 0)
        n, e, kind = len(rows.reward), s.trace, s.vectors[1][0].dtype.type
        numbers, inverse = (kind(power - 1.0), kind(1), kind(0)), 0.0
        zero, four = kind(0), (kind(0), kind(0), kind(0), kind(0))
        products, far, sums = (four, four, four, four), (zero, zero, zero), (zero, zero, zero, zero, zero, zero)
        scale_x, scale_y, nw, nt, now, taken = 1.0, 1.0, 1.0, 1.0, 0, 0
        room[:], room[NUMBERS, :N] = 0.0, 1.0
        for t in range(-1, n):  # row −1 is row 0 with a step of 0: its sweep forms the products
            here, there, after = t if t > 0 else 0, t + 1 if t + 1 < n else t, now
            rate, step, beta, keep = rows.discount[here], 0.0, 0.0, 1.0 if kinds.summed else scale_y
            row, reward = (phi[here], phi_next[here], e[now]), rows.reward[here]
            scales = (nw * scale_x, nt * scale_x, scale_y, scale_y)
            if t >= 0:
                _write_products(room, products, scales)
                if not (sums[0] + sums[2] < HUGE and points.products_in_range(record, room, reward, rate, fixed.limit)):
                    break
                inverse = points.fold(G, folded, fixed, k, kinds.traced, rate, rows.fresh[t])
                step = beta = rows.alpha[t]
                if measured:
                    points.write_gram(gram, sums, kinds.traced, rows.fresh[t])
            if swept and t >= 0:
                given = (reward, step, inverse, scale_x, keep, power, chosen)
                step, beta, ways, scales = _plan_swept(rule, s, row, record, work, given, fixed, numbers, kinds, look)
            else:
                if t >= 0:
                    step, beta = points.plan(rule, record, room, G, gram, reward, step, inverse, fixed, chosen)
                about = (T, scale_x, keep, 0.0, record[GX], record[MASS])
                ways = _ways(s.vectors, row, room, TRIAL, about, fixed, kinds, kind)
                if kinds.trial:  # it has been scaled into its balls already
                    scales = (1.0, 1.0, 1.0, 1.0)
            first = _with_numbers(ways, scales, kind)
            about = (S, scale_x, keep, step, record[GX], record[MASS])
            ways = _ways(s.vectors, row, room, NEXT, about, fixed, kinds, kind)
            then = _with_numbers(ways, _pulls(step, beta, fixed.damping, kinds), kind)
            if kinds.traced and t + 1 < n:
                after = 1 - now
                next_trace(e[now], e[after], phi[there], rows.fresh[there], rows.old[there])
            next_rate, ahead = kind(rows.discount[there]), (phi[there], phi_next[there], e[after])
            products, far, sums = _sweep(s, (row, ahead), next_rate, first, then, kind(step), numbers, kinds)
            scale_x, scale_y, nw, nt = _scales(products, far, record[GY], fixed, power, kinds)
            record[WEIGHT] += step
            if t < 0 and not kinds.summed:
                scale_x, scale_y = s.pending[0], s.pending[1]
            if measured and t >= 0:
                _see_distance(record, s, products, far, scale_x, fixed, kinds)
            now, taken = after, t + 1
        _leave(s, now, scale_x, scale_y, kinds)
        return taken

    return kernel(stream)
