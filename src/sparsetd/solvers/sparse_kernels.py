"""Exact O(nnz) steps of the stochastic, primal-dual and mirror-prox solvers on sparse rows.

A coordinate that a transition does not touch still moves, but in a way that is known in advance. Between two touches every
vector of the state (each block of x, each block of y) obeys x ← f S(a x, α ρ), the same for all its coordinates, so that

    x_t = F_t S_{ρ L_t}(v)                 F ← a f F       L ← L + α / |a F|
    Σ_{i<t} ω_i x_i = R + v P_t − sgn(v) ρ Q_t      P ← P + ω F     Q ← Q + ω F L

with two numbers (v, R) per coordinate and four running scalars (F, L, P, Q) per vector. Here f = 1/(1 + α l2) for an elastic
net, a = 1 − α·damping, and f is the radial scaling of an l2 ball (y has ρ = 0). A step loads the touched coordinates as plain
numbers (x_t, Σ ω x), performs the dense step on them, and stores them back for time t + 1; all laziness is in load and store.

A coordinate that has reached zero (|v| ≤ ρ L_t) did so at m, the first index with ρ L_m ≥ |v|, and its sum stopped there: in
closed form for constant steps, by a search in the history of (L, P, Q) otherwise.

F only shrinks. When |F| < 2⁻¹⁰ a new *generation* begins with F = 1, because P would no longer resolve the terms added to it.
`chain` holds, for every older generation, the composed map to the beginning of the current one; it has the same form, so one
multiplication brings a coordinate up to date. Every `horizon` steps all coordinates are flushed, which bounds the history and
the rounding errors of the sums. Flushes happen at fixed step numbers, hence any chunking of the stream gives the same bits.

All jitted code of the lazy solvers is in this file, and everything enters as data: see the notes on Numba in the design.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import config, njit, types
from numba.extending import intrinsic
from numpy.typing import NDArray

Array = NDArray[Any]

STOCHASTIC, PRIMAL_DUAL, MIRROR_PROX = 0, 1, 2
NO_BALL, L2_BALL, LINF_BALL = 0, 2, 3
# Columns of `scalar`, of `chain` and (from L on) of `history`; the last three compensate the rounding of L, P and Q.
F, L, P, Q, CARRY = 0, 1, 2, 3, 4
# Entries of `count`.
SINCE_FLUSH, STEPS, N_TRACE, STATUS, GENERATION, OLDEST = 0, 1, 2, 3, 4, 6
RESTART = 2.0**-10
DEAD = 2.0**-200
SWEEP = 512

OPTIONS = {"cache": True, "nogil": True, "error_model": "numpy"}
SUMS = {"reassoc", "contract", "arcp", "nsz"}


class Lines(NamedTuple):
    """The state: one line of 8 or 16 numbers per coordinate, v of each vector, then R of each summed vector, generations, mark."""

    line: Array  # (d, stride)
    scalar: Array  # (V, 7): F L P Q and the compensation of L P Q
    count: Array  # (8,) integers, see the names above
    norm: Array  # (1,): ‖y‖²
    chain: Array  # (2, generations, k, 4): composed (F, L, P, Q) from the start of a generation to the current one
    ends: Array  # (2, generations, k, 4): (F, L, P, Q) at the end of a generation
    begins: Array  # (2, generations): value of SINCE_FLUSH at the start of a generation
    history: Array  # (horizon + 1, h, 3): L P Q of x after every step since the flush; h = 1 where all blocks agree
    touched: Array  # (capacity,): coordinates of the current step; the first N_TRACE of them carry the trace
    along: Array  # (3, capacity): their components of φ, ψ and e


class Rule(NamedTuple):
    """Constants of a run."""

    method: int
    ball: int
    n_blocks: int  # k
    n_sums: int  # vectors whose weighted sum is kept: 0, k (x) or V (x and y)
    slot_x: int  # where a line keeps its generation of x (−1: x never scales) and of y
    slot_y: int
    constant: float  # the constant step that is also the weight of the average, or 0
    traces: bool
    trace_tol: float
    M: Array
    m: Array
    damping: Array
    l1: Array  # (V,): ρ of every vector, 0 for y
    l2: Array  # (k,)
    special: Array  # coordinates whose penalty is multiplied by a factor other than 1 …
    factor: Array  # … and the factors


class Rows(NamedTuple):
    """Sparse rows; `values` is empty where every stored entry is 1."""

    values: Array
    indices: Array
    indptr: Array


class Scratch(NamedTuple):
    """Plain numbers of the touched coordinates, one row per vector."""

    raw: Array  # (16, capacity): the lines, transposed
    old: Array  # (V, capacity): values before the step
    mid: Array
    new: Array
    total: Array  # (V, capacity): weighted sums
    factor: Array  # (capacity,)


if config.DISABLE_JIT:

    def _prefetch(line: Array, j: int) -> None:
        """A hint to the processor: nothing to do in plain Python."""

else:

    @intrinsic
    def _prefetch(_context, line, j):  # type: ignore[no-untyped-def]
        """Ask for row j of `line` ahead of its use: 1.4 times faster at d ≥ 10⁶."""
        from llvmlite import ir
        from numba.core import cgutils

        def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
            array = context.make_array(signature.args[0])(context, builder, args[0])
            index = builder.zext(args[1], ir.IntType(64)) if args[1].type.width < 64 else args[1]
            stride = cgutils.unpack_tuple(builder, array.strides)[0]
            address = builder.add(builder.ptrtoint(array.data, ir.IntType(64)), builder.mul(index, stride))
            pointer = builder.inttoptr(address, ir.IntType(8).as_pointer())
            word = ir.IntType(32)
            kind = ir.FunctionType(ir.VoidType(), [ir.IntType(8).as_pointer(), word, word, word])
            hint = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
            builder.call(hint, [pointer, word(0), word(3), word(1)])
            return context.get_dummy_value()

        return types.void(line, j), codegen


@njit(**OPTIONS)
def _fetch_ahead(line, rows, t):  # type: ignore[no-untyped-def]
    if t + 1 < len(rows.indptr):
        for i in range(rows.indptr[t], rows.indptr[t + 1]):
            _prefetch(line, rows.indices[i])


# Loading ------------------------------------------------------------------------------------------------------------


@njit(**OPTIONS)
def _copy_line(line, j, raw, i):  # type: ignore[no-untyped-def]
    for s in range(8):
        raw[s, i] = line[j, s]
    if line.shape[1] == 16:
        for s in range(8, 16):
            raw[s, i] = line[j, s]


@njit(**OPTIONS)
def _position(lines, raw, j, n):  # type: ignore[no-untyped-def]
    """Place of coordinate j among the n touched ones: the mark is believed only if the place names j, so it needs no reset."""
    mark = lines.line.shape[1] - 1
    place = np.int64(lines.line[j, mark])
    if place < n and lines.touched[place] == j:
        return place
    lines.line[j, mark] = n
    lines.touched[n] = j
    for q in range(3):
        lines.along[q, n] = 0.0
    _copy_line(lines.line, j, raw, n)
    return n


@njit(**OPTIONS)
def _touch(lines, raw, n, q, rows, t, scale):  # type: ignore[no-untyped-def]
    """Add scale · (row t) to direction q of the touched coordinates; duplicates add up. Returns the new number of them."""
    plain = len(rows.values) == 0
    for i in range(rows.indptr[t], rows.indptr[t + 1]):
        place = _position(lines, raw, np.uint64(rows.indices[i]), n)
        n = max(n, place + 1)
        lines.along[q, place] += scale if plain else scale * rows.values[i]
    return n


@njit(**OPTIONS)
def _first_at_least(history, h, lo, hi, level):  # type: ignore[no-untyped-def]
    """First index in [lo, hi) whose L reaches `level`, else hi: interpolation and bisection in turns, for L is increasing."""
    if hi - lo < 1 or history[hi - 1, h, 0] < level:
        return hi
    below, reached = lo - 1, hi - 1
    guess_next = True
    while reached - below > 1:
        middle = (below + reached) // 2
        if guess_next and below >= lo:
            low, high = history[below, h, 0], history[reached, h, 0]
            guess = below + np.int64((level - low) / (high - low) * (reached - below))
            middle = min(max(guess, below + 1), reached - 1)
        guess_next = not guess_next
        if history[middle, h, 0] >= level:
            reached = middle
        else:
            below = middle
    return reached


@njit(**OPTIONS)
def _sum_until_zero(lines, rule, b, v, generation):  # type: ignore[no-untyped-def]
    """What a coordinate of x that reached zero since `generation` added to its sum before it did."""
    rho, lag = rule.l1[b], 1 if rule.method == MIRROR_PROX else 0
    total, current = 0.0, lines.count[GENERATION]
    h = min(b, lines.history.shape[1] - 1)
    while generation < current and abs(v) > rho * lines.ends[0, generation, b, L]:
        end = lines.ends[0, generation, b]
        sign = np.sign(v)
        total += v * end[P] - sign * rho * end[Q]
        v = end[F] * (v - sign * rho * end[L])
        generation += 1
    lo = lines.begins[0, generation]
    hi = lines.begins[0, generation + 1] if generation < current else lines.count[SINCE_FLUSH] + 1
    m = _first_at_least(lines.history, h, lo, hi, abs(v) / rho) - lag
    if m == hi:
        return total + v * lines.ends[0, generation, b, P] - np.sign(v) * rho * lines.ends[0, generation, b, Q]
    return total + v * lines.history[m, h, 1] - np.sign(v) * rho * lines.history[m, h, 2]


@njit(**OPTIONS)
def _renew(lines, rule, raw, n, group, slot):  # type: ignore[no-untyped-def]
    """Bring (v, R) of one group of vectors (0: x, 1: y) from their generation to the current one."""
    k, current = rule.n_blocks, lines.count[GENERATION + group]
    n_vectors = len(rule.l1)
    for i in range(n):
        generation = np.int64(raw[slot, i])
        if generation == current:
            continue
        for c in range(k):
            b = group * k + c
            v, rho = raw[b, i], rule.l1[b]
            scale, drop = lines.chain[group, generation, c, F], rho * lines.chain[group, generation, c, L]
            if b >= rule.n_sums:
                gain = 0.0
            elif rho > 0.0 and v != 0.0 and abs(v) <= drop:
                gain = _sum_until_zero(lines, rule, b, v, generation)
            else:
                gain = v * lines.chain[group, generation, c, P] - np.sign(v) * rho * lines.chain[group, generation, c, Q]
            if b < rule.n_sums:
                raw[n_vectors + b, i] += gain
            raw[b, i] = scale * np.sign(v) * max(abs(v) - drop, 0.0)
        raw[slot, i] = current


@njit(**OPTIONS)
def _resolve_constant(v, total, b, n, old, rho, step, since, lag, out):  # type: ignore[no-untyped-def]
    """Values and sums for a constant step α = ω: L_m = P_m = α m and Q_m = α² m (m − 1)/2 (+ α² m where sums lag)."""
    per = 1.0 / (rho * step) if rho > 0.0 else 1e300
    drop, last = rho * step * since, float(since)
    shift = 2.0 * lag - 1.0
    half = 0.5 * rho * step * step
    for i in range(n):
        size = abs(v[b, i])
        old[b, i] = np.copysign(max(size - drop, 0.0), v[b, i])
        m = min(max(np.ceil(size * per) - lag, 0.0), last)
        out[b, i] = total[b, i] + np.copysign(size * step * m - half * m * (m + shift), v[b, i])


@njit(**OPTIONS)
def _resolve_plain(lines, rule, raw, b, n, old, out):  # type: ignore[no-untyped-def]
    """Values and sums of a vector without shrinkage: x = F v, Σ ω x = R + v P."""
    scale, mass = lines.scalar[b, F], lines.scalar[b, P]
    for i in range(n):
        old[b, i] = scale * raw[b, i]
    if b < rule.n_sums:
        place = len(rule.l1) + b
        for i in range(n):
            out[b, i] = raw[place, i] + raw[b, i] * mass


@njit(**OPTIONS)
def _resolve_searched(lines, rule, raw, b, n, old, out):  # type: ignore[no-untyped-def]
    """Values and sums of a vector with shrinkage under any schedule."""
    scale, drop = lines.scalar[b, F], rule.l1[b] * lines.scalar[b, L]
    mass, loss = lines.scalar[b, P], rule.l1[b] * lines.scalar[b, Q]
    for i in range(n):
        v = raw[b, i]
        old[b, i] = scale * np.copysign(max(abs(v) - drop, 0.0), v)
    if b < rule.n_sums:
        place = len(rule.l1) + b
        for i in range(n):
            v = raw[b, i]
            if abs(v) > drop:
                gain = v * mass - np.copysign(loss, v)
            elif v == 0.0:
                gain = 0.0
            else:
                gain = _sum_until_zero(lines, rule, b, v, lines.count[GENERATION])
            out[b, i] = raw[place, i] + gain


@njit(**OPTIONS)
def _resolve(lines, rule, raw, n, old, total):  # type: ignore[no-untyped-def]
    """Turn the raw lines of n coordinates into values and weighted sums."""
    if rule.slot_x >= 0:
        _renew(lines, rule, raw, n, 0, rule.slot_x)
    if rule.slot_y >= 0:
        _renew(lines, rule, raw, n, 1, rule.slot_y)
    for b in range(len(rule.l1)):
        if rule.l1[b] == 0.0:
            _resolve_plain(lines, rule, raw, b, n, old, total)
        elif rule.constant > 0.0 and b < rule.n_sums:
            lag = 1 if rule.method == MIRROR_PROX else 0
            sums = raw[len(rule.l1) :]
            since = lines.count[SINCE_FLUSH]
            _resolve_constant(raw, sums, b, n, old, rule.l1[b], rule.constant, since, lag, total)
        else:
            _resolve_searched(lines, rule, raw, b, n, old, total)


# Storing ------------------------------------------------------------------------------------------------------------


@njit(**OPTIONS)
def _store(lines, rule, raw, n, new, total):  # type: ignore[no-untyped-def]
    """Write values and sums back as (v, R) for the current scalars: v = x/F + sgn ρ L, R = Σ ω x − v P + sgn ρ Q."""
    n_vectors = len(rule.l1)
    for b in range(n_vectors):
        inverse, drop = 1.0 / lines.scalar[b, F], rule.l1[b] * lines.scalar[b, L]
        mass, loss = lines.scalar[b, P], rule.l1[b] * lines.scalar[b, Q]
        place = n_vectors + b
        for i in range(n):
            v = new[b, i] * inverse
            raw[b, i] = v + np.copysign(drop, v) if v != 0.0 else 0.0
        if b < rule.n_sums:
            for i in range(n):
                v = raw[b, i]
                back = v * mass - np.copysign(loss, v) if v != 0.0 else 0.0
                raw[place, i] = total[b, i] - back
    for group in range(2):
        slot = rule.slot_x if group == 0 else rule.slot_y
        if slot >= 0:
            raw[slot, :n] = lines.count[GENERATION + group]


@njit(**OPTIONS)
def _copy_back(lines, raw, n):  # type: ignore[no-untyped-def]
    line = lines.line
    wide = line.shape[1] == 16
    for i in range(n):
        j = np.uint64(lines.touched[i])
        for s in range(8):
            line[j, s] = raw[s, i]
        if wide:
            for s in range(8, 16):
                line[j, s] = raw[s, i]


# The running scalars --------------------------------------------------------------------------------------------------


@njit(**OPTIONS)
def _add(scalar, b, column, term):  # type: ignore[no-untyped-def]
    """Compensated summation: the sums run over millions of steps, and their differences matter."""
    carry = column - L + CARRY
    term = term - scalar[b, carry]
    total = scalar[b, column] + term
    scalar[b, carry] = (total - scalar[b, column]) - term
    scalar[b, column] = total


@njit(**OPTIONS)
def _advance(lines, rule, alpha, weight, decay, mid):  # type: ignore[no-untyped-def]
    """Move F, L, P, Q of every vector past one step; `decay` and `mid` are the factors a and f of the new and summed value."""
    lag = rule.method == MIRROR_PROX
    k, scalar = rule.n_blocks, lines.scalar
    lines.count[SINCE_FLUSH] += 1
    since = lines.count[SINCE_FLUSH]
    for b in range(len(rule.l1)):
        before, level = scalar[b, F], scalar[b, L]
        after = before * decay[b, 0] * decay[b, 1]
        scalar[b, F] = after
        if rule.constant > 0.0 and rule.l1[b] > 0.0:
            step = rule.constant
            scalar[b, L] = scalar[b, P] = step * since
            scalar[b, Q] = 0.5 * step * step * since * (since + 1 if lag else since - 1)
            continue
        if rule.l1[b] > 0.0:
            _add(scalar, b, L, alpha / abs(decay[b, 0] * before))
        if lag:
            before = before * mid[b]
            level = scalar[b, L]
        _add(scalar, b, P, weight * before)
        if rule.l1[b] > 0.0:
            _add(scalar, b, Q, weight * before * level)
    if since < len(lines.history):
        for h in range(lines.history.shape[1]):
            b = h
            if lines.history.shape[1] == 1 and k == 2 and rule.l1[0] == 0.0:
                b = 1
            for c in range(3):
                lines.history[since, h, c] = scalar[b, L + c]
    if rule.slot_x >= 0:
        _next_generation(lines, rule, 0)
    if rule.slot_y >= 0:
        _next_generation(lines, rule, 1)


@njit(**OPTIONS)
def _next_generation(lines, rule, group):  # type: ignore[no-untyped-def]
    """Begin a generation if a scale of the group has become small; extend the chains that are still alive."""
    k, scalar = rule.n_blocks, lines.scalar
    smallest = 1.0
    for c in range(k):
        smallest = min(smallest, abs(scalar[group * k + c, F]))
    if smallest >= RESTART:
        return
    current = lines.count[GENERATION + group]
    for c in range(k):
        b = group * k + c
        lines.ends[group, current, c] = scalar[b, :CARRY]
        for g in range(lines.count[OLDEST + group], current + 1):
            _compose(lines.chain[group, g, c], scalar[b])
        scalar[b, F] = 1.0
        scalar[b, L:] = 0.0
    oldest = lines.count[OLDEST + group]
    while oldest <= current and np.max(np.abs(lines.chain[group, oldest, :, F])) < DEAD:
        lines.chain[group, oldest, :, F] = 0.0
        oldest += 1
    lines.count[OLDEST + group] = oldest
    _begin(lines, group, current + 1)


@njit(**OPTIONS)
def _compose(chain, end):  # type: ignore[no-untyped-def]
    """chain ← (end of the current generation) ∘ chain."""
    scale = chain[F]
    if scale != 0.0:
        chain[Q] += scale * chain[L] * end[P] + np.sign(scale) * end[Q]
        chain[P] += scale * end[P]
        chain[L] += end[L] / abs(scale)
        chain[F] = scale * end[F]


@njit(**OPTIONS)
def _begin(lines, group, generation):  # type: ignore[no-untyped-def]
    lines.count[GENERATION + group] = generation
    lines.begins[group, generation] = lines.count[SINCE_FLUSH]
    lines.chain[group, generation] = 0.0
    lines.chain[group, generation, :, F] = 1.0
    if group == 0 and lines.count[SINCE_FLUSH] < len(lines.history):
        lines.history[lines.count[SINCE_FLUSH]] = 0.0


@njit(**OPTIONS)
def begin_afresh(lines):  # type: ignore[no-untyped-def]
    """Scalars, history and generations of a state whose lines hold plain values: after a flush and at the beginning."""
    lines.count[SINCE_FLUSH] = 0
    lines.scalar[:] = 0.0
    lines.scalar[:, F] = 1.0
    lines.count[OLDEST : OLDEST + 2] = 0
    _begin(lines, 0, 0)
    _begin(lines, 1, 0)


@njit(**OPTIONS)
def materialise(lines, rule, values, totals):  # type: ignore[no-untyped-def]
    """Write the values (V, d) and weighted sums (V or k or 0, d) of all coordinates; the state is left as it is."""
    n_vectors, d = values.shape
    raw = np.zeros((16, SWEEP))
    old, total = np.zeros((n_vectors, SWEEP)), np.zeros((n_vectors, SWEEP))
    for start in range(0, d, SWEEP):
        n = min(SWEEP, d - start)
        for i in range(n):
            _copy_line(lines.line, start + i, raw, i)
        _resolve(lines, rule, raw, n, old, total)
        values[:, start : start + n] = old[:, :n]
        totals[:, start : start + n] = total[: rule.n_sums, :n]


@njit(**OPTIONS)
def _flush(lines, rule, damp, weight):  # type: ignore[no-untyped-def]
    """Replace every line by its plain value and sum. With `damp`, also x ← damp · x, its old value counted in the sum.

    The second use is for a step whose a = 1 − α·damping is nearly 0, by which the lines could not be divided.
    """
    n_vectors, d = len(rule.l1), len(lines.line)
    raw = np.zeros((16, SWEEP))
    old, total = np.zeros((n_vectors, SWEEP)), np.zeros((n_vectors, SWEEP))
    norm = 0.0
    for start in range(0, d, SWEEP):
        n = min(SWEEP, d - start)
        for i in range(n):
            _copy_line(lines.line, start + i, raw, i)
        _resolve(lines, rule, raw, n, old, total)
        for b in range(n_vectors):
            if b >= rule.n_blocks:
                for i in range(n):
                    norm += old[b, i] * old[b, i]
            for i in range(n):
                lines.line[start + i, b] = damp[b] * old[b, i]
            if b < rule.n_sums:
                for i in range(n):
                    lines.line[start + i, n_vectors + b] = total[b, i] + weight * (1.0 - damp[b]) * old[b, i]
        for slot in (rule.slot_x, rule.slot_y):
            if slot >= 0:
                lines.line[start : start + n, slot] = 0.0
    lines.norm[0] = norm
    begin_afresh(lines)


# One step -------------------------------------------------------------------------------------------------------------


@njit(fastmath=SUMS, **OPTIONS)
def _products(along, values, n, n_directions, out):  # type: ignore[no-untyped-def]
    for b in range(values.shape[0]):
        for q in range(n_directions):
            total = 0.0
            for i in range(n):
                total += along[q, i] * values[b, i]
            out[b, q] = total


@njit(fastmath=SUMS, **OPTIONS)
def _growth(new, old, first, last, n):  # type: ignore[no-untyped-def]
    """Σ new² − old² over the rows first … last−1."""
    total = 0.0
    for b in range(first, last):
        for i in range(n):
            total += (new[b, i] - old[b, i]) * (new[b, i] + old[b, i])
    return total


@njit(fastmath={"contract"}, **OPTIONS)
def _move(along, old, b, n, n_directions, scale, step, g, c, out):  # type: ignore[no-untyped-def]
    """out = scale · old − step · (g_φ φ + g_ψ ψ + g_e e) for vector b; g is row c of the weights."""
    s0, s1, s2 = step * g[c, 0], step * g[c, 1], step * g[c, 2]
    if n_directions == 2:
        for i in range(n):
            out[b, i] = scale * old[b, i] - (s0 * along[0, i] + s1 * along[1, i])
    else:
        for i in range(n):
            out[b, i] = scale * old[b, i] - (s0 * along[0, i] + s1 * along[1, i] + s2 * along[2, i])


@njit(**OPTIONS)
def _shrink(x, b, n, l1, l2, factor, varied):  # type: ignore[no-untyped-def]
    """Prox of the elastic net, l1 and l2 already multiplied by the step."""
    scale = 1.0 / (1.0 + l2)
    if varied:
        for i in range(n):
            v = x[b, i]
            x[b, i] = np.copysign(max(abs(v) - l1 * factor[i], 0.0), v) / (1.0 + l2 * factor[i])
    elif l1 > 0.0 or l2 > 0.0:
        for i in range(n):
            v = x[b, i]
            x[b, i] = scale * np.copysign(max(abs(v) - l1, 0.0), v)


@njit(**OPTIONS)
def _project(lines, rule, old, out, n):  # type: ignore[no-untyped-def]
    """Project y on its ball; returns (‖y‖² afterwards, the factor by which untouched coordinates shrink)."""
    k = rule.n_blocks
    if rule.ball == LINF_BALL:
        for b in range(k, 2 * k):
            for i in range(n):
                out[b, i] = min(max(out[b, i], -1.0), 1.0)
    elif rule.ball == L2_BALL:
        norm = lines.norm[0] + _growth(out, old, k, 2 * k, n)
        if norm > 1.0:
            scale = 1.0 / np.sqrt(norm)
            for b in range(k, 2 * k):
                for i in range(n):
                    out[b, i] *= scale
            return 1.0, scale
        return norm, 1.0
    return 0.0, 1.0


@njit(**OPTIONS)
def _weights(rule, u, first, reward, adjoint, fresh, g, row):  # type: ignore[no-untyped-def]
    """Rows of g: M u − r m, or Mᵀ u, with u the products of the vectors from `first` on. Without traces e = fresh · φ is folded in."""
    k = rule.n_blocks
    for c in range(k):
        if not rule.traces:
            u[first + c, 2] = fresh * u[first + c, 0]
    for c in range(k):
        for q in range(3):
            i = 3 * c + q
            total = 0.0 if adjoint else -reward * rule.m[i]
            for c2 in range(k):
                for q2 in range(3):
                    j = 3 * c2 + q2
                    total += (rule.M[j, i] if adjoint else rule.M[i, j]) * u[first + c2, q2]
            g[row + c, q] = total
        if not rule.traces:
            g[row + c, 0] += fresh * g[row + c, 2]


@njit(**OPTIONS)
def _saddle(lines, rule, work, n, start, reward, fresh, alpha, u, g, out, varied):  # type: ignore[no-untyped-def]
    """out = (prox(x − α A_tᵀ ŷ), Π(y + α (A_t x̂ − b_t))) from the products u of (x̂, ŷ); returns what `_project` returns."""
    k = rule.n_blocks
    n_directions = 3 if rule.traces else 2
    _weights(rule, u, 0, reward, False, fresh, g, k)
    _weights(rule, u, k, reward, True, fresh, g, 0)
    for b in range(k):
        _move(lines.along, start, b, n, n_directions, 1.0, alpha, g, b, out)
        _shrink(out, b, n, alpha * rule.l1[b], alpha * rule.l2[b], work.factor, varied)
    for b in range(k, 2 * k):
        _move(lines.along, start, b, n, n_directions, 1.0, -alpha, g, b, out)
    return _project(lines, rule, start, out, n)


@njit(**OPTIONS)
def _drop_small(lines, n, tol):  # type: ignore[no-untyped-def]
    """Keep the trace at the front of the touched coordinates, without entries of size ≤ tol."""
    kept, along = 0, lines.along
    for i in range(n):
        if abs(along[2, i]) > tol:
            lines.touched[kept] = lines.touched[i]
            along[2, kept] = along[2, i]
            kept += 1
    lines.count[N_TRACE] = kept


@njit(**OPTIONS)
def _gather(lines, rule, work, t, phi, phi_next, discount, fresh, fading):  # type: ignore[no-untyped-def]
    """Collect the coordinates of e_{t−1}, φ_t, ψ_t and the special ones with their components; returns how many."""
    n, raw, along = 0, work.raw, lines.along
    if rule.traces:
        mark = lines.line.shape[1] - 1
        n = lines.count[N_TRACE] if fading != 0.0 else 0
        for i in range(n):
            j = lines.touched[i]
            lines.line[j, mark] = i
            _copy_line(lines.line, j, raw, i)
            along[0, i] = along[1, i] = 0.0
            along[2, i] *= fading
    n = _touch(lines, raw, n, 0, phi, t, 1.0)
    if rule.traces:
        for i in range(n):
            along[2, i] += fresh * along[0, i]
    if discount != 0.0:
        n = _touch(lines, raw, n, 1, phi_next, t, discount)
    if len(rule.special):
        work.factor[: n + len(rule.special)] = 1.0
        for i in range(len(rule.special)):
            place = _position(lines, raw, np.uint64(rule.special[i]), n)
            n = max(n, place + 1)
            work.factor[place] = rule.factor[i]
    return n


@njit(**OPTIONS)
def run(lines, rule, work, phi, phi_next, reward, discount, fresh, fading, alpha, weight):  # type: ignore[no-untyped-def]
    """Advance the state by all rows; `fresh` and `fading` are c and d of e_t = c φ_t + d e_{t−1}, `weight` those of the sums."""
    k, n_vectors = rule.n_blocks, len(rule.l1)
    n_directions = 3 if rule.traces else 2
    varied = len(rule.special) > 0
    u, g = np.zeros((n_vectors, 3)), np.zeros((n_vectors, 3))
    decay, mid, damp = np.ones((n_vectors, 2)), np.ones(n_vectors), np.ones(n_vectors)
    horizon = len(lines.history) - 1 if len(lines.history) > 1 else flush_interval(len(lines.line))
    for t in range(len(reward)):
        step = alpha[t]
        _fetch_ahead(lines.line, phi, t + 1)
        _fetch_ahead(lines.line, phi_next, t + 1)
        n = _gather(lines, rule, work, t, phi, phi_next, discount[t], fresh[t], fading[t])
        _resolve(lines, rule, work.raw, n, work.old, work.total)
        _products(lines.along, work.old, n, n_directions, u)
        summed = work.old
        if rule.method == STOCHASTIC:
            _weights(rule, u, 0, reward[t], False, fresh[t], g, 0)
            for b in range(k):
                decay[b, 0] = 1.0 - step * rule.damping[b]
                _move(lines.along, work.old, b, n, n_directions, decay[b, 0], step, g, b, work.new)
                _shrink(work.new, b, n, step * rule.l1[b], step * rule.l2[b], work.factor, varied)
        else:
            norm, scale = _saddle(lines, rule, work, n, work.old, reward[t], fresh[t], step, u, g, work.new, varied)
            if rule.method == MIRROR_PROX:
                work.mid[:, :n] = work.new[:, :n]
                mid[k:] = scale
                _products(lines.along, work.mid, n, n_directions, u)
                norm, scale = _saddle(lines, rule, work, n, work.old, reward[t], fresh[t], step, u, g, work.new, varied)
                summed = work.mid
            lines.norm[0] = norm
            decay[k:, 1] = scale
        for b in range(k):
            decay[b, 1] = 1.0 / (1.0 + step * rule.l2[b])
            mid[b] = decay[b, 0] * decay[b, 1]
        for b in range(rule.n_sums):
            for i in range(n):
                work.total[b, i] += weight[t] * summed[b, i]
        if np.min(np.abs(decay[:, 0])) < 0.0625:
            damp[:] = decay[:, 0]
            decay[:, 0] = 1.0
            _flush(lines, rule, damp, weight[t])
        _advance(lines, rule, step, weight[t], decay, mid)
        _store(lines, rule, work.raw, n, work.new, work.total)
        _copy_back(lines, work.raw, n)
        if rule.traces:
            _drop_small(lines, n, rule.trace_tol)
        lines.count[STEPS] += 1
        full = max(lines.count[GENERATION], lines.count[GENERATION + 1]) + 2 >= lines.chain.shape[1]
        if lines.count[SINCE_FLUSH] >= horizon or full:
            damp[:] = 1.0
            _flush(lines, rule, damp, 0.0)


@njit(**OPTIONS)
def flush_interval(d):  # type: ignore[no-untyped-def]
    """Steps between flushes: 4 d, so that a flush costs little per step, between 2¹⁶ and 2²²."""
    return min(max(4 * d, 1 << 16), 1 << 22)
