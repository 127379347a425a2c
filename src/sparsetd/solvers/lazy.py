"""The lazy state of CSR rows: what it holds, how it begins, how rows are taken, and how it is read.

`state.lazy` is a dict of plain values that a file can hold: the name of its pass ("entries" or "awake"), a key made of
the settings (another penalty has another key, which begins a new state), and the tuples of arrays for the kernels.

    entries    compiled.entries: steps set by hand, and any rule where nothing has a threshold
    awake      compiled.awake: dual averaging, which must know which coordinates have reached zero

Both follow the same law (`compiled.law`): a line per coordinate with (v, R) of every vector, and scalars for the rest.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from sparsetd.solvers.compiled import awake, entries, law
from sparsetd.solvers.compiled.awake import HOT, MULTIPLIER, SHARES, TOTAL, TRACE, Hot
from sparsetd.solvers.compiled.entries import Kinds
from sparsetd.solvers.compiled.law import NARROW, THIN, TRACE_TOL, TRACED, WIDE, F, Lines, R, V
from sparsetd.solvers.compiled.points import Stream
from sparsetd.solvers.compiled.queue import EARLY, KEY, LEVEL, MARK, SHARE
from sparsetd.solvers.compiled.rules import GX, GY, MASS
from sparsetd.solvers.state import LAYOUT, Places, aligned_zeros, room_for_a_step
from sparsetd.solvers.stream import BOX, four_of, is_bent
from sparsetd.system import Array

GENERATIONS, GUIDE = 4096, 4097
ROOM = 64  # entries of the trace, or hot coordinates, at first
# A generation ends before P can no longer resolve the terms added to it, or before overflow.
SMALLEST = {True: 2.0**-10, False: 2.0**-200}


# --- rows -----------------------------------------------------------------------------------------------------------


class Rows(NamedTuple):
    """CSR rows; a slice of them shares their memory."""

    values: Array
    indices: Array
    indptr: Array

    def between(self, first: int, stop: int) -> Rows:
        return self._replace(indptr=self.indptr[first : stop + 1])

    def alone(self) -> Rows:
        """The rows without the entries that come before and after them."""
        lo, hi = self.indptr[0], self.indptr[-1]
        return Rows(self.values[lo:hi], self.indices[lo:hi], self.indptr - lo)


def rows_of(matrix: Any) -> Rows:
    """Return CSR rows for the kernels, always of the same types, because another type would compile another kernel.

    To Numba a read-only array (a memory map, Arrow's memory) is another type. The kernels only read, so they get a view
    that hides this.
    """
    csr = matrix if sp.issparse(matrix) and matrix.format == "csr" else sp.csr_array(matrix)
    return Rows(_lent(csr.data, np.float64), _lent(csr.indices, np.int32), _lent(csr.indptr, np.int64))


def _lent(array: Array, dtype: Any) -> Array:
    """Return the array itself, or a view that looks writable; only an array of another type or layout is copied."""
    plain = np.ascontiguousarray(array, dtype=dtype)
    if plain.flags.writeable:
        return plain
    lender = SimpleNamespace(owner=plain)  # the view must keep the array alive
    lender.__array_interface__ = {**plain.__array_interface__, "data": (plain.ctypes.data, False)}
    return np.asarray(lender)


def placed(places: Places, phi: Rows, phi_next: Rows) -> tuple[Rows, Rows]:
    """Return the rows with places in place of features; where φ' is the next φ, both share one array of places."""
    if not places:
        return phi, phi_next
    ends, shift = (phi.indptr, phi_next.indptr), phi_next.indices.ctypes.data - phi.indices.ctypes.data
    follows = np.array_equal(ends[1][:-1] + shift // phi.indices.itemsize, ends[0][1:])
    at = int(ends[0][1 if follows else -1] - ends[0][0])
    room = np.empty(at + int(ends[1][-1] - ends[1][0]), np.int32)
    places.count = int(law.place(places.of, places.names, places.count, (phi, phi_next), room, at, follows))
    phi, phi_next = phi.alone(), phi_next.alone()
    return phi._replace(indices=room[: len(phi.indices)]), phi_next._replace(indices=room[at:])


def horizon(d: int) -> int:
    """Return how many rows lie between two flushes: enough that a flush, O(d), costs little per row, and no more.

    A sum is R + vP − sgn(v)ρQ. Between flushes its terms grow, and with them their rounding error, while the sum itself
    may be tiny.
    """
    return max(4 * d, 256)


# --- both passes ----------------------------------------------------------------------------------------------------


def taker(name: str, solver: Any, state: Any, system: Any) -> Callable[[Stream], int]:
    """Return the function that takes rows in this pass; it returns how many it took before the run diverged.

    It begins a new state where the pass or the penalty has changed.
    """
    (kind, begin, step_of), fixed, rule = _PASSES[name], system.fixed, solver.rule(state.x.size)
    # There is a weight for every feature, which is too much for the header of a file: a digest stands for them.
    weighed = system.factor is not None and system.penalised
    named = hashlib.sha256(system.factor.tobytes()).hexdigest() if weighed else None
    key = repr((solver.average != "none", _constant(solver), fixed.l1.tolist(), fixed.l2.tolist(), named))

    step, more = None, ()

    def take(rows: Stream) -> int:
        nonlocal step, more
        if state.lazy is None or (state.lazy["pass"], state.lazy["key"]) != (name, key):
            state.rest()
            state.apply_pending()
            begun = {"pass": name, "key": key, "layout": LAYOUT, "settled": state.t}
            state.lazy, step = begun | begin(solver, state, system), None
        if step is None:
            step, more = step_of(solver, state, system)
        taken = 0
        while True:
            s = kind(*state.lazy["lines"])
            s.counter[law.SEEN] = state.count
            taken = int(step(rule, rows, taken, s, *more))
            if not s.counter[law.FULL]:
                return taken
            most = sum(int(np.diff(part.indptr).max(initial=0)) for part in rows[:2])
            state.lazy["lines"] = tuple(_widened(s, most))

    return take


def columns(state: Any, at: slice) -> Any:
    """The state of some features in plain arrays."""
    lazy, record, found, block = state.lazy, state.record, state.columns(at), np.empty((16, at.stop - at.start))
    where = at.start, (2 - len(state.x), 2 if state.y is None else 4), block
    if lazy["pass"] == "entries":
        entries.materialise(Lines(*lazy["lines"]), lazy["past"], lazy["how"], *where)
    else:
        scalars = float(np.sqrt(record[GX])), float(record[MASS]), lazy["special"]
        awake.materialise(Hot(*lazy["lines"]), *scalars, *where)
        (sum_x, sum_y), (share, _) = _blocks(state, block[8:12]), _blocks(state, block[12:])
        found.more |= {"sum_x": -sum_x, "sum_y": sum_y} | ({"share": share} if lazy["summed"] else {})
    found.x, found.y = _blocks(state, block[:4])
    if lazy["summed"]:
        found.totals.x, found.totals.y = _blocks(state, block[4:8])
    return found


def trace(state: Any) -> Array:
    """Return the trace as a dense array in the order of the places."""
    out, s = np.zeros(state.x.shape[1]), _PASSES[state.lazy["pass"]][0](*state.lazy["lines"])
    n = s.counter[TRACED]  # HOT, the number of hot coordinates, is the same entry
    out[s.names[:n]] = s.faded[:n] if isinstance(s, Lines) else s.hot[:n, TRACE]
    return out


def take_sums(state: Any) -> None:
    """Move the weighted sums (and shares) from the lines to the dense arrays, and begin new ones."""
    if state.lazy["pass"] == "awake":
        state.settle()
        return awake.flush(Hot(*state.lazy["lines"]), float(state.record[MASS]), True)
    s, totals = Lines(*state.lazy["lines"]), state.totals
    entries.flush(s, state.lazy["past"], _origin(state, s), state.lazy["how"], four_of(totals.x, totals.y))


def _lanes(state: Any, x: Array, y: Array | None) -> dict[int, Array]:
    """Return the vectors of a state by their lanes (w, θ, y1, y2), for the features that have a place."""
    found = {2 - len(x) + b: v[: state.count] for b, v in enumerate(x)}
    return found if y is None else found | {4 - len(y) + b: v[: state.count] for b, v in enumerate(y)}


def _fill(line: Array, place: int, vectors: dict[int, Array]) -> None:
    """Write vectors into the first lines; lane b goes to number `place` + b of a line."""
    for b, values in vectors.items():
        line[: len(values), place + b] = values


def _blocks(state: Any, lanes: Array) -> tuple[Array, Array | None]:
    """Split the numbers of all lanes into the blocks of x and of y, as the dense arrays hold them."""
    k, kind = len(state.x), state.x.dtype
    x, y = lanes[2 - k : 2].astype(kind, copy=False), lanes[4 - k : 4]
    return x, None if state.y is None else y.astype(kind, copy=False)


def _special(state: Any, system: Any) -> tuple[Array, Array]:
    """Return the places of the features with a penalty factor other than 1, and these factors."""
    factor = np.zeros(0) if system.factor is None else system.factor
    features = np.flatnonzero(factor != 1.0)
    return state.places.find(features), factor[features]


def _widened(s: Any, more: int) -> Any:
    """Make room for `more` coordinates in the trace (or in the hot ones and the queue), and double what there is."""
    names = ("names", "faded") if isinstance(s, Lines) else ("names", "hot", "keys", "owners")
    old = {name: getattr(s, name) for name in names}
    wider = {name: np.append(v, np.zeros((len(v) + 2 * more, *v.shape[1:]), v.dtype), 0) for name, v in old.items()}
    return s._replace(**wider)


# --- entries --------------------------------------------------------------------------------------------------------


def _constant(solver: Any) -> float:
    """Return the step if it is set by hand and constant, otherwise 0."""
    return 0.0 if solver.step_size is None or callable(solver.step_size) else float(solver.step_size)


def _is_sized(solver: Any, system: Any) -> bool:
    """Whether a step without thresholds needs norms."""
    bounded = np.isfinite(min(system.fixed.radius, system.fixed.ball))
    return not is_bent(solver, system) and bool(solver.measures or bounded)


def _begin_entries(solver: Any, state: Any, system: Any) -> dict[str, Any]:
    """Make lines from the values of the dense state; a feature with its own penalty factor has it in its line."""
    special, factors = _special(state, system)
    vectors, totals = _lanes(state, state.x, state.y), _lanes(state, state.totals.x, state.totals.y)
    d, summed, bent, constant = state.x.shape[1], solver.average != "none", is_bent(solver, system), _constant(solver)
    # Only hand-set steps of w and θ often run without an average, so only they get a line without sums.
    thin = not (summed or bent or _is_sized(solver, system))
    shape = WIDE if solver.saddle else THIN if thin else NARROW
    marks = law.MARKS[shape]
    searched = bent and summed and constant == 0.0 and bool(system.fixed.l1.any())
    every = min(horizon(d), 1 << (20 if searched else 22)) if bent else horizon(d)
    line, scalar, chain = aligned_zeros(d, marks.width), np.zeros((7, 4)), np.zeros((2 * GENERATIONS, 4))
    scalar[F] = chain[0] = chain[2 * law.FIRST] = 1.0
    if bent:
        line[special, marks.front] = factors - 1.0
    lane = _constants_of_lanes(system, bent, np.isin(np.arange(4), list(vectors)), summed, constant)
    trace, norms, counter = np.zeros(ROOM), np.zeros((3, 4)), np.zeros(6, dtype=np.int64)
    counter[law.GENERATION] = counter[law.OLDEST] = law.FIRST
    s = Lines(line, np.zeros(ROOM, np.int32), trace, scalar, chain, norms, lane, counter, SMALLEST[summed])
    if state.trace is not None:
        s = _begin_trace(s, marks.place, state.trace[0])
    history = aligned_zeros(every + 1 if searched else 1, 4)
    past = history, np.zeros(GUIDE, np.int64), np.zeros(512, np.int64), np.zeros(1, np.int64), np.zeros(1)
    how = shape, searched, bent and len(special) > 0
    if any(v.any() for v in (*vectors.values(), *totals.values())):  # otherwise a row writes the lines it touches
        _fill(line, V, vectors)
        _fill(line, R, {} if shape == THIN else totals)
        for b, start in _lanes(state, state.origin, None).items():
            norms[law.ORIGIN, b] = np.vdot(start.astype(np.float64), start)
        counter[law.SEEN] = state.count
        entries.flush(s, past, _origin(state, s), how, (trace[:0],) * 4)
    return {"lines": tuple(s), "past": past, "how": how, "every": every, "summed": shape != THIN}


def _constants_of_lanes(system: Any, bent: bool, held: Array, summed: bool, constant: float) -> Array:
    """The rows of `lane`, as `law` lists them."""
    rho, dual = system.fixed.l1, held & (np.arange(4) >= 2)
    thresholds, kept = rho > 0, held & summed
    per = np.divide(1.0, rho * constant, out=np.full(4, 1e150), where=rho * constant > 0)
    unit, half = np.where(thresholds, constant, 1.0) * kept, 0.5 * rho * constant**2 * kept
    free = dual if bent else held
    return np.array([rho, thresholds, kept, held, dual, free, per, unit, half], dtype=np.float64)


def _begin_trace(s: Lines, place: int, trace: Array) -> Lines:
    """Turn a dense trace into the list that the kernels keep."""
    names = np.flatnonzero(np.abs(trace) > TRACE_TOL)
    s = _widened(s, len(names))
    s.names[: len(names)], s.faded[: len(names)] = names, trace[names]
    s.line[names, place] = np.arange(1, len(names) + 1)
    s.counter[TRACED] = len(names)
    return s


def _origin(state: Any, s: Lines) -> Array:
    """Return x_0, or an array without rows if it is zero."""
    return np.asarray(state.origin, dtype=np.float64) if s.norms[law.ORIGIN].any() else np.zeros((0, 0))


def _entries_step(solver: Any, state: Any, system: Any) -> tuple[Any, tuple[Any, ...]]:
    """Return the kernel and its arguments after the rows and the lines."""
    lazy, fixed, s = state.lazy, system.fixed, Lines(*state.lazy["lines"])
    (shape, searched, own), bent, measured = lazy["how"], is_bent(solver, system), solver.measures
    sized, traced = _is_sized(solver, system), system.table.lam > 0
    kinds = Kinds(shape, traced, measured, sized, solver.extragradient, bent, searched, own)
    bound = np.where((solver.ball == BOX) & (s.lane[law.DUAL] > 0), 1.0, np.inf)[None]
    work = (*room_for_a_step(), bound, np.zeros(12))
    return entries.stepping(kinds), (lazy["past"], work, _origin(state, s), state.record, fixed, lazy["every"])


# --- awake ----------------------------------------------------------------------------------------------------------


def _begin_awake(solver: Any, state: Any, system: Any) -> dict[str, Any]:
    """Make lines from the sums of the dense state; a feature with its own penalty factor takes part in every row."""
    special, (l1, l2), mass = _special(state, system), (system.fixed.l1, system.fixed.l2), float(state.record[MASS])
    line, n_active = _lines_of_sums(state, l1, mass)
    lane = np.array([l1, l2, np.arange(4) < 2, l1 > 0, EARLY / np.where(l1 > 0, l1, 1.0)], dtype=np.float64)
    scale, active, number = np.zeros((2, 4)), np.zeros((4, 4)), np.zeros(2)
    room, counter, active[LEVEL] = 8 * ROOM + 2 * n_active, np.zeros(6, dtype=np.int64), l1 * mass
    hot, queue = np.zeros((ROOM, awake.HOT_WIDTH)), np.zeros(room)
    names, owners = np.zeros(ROOM, dtype=np.int64), np.zeros(room, dtype=np.int64)
    s = _heated(state, Hot(line, hot, names, scale, active, number, lane, queue, owners, counter), *special)
    counter[law.SEEN] = state.count
    if state.t > 0:
        awake.flush(s, mass, False)
    squares = max(float(state.record[GY]), float(number[awake.DUAL]))
    number[awake.FACTOR] = 1.0 / np.sqrt(squares) if state.record[GY] > 0 else 0.0
    return {"lines": tuple(s), "summed": solver.average != "none", "special": len(special[0])}


def _lines_of_sums(state: Any, l1: Array, mass: float) -> tuple[Array, int]:
    """Return the lines of the coordinates that have a place, and how many numbers in them are active."""
    line, shares = aligned_zeros(state.x.shape[1], awake.WIDTH), _lanes(state, state.more["share"], None)
    if state.t == 0:
        return line, 0
    sums = {b: -v if b < 2 else v for b, v in _lanes(state, state.more["sum_x"], state.more["sum_y"]).items()}
    active = {b: np.abs(sums[b]) > mass * l1[b] for b in shares}
    _fill(line, V, sums)
    _fill(line, R, _lanes(state, state.totals.x, state.totals.y))
    _fill(line, SHARE, {b: shares[b] - mass * on for b, on in active.items()})
    _fill(line, KEY, {b: on & (l1[b] > 0) for b, on in active.items()})
    return line, int(np.sum(list(active.values())))


def _heated(state: Any, s: Hot, special: Array, factors: Array) -> Hot:
    """Make the special coordinates hot, and after them those of the trace."""
    trace = np.zeros(state.count) if state.trace is None else state.trace[0, : state.count]
    names = np.concatenate([special, np.setdiff1d(np.flatnonzero(np.abs(trace) > TRACE_TOL), special)])
    n = len(names)
    s = _widened(s, n)
    hot = s.hot[:n]
    hot[:, V : V + 4], hot[:, TOTAL : TOTAL + 4] = s.line[names, V : V + 4], s.line[names, R : R + 4]
    hot[:, SHARES + 2 - len(state.x) : SHARES + 2] = state.more["share"][:, names].T
    hot[:, MULTIPLIER] = np.append(factors, np.ones(n - len(factors)))
    hot[:, TRACE], s.names[:n], s.line[names, MARK] = trace[names], names, np.arange(1, n + 1)
    s.counter[HOT] = n
    return s


def _awake_step(_: Any, state: Any, system: Any) -> tuple[Any, tuple[Any, ...]]:
    """Return the kernel and its arguments after the rows and the lines."""
    lazy, traced = state.lazy, system.table.lam > 0 or None
    numbers = float(lazy["summed"]), lazy["special"], horizon(state.x.shape[1]), traced
    return awake.stream, (room_for_a_step(), np.zeros((3, 4)), state.record, system.fixed, *numbers)


_PASSES: dict[str, tuple[Any, ...]] = {
    "entries": (Lines, _begin_entries, _entries_step),
    "awake": (Hot, _begin_awake, _awake_step),
}
