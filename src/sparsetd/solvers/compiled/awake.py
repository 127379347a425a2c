"""Awake, gathered: a step of dual averaging on the coordinates that a row touches. The point is a function of sums of
gradients, which change only where a row touches them. With v = −s_x, x_0 = 0, the law of `law` becomes

    x_t = F_t S(v, ℓ_t)                       ℓ_t = ρ Σa_i               F_t = 1/(√Σ‖g_x‖² + ρ_2 Σa_i)
    Σ a_i x_i = R + v P_t − sgn(v) Q_t        P ← P + a F̂                Q ← Q + a F̂ ℓ        while |v| > ℓ
    ‖x_t‖² = F_t² Σ(|v| − ℓ_t)²               over all v beyond ℓ, the *active* ones

and with v = s_y, y_t = F_t v. A queue knows which of the active ones reaches zero next (`queue`), and a coordinate that
leaves takes along what it has in its sum.

The coordinates of a row are gathered side by side: they are *hot*, and the step is taken on these few.
Those of a trace stay hot until it has faded. Features with a penalty of their own stay hot too. Every so many rows all
coordinates are brought up to date (a flush), at fixed row numbers: any chunking gives the same bits.

A line of zeros is a coordinate at zero. Lines lie in the order in which their coordinates came (`law.place`).
"""

from __future__ import annotations

from collections import namedtuple

import numpy as np

from sparsetd.solvers.compiled import points, queue, rules
from sparsetd.solvers.compiled.compile import kernel, part
from sparsetd.solvers.compiled.intrinsics import borrow, lanes, load, store, within
from sparsetd.solvers.compiled.law import FULL, SEEN, SINCE, TRACE_TOL, fetch_ahead, shrink
from sparsetd.solvers.compiled.points import GRADIENT, TRIED, U
from sparsetd.solvers.compiled.queue import HEAPED, KEY, L1, LEVEL, MARK, PER, SHARE, SQUARES, P, Q, R, V
from sparsetd.solvers.compiled.rules import GX, GY, MASS, WEIGHT, into_unit_ball, over_root

# A line is v, R, the weight for which a number was not zero (less Σa_i while it is active), its key in the queue (0 if
# it is not active), and the mark: 0, or 1 + its place among the hot coordinates.
WIDTH = 16
# Places of a hot coordinate, after v: Σax, trial point; φ, ψ, e, what multiplies the penalty; and its shares.
TOTAL, POINT, PHI, PSI, TRACE, MULTIPLIER, SHARES, HOT_WIDTH = 4, 12, 16, 17, 18, 19, 20, 24
# Rows of `lane` after ρ: the ridge, 1 for x, 1 where ρ > 0, and what multiplies |v| to make a key.
L2, PRIMAL, PENALISED = 1, 2, 3
# Entries of `number`: y = FACTOR·v, and ‖v‖² of y; of `counter`, beside those of `law` and `queue`: how many are hot.
FACTOR, DUAL = range(2)
HOT = 0

# A lazy state: lines, hot coordinates with their names, the scalars and constants above, the queue.
Hot = namedtuple("Hot", "line hot names scale active number lane keys owners counter")
WIDTHS = Hot(WIDTH, HOT_WIDTH, 0, 4, 4, 0, 4, 0, 0, 0)  # the lengths of rows


@part
def counted(counts, v, on, level):
    """(Σ(|v| − ℓ)², Σ(|v| − ℓ), how many) of active numbers, with those of one more coordinate."""
    beyond = on * (np.abs(v) - level)
    return counts[0] + beyond * beyond, counts[1] + beyond, counts[2] + on


@part
def count(active, counts, sign):
    for row in range(LEVEL):
        store(active, row, 0, load(active, row, 0) + sign * counts[row])


@part
def gone(v, scale):
    """The part of its sum that an active number has beside R."""
    return v * load(scale, P, 0) - np.copysign(load(scale, Q, 0), v)


@part
def unpacked(s, j, mass):
    """v of a line, its sums, the weights for which it was not zero, and 1 where it is active (for y, not zero)."""
    v, penalised = load(s.line, j, V), load(s.lane, PENALISED, 0)
    on = 1.0 - within(penalised * load(s.line, j, KEY) + (1.0 - penalised) * v, lanes(0.0))
    share = load(s.line, j, SHARE) + mass * (load(s.lane, PRIMAL, 0) * on)
    return v, load(s.line, j, R) + on * gone(v, s.scale), share, on


@part
def sum_of(room, values, mask):
    """Σ of the lanes that the mask keeps."""
    store(room, 0, 0, mask * values)
    return room[0, 0] + room[0, 1] + room[0, 2] + room[0, 3]


@kernel
def flush(s, mass, forget):
    """Begin P and Q afresh, count the active ones anew, in a new heap; forget the averages if asked to."""
    s = borrow(s, WIDTHS)
    line, hot, active, counter = s.line, s.hot, s.active, s.counter
    primal, nothing, sizes, level = load(s.lane, PRIMAL, 0), lanes(0.0), lanes(0.0), load(active, LEVEL, 0)
    counts = (nothing, nothing, nothing)
    counter[HEAPED] = counter[SINCE] = 0
    for row in range(LEVEL):
        store(active, row, 0, nothing)
    for j in range(counter[SEEN]):
        place = np.int64(line[j, MARK]) - 1
        if place < 0:
            v, total, share, on = unpacked(s, j, mass)
            counts = counted(counts, v, primal * on, level)
            store(line, j, R, nothing if forget else total)
            if forget:
                store(line, j, SHARE, load(line, j, SHARE) - share)
        else:
            v = load(hot, place, V)
            if forget:
                store(hot, place, TOTAL, nothing)
                store(hot, place, SHARES, nothing)
        sizes = sizes + (1.0 - primal) * (v * v)
        for b in range(2):
            if place < 0 and line[j, KEY + b] != 0.0:
                queue.enter(s, j, b, abs(line[j, V + b]) * s.lane[PER, b])
            else:
                line[j, KEY + b] = 0.0
    count(active, counts, 1.0)
    s.number[DUAL] = sum_of(s.scale, sizes, lanes(1.0))
    store(s.scale, P, 0, nothing)
    store(s.scale, Q, 0, nothing)


@part
def _touch(s, n, row, rows, t, times, mass):
    """Add times·(row t) to a direction of the hot coordinates, duplicates and all; returns their number."""
    values, indices, indptr = rows
    line, hot, level, primal = s.line, s.hot, load(s.active, LEVEL, 0), load(s.lane, PRIMAL, 0)
    counts = (lanes(0.0), lanes(0.0), lanes(0.0))
    for i in range(np.uint64(indptr[t]), np.uint64(indptr[t + 1])):
        fetch_ahead(line, indices, i, 2)
        j = np.uint64(indices[i])
        mark = np.uint64(line[j, MARK])
        if mark == 0:
            v, total, share, on = unpacked(s, j, mass)
            store(hot, n, V, v)
            store(hot, n, TOTAL, total)
            store(hot, n, SHARES, share)
            counts = counted(counts, v, primal * on, level)
            hot[n, PHI] = hot[n, PSI] = hot[n, TRACE] = 0.0
            hot[n, MULTIPLIER] = 1.0
            s.names[n] = j
            n += 1
            line[j, MARK] = mark = np.uint64(n)
        hot[mark - np.uint64(1), row] += times * values[i]
    count(s.active, counts, -1.0)
    return n


@part
def _gather(s, rows, phi, phi_next, t, mass, law, n_special, traced, gram, room):
    """Make the coordinates of row t hot, with φ, ψ, e and their points in their places; returns how many. The products
    of the points go into `room`, Γ is that of (φ, δ, e)."""
    n, hot, sums = s.counter[HOT], s.hot, (0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
    for i in range(n):
        hot[i, PHI] = hot[i, PSI] = 0.0
    n = _touch(s, n, PHI, phi, t, 1.0, mass)
    if rows.discount[t] != 0.0:
        n = _touch(s, n, PSI, phi_next, t, rows.discount[t], mass)
    for i in range(n):
        f = hot[i, PHI]
        if traced is not None:
            hot[i, TRACE] = rows.fresh[t] * f + rows.old[t] * hot[i, TRACE]
        sums = points.gram_with(sums, f, f - hot[i, PSI], hot[i, TRACE], traced is not None)
    points.write_gram(gram, sums, traced is not None, rows.fresh[t])
    _try(s, n, n_special, (lanes(0.0), lanes(0.0), lanes(0.0)), law, traced, room, U)
    return n


@part
def _law(lane, root, mass, factor):
    """(keep, below, ridge, drop, ratio) of a point S(v, drop)·keep/(below + ridge): x of the sums, y = factor·v.

    drop and ridge are multiplied for special coordinates; `ratio` is keep/(below + ridge) of all others.
    """
    primal, fine = load(lane, PRIMAL, 0), 1.0 if root > 0.0 else 0.0
    keep, ridge = fine * primal + factor * (1.0 - primal), mass * load(lane, L2, 0)
    below = (root + 1.0 - fine) * primal + (1.0 - primal)
    return keep, below, ridge, mass * load(lane, L1, 0), keep / (below + ridge)


@part
def _point_of(v, law, special, multiplier):
    """The point of a coordinate of the sums."""
    keep, below, ridge, drop, ratio = law
    if not special:
        return ratio * shrink(v, drop)
    return keep * shrink(v, multiplier * drop) / (below + multiplier * ridge)


@kernel
def materialise(s, root, mass, n_special, first, vectors, out):
    """Write the point, sums, v and shares of the lines from `first` on into `out`, four rows for each, but only those
    of the lanes from the first of `vectors` to the one before the second."""
    s, out, hot, room = borrow(s, WIDTHS), borrow(out, 0), borrow(s.hot, HOT_WIDTH), np.zeros((1, 16))
    law = _law(s.lane, root, mass, s.number[FACTOR])
    for i in range(out.shape[1]):
        place = np.int64(s.line[first + i, MARK]) - 1
        v, total, share, _ = unpacked(s, first + i, mass)
        point = _point_of(v, law, False, 1.0)
        if place >= 0:
            v, total, share = load(hot, place, V), load(hot, place, TOTAL), load(hot, place, SHARES)
            point = _point_of(v, law, place < n_special, hot[place, MULTIPLIER])
        store(room, 0, 0, point)
        store(room, 0, 4, total)
        store(room, 0, 8, v)
        store(room, 0, 12, share)
        for b in range(vectors[0], vectors[1]):
            for row in range(b, 16, 4):
                out[row, i] = room[0, row]


@part
def _weights(room, a):
    """a·(weights of φ, ψ and e), a register each."""
    return a * load(room, GRADIENT, 0), a * load(room, GRADIENT, 4), a * load(room, GRADIENT, 8)


@part
def _moved(hot, i, weights, traced):
    """The sums of a coordinate after the step with these weights."""
    slope = hot[i, PHI] * weights[0] + hot[i, PSI] * weights[1]
    if traced is not None:
        slope = slope + hot[i, TRACE] * weights[2]
    return load(hot, i, V) - slope


@part
def _try(s, n, n_special, weights, law, traced, room, at):
    """Points of the sums after a step with these weights; their products with φ, ψ and e go into row `at`."""
    hot, front, back, e = s.hot, lanes(0.0), lanes(0.0), lanes(0.0)
    for i in range(n):
        v = _point_of(_moved(hot, i, weights, traced), law, i < n_special, hot[i, MULTIPLIER])
        store(hot, i, POINT, v)
        front, back = front + hot[i, PHI] * v, back + hot[i, PSI] * v
        if traced is not None:
            e = e + hot[i, TRACE] * v
    store(room, at, 0, front)
    store(room, at, 4, back)
    store(room, at, 8, e)


@part
def _finish(s, n, n_special, weights, weigh, law, mass, traced, change):
    """Count the trial points with their weight, take the step, write all back but special coordinates, which come
    first, and those of a trace that has not faded; returns the squares of the next point."""
    hot, line, kept, sizes, counts = s.hot, s.line, 0, lanes(0.0), (lanes(0.0), lanes(0.0), lanes(0.0))
    primal, penalised = load(s.lane, PRIMAL, 0), load(s.lane, PENALISED, 0)
    level, per = load(s.active, LEVEL, 0), load(s.lane, PER, 0)
    for i in range(n):
        j, point, v = np.uint64(s.names[i]), load(hot, i, POINT), _moved(hot, i, weights, traced)
        total = load(hot, i, TOTAL) + weigh * point
        share = load(hot, i, SHARES) + weigh * (1.0 - within(point, lanes(0.0)))
        then = _point_of(v, law, i < n_special, hot[i, MULTIPLIER])
        sizes = sizes + then * then
        if i < n_special or (traced is not None and abs(hot[i, TRACE]) > TRACE_TOL):
            store(hot, kept, V, v)
            store(hot, kept, TOTAL, total)
            store(hot, kept, SHARES, share)
            hot[kept, TRACE], hot[kept, MULTIPLIER], s.names[kept] = hot[i, TRACE], hot[i, MULTIPLIER], j
            kept += 1
            line[j, MARK] = kept
            continue
        on, known = primal * (1.0 - within(v, level)), load(line, j, KEY)
        # The key is there, and early enough.
        fine = within(known, np.abs(v) * per) * (1.0 - within(known, lanes(0.0)))
        store(line, j, V, v)
        store(line, j, R, total - (on + (1.0 - primal)) * gone(v, s.scale))
        store(line, j, SHARE, share - mass * on)
        store(line, j, KEY, on * known)  # the last lane is the mark, which this clears
        store(change, 0, 0, on * penalised * (1.0 - fine))
        for b in range(2):
            if change[0, b] > 0.0:
                queue.enter(s, j, b, abs(line[j, V + b]) * s.lane[PER, b])
        counts = counted(counts, v, on, level)
    count(s.active, counts, 1.0)
    s.counter[HOT] = kept
    return sizes


@part
def _along(c, u, factor):
    """⟨gradient, v⟩ of y, whose products u are those of factor·v."""
    return (points.inner(c, u, 2) + points.inner(c, u, 3)) / factor if factor > 0.0 else 0.0


@kernel
def stream(rule, rows, begin, s, work, change, record, fixed, weigh, n_special, every, traced):
    """The dual averaging of `dense` on sparse rows, for x_0 = 0 and the l2 ball; returns how many were taken.

    It begins with row `begin`, and stops where the run has diverged, or where `hot` or the heap is full, which
    counter[FULL] tells. `weigh` is 0 where nothing is averaged, `traced` None without traces.
    """
    s, rows, fixed, record = borrow(s, WIDTHS), borrow(rows, 0), borrow(fixed, 0), borrow(record, 0)
    (G, room, gram, folded), change = borrow(work, points.ROOM), borrow(change, 4)
    phi, phi_next, number, counter = rows.phi, rows.phi_next, s.number, s.counter
    u, c, k = room[U], room[GRADIENT], len(fixed.m) // 3
    primal, nothing, kinds = load(s.lane, PRIMAL, 0), lanes(0.0), (True, True, 2, traced is not None, True)
    no_step = (nothing, nothing, nothing)
    counter[FULL] = 0
    for t in range(begin, len(rows.reward)):
        most = counter[HOT] + phi[2][t + 1] - phi[2][t] + phi_next[2][t + 1] - phi_next[2][t]
        if most > len(s.names) or counter[HEAPED] + 2 * most > len(s.keys):
            counter[FULL] = 1
            return t
        before, factor = record[MASS], number[FACTOR]
        law = _law(s.lane, np.sqrt(record[GX]), before, factor)
        n = _gather(s, rows, phi, phi_next, t, before, law, n_special, traced, gram, room)
        points.fold(G, folded, fixed, k, traced is not None, 1.0, rows.fresh[t])  # ψ is γφ' here
        fine = points.products_in_range(record, room, rows.reward[t], 1.0, fixed.limit)
        a, mass, weights = 0.0, before, no_step
        if fine:
            given = (rows.reward[t], rows.alpha[t])
            nx, ny, (a, _) = points.first_look(rule, record, room, G, gram, *given, 1.0, fixed, kinds)
            mass = before + a
            queue.raise_level(s, before, mass)
            y_mid = over_root(fixed.ball, record[GY] + a * a * ny)
            y_mid = into_unit_ball(y_mid, number[DUAL] + a * (a * ny - 2.0 * _along(c, u, factor)))
            law = _law(s.lane, np.sqrt(record[GX] + nx), mass, y_mid)
            _try(s, n, n_special, _weights(room, a), law, traced, room, TRIED)
            average = weigh * a * law[4]
            store(s.scale, P, 0, load(s.scale, P, 0) + average)
            store(s.scale, Q, 0, load(s.scale, Q, 0) + average * load(s.active, LEVEL, 0))
            mx, my = points.look(room, TRIED, G, gram, rows.reward[t], 1.0, fixed, kinds)
            number[DUAL] = max(number[DUAL] + a * (a * my - 2.0 * _along(c, u, factor)), 0.0)
            record[GX] += max(nx, mx)
            record[GY] += a * a * max(ny, my)
            record[MASS] = mass
            record[WEIGHT] += a
            number[FACTOR] = into_unit_ball(over_root(fixed.ball, record[GY]), number[DUAL])
            law, weights = _law(s.lane, np.sqrt(record[GX]), mass, number[FACTOR]), _weights(room, a)
        others = max(sum_of(change, law[4] * law[4] * load(s.active, SQUARES, 0), primal), 0.0)
        sizes = _finish(s, n, n_special, weights, weigh * a, law, mass, traced, change)
        if not fine:
            return t
        rules.see_distance(record, others + sum_of(change, sizes, primal))
        counter[SINCE] += 1
        if counter[SINCE] >= every or counter[HEAPED] > 8 * len(s.line):  # entries out of date gather in the heap
            flush(s, mass, False)
    return len(rows.reward)
