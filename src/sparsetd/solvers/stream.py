"""The one driver of all streaming solvers: a rule (which step) times a pass (how the state moves).

    Streaming.through → `pass_for` names the pass → `lazy`, `compiled.dense` or `plain` takes the rows

On CSR rows the iterates live in `state.lazy`, a dict of plain values that a checkpoint can hold, and a step visits only
what its row touches; the dense arrays of the state are filled in when somebody reads them. Entering and leaving copy
them, so dense and sparse rows may alternate, and a change of penalty begins a new lazy state from the old values.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, ClassVar, Literal, NamedTuple, Protocol

import numpy as np

from sparsetd.solvers import plain
from sparsetd.solvers.compiled import dense as dense_pass
from sparsetd.solvers.compiled.points import Constants, Stream
from sparsetd.solvers.compiled.rules import RECORD, WEIGHT, Fixed
from sparsetd.solvers.found_units import FoundUnits
from sparsetd.solvers.state import LAYOUT, StreamState, Totals, apart, lazily, room_for_a_step, write
from sparsetd.system import Array, Batch, Solution, Table, dense, trace_weights

Schedule = Callable[[Array], Array]
Average = Literal["all", "suffix", "none"]
FitNorm = Literal[1, 2, "inf"]
LAZY = ("entries", "awake")  # passes over CSR rows, whose iterates live in `state.lazy`
# The balls that bound y. The dual ball of a fit in ‖·‖_m is that of the conjugate norm.
FREE, L1_BALL, L2_BALL, BOX = range(4)
DUAL_BALL = {None: FREE, 1: BOX, 2: L2_BALL, "inf": L1_BALL}
LIMIT = {np.dtype(np.float64): 1e100, np.dtype(np.float32): 1e30}  # a larger product means that the run has diverged


class PenaltyLike(Protocol):
    """The methods that a streaming solver needs of a penalty."""

    def prox(self, x: Array, step: float, factor: Array | None = None) -> Array: ...
    def shrinkage(self, n_blocks: int) -> tuple[Array, Array] | None: ...


class System(NamedTuple):
    """The constants of a run; those of the kernels are zero if there is no w or y."""

    fixed: Constants
    factor: Array | None
    table: Table
    penalty: PenaltyLike
    separable: bool  # whether the penalty separates into features; if not, only its prox is known

    @property
    def penalised(self) -> bool:
        return not self.separable or bool(self.fixed.l1.any() or self.fixed.l2.any())

    @property
    def plain(self) -> bool:
        """Whether there is no penalty except a ridge that is the same for all features."""
        alike = self.factor is None or not self.fixed.l2.any() or bool(np.all(self.factor == 1.0))
        return alike and not self.fixed.l1.any()


class Streaming:
    """The common machinery; a solver is a choice of the class constants, of the rule and of the dual ball."""

    average: Average
    radius: float
    step_size: float | Schedule | None = None  # without one nobody sets the steps
    rescale: bool = False  # whether it finds units for its features
    extragradient: bool = False
    fit_norm: FitNorm | None = None  # without one no ball bounds y
    p: float = 2.0  # the exponent of the mirror map of x

    family: ClassVar[Literal["steps", "averaging", "coins"]] = "steps"
    takes_slices: ClassVar[bool] = True  # of rows, so that successors need not be copied
    stops_at_bad_rows: ClassVar[bool] = True  # dense rows that are not finite, as if the run had diverged
    saddle: ClassVar[bool] = False
    boxed: ClassVar[bool] = False
    dual_damping: ClassVar[float] = 0.0

    @property
    def ball(self) -> int:
        return DUAL_BALL[self.fit_norm]

    def rule(self, size: int) -> Any:
        """The rule of a state with `size` numbers in x."""
        raise NotImplementedError

    @property
    def measures(self) -> bool:
        """Whether a step asks for the norms of its gradients."""
        return self.extragradient or not isinstance(self.rule(1), Fixed)

    def init(
        self, table: Table, n_features: int, dtype: Any = np.float64, coef_init: Array | None = None
    ) -> StreamState:
        """The state before the first row: θ = `coef_init` (or 0), w = 0, y = 0."""
        if self.saddle and table.damping.any():
            raise ValueError(
                f"operator {table.name!r} damps w, which a saddle-point solver cannot carry; "
                "use 'tdc', 'gtd2', 'gq', 'htd' or 'td'"
            )
        k = table.n_blocks
        x, y, x_sum, y_sum, x_old, y_old = apart(6 * k, n_features, dtype).reshape(6, k, n_features)
        origin = np.zeros(x.shape, dtype)
        if coef_init is not None:
            x[-1] = origin[-1] = coef_init
        trace = np.zeros((2, n_features), dtype) if table.lam > 0 else None
        u = np.zeros_like(x) if self.boxed else None
        dual, sums = (y, (y_sum, y_old)) if self.saddle else (None, (None, None))
        state = StreamState(x, dual, u, trace, origin, Totals(x_sum, sums[0]), Totals(x_old, sums[1]))
        state.more = self.more(x)
        if self.rescale and self.family == "steps":
            state.units = FoundUnits(np.zeros((3, n_features), order="F"))  # the numbers of a column side by side
        return state

    def more(self, x: Array) -> dict[str, Array]:
        """The arrays that this solver alone keeps."""
        return {} if self.p == 2 else {"image": np.zeros_like(x)}

    def update(
        self, state: StreamState, batch: Batch, table: Table, penalty: PenaltyLike, factor: Array | None = None
    ) -> StreamState:
        """Take the rows of `batch` in order."""
        for _ in self.through(state, batch, table, penalty, factor, [len(batch)]):
            pass
        return state

    def through(
        self,
        state: StreamState,
        batch: Batch,
        table: Table,
        penalty: PenaltyLike,
        factor: Array | None,
        pauses: Sequence[int],
    ) -> Iterator[int]:
        """`update`, with a pause after so many rows each; the last pause comes after the last row.

        In a pause the caller may look at the state. The constants of the run are put together once.
        """
        older = state.lazy is not None and state.lazy.get("layout") != LAYOUT
        if older or len(state.record) != RECORD or "places" not in vars(state):
            raise ValueError(  # the kernels do not check bounds, so a wrong layout would crash the process
                "The state of this stream comes from another version, which kept other numbers: remove its checkpoint, "
                "and fit anew."
            )
        n, by_hand = len(batch), self.step_size
        alpha = np.full(n, np.nan) if by_hand is None else steps(by_hand, state.t, n)
        numbers = (batch.reward, batch.discount, *trace_weights(table, batch, state.carry))
        columns = tuple(np.require(c, np.float64, ["C", "W"]) for c in (*numbers, alpha))
        system = self._system(table, penalty, factor, state.x.dtype)
        # A stream that began lazily stays lazy: how it is cut must not change the bits of its result.
        name = pass_for(self, state, system, batch.is_sparse or state.lazy is not None)
        rows = (batch.phi, batch.phi_next)
        if name in LAZY:
            rows = tuple(map(lazily().rows_of, rows))
            state.enter()
        else:
            state.leave()
        take, at_once, done = taker(name, self, state, system), _at_once(batch, name in LAZY), 0
        for pause in pauses:
            while done < pause and not state.diverged:
                self._rotate(state)
                units = self._units(state, system, batch.is_sparse)
                due = at_once if units is None else units.until_due(state.t)
                stop = min(pause, done + self._until_rotation(state.t), done + due, done + at_once)
                phi = [_part(given, done, stop, state.x.dtype) for given in rows]
                if name in LAZY:
                    phi = list(lazily().placed(state.places, *phi))
                if units is not None:
                    units.observe(phi[0], state.t)
                    with np.errstate(all="ignore"):  # the kernels stop at what is not finite
                        phi = [units.rows_in(part) for part in phi]
                taken = take(Stream(*phi, *(column[done:stop] for column in columns)))
                state.t += taken
                state.totals.weight = float(state.record[WEIGHT])
                state.diverged = taken < stop - done
                done = stop
            yield done

    def _units(self, state: StreamState, system: System, sparse: bool) -> Any:
        """The units in use, after a look for better ones where it is due; None where sizes are left as they are."""
        if state.units is None or system.penalised:
            return None
        if state.units.is_due(state.t):
            new = state.units.found(sparse, bool(system.fixed.damping.any()))
            if new is not None:
                state.change_units(new)
        return state.units

    def result(
        self,
        state: StreamState,
        table: Table,
        penalty: PenaltyLike,
        factor: Array | None = None,
        *,
        brief: bool = False,
    ) -> Solution:
        """The averaged point (`eq:averaging`) or, with average='none', the last one.

        It is put together some features at a time. `brief` leaves out w and y, which nobody may ever read, and a last
        point of its own where it is the one reported: they are as long as θ each, and memory that is never written
        costs nothing.
        """
        del table, penalty, factor
        (k, d), kind, alike = state.x.shape, state.x.dtype, brief and self.average == "none"
        x = np.zeros((1 if brief else k, d), kind)
        last = x[-1] if alike else np.zeros(d, kind)
        y = None if brief or state.y is None else np.zeros(state.y.shape, kind)
        for at, part in state.parts(alone=brief):
            point, dual = part.primal, None if y is None else part.dual
            mean_x, mean_y = self._averaged(part, point, dual)
            write(x, at, mean_x)
            if not alike:
                write(last, at, point[-1])
            if y is not None:
                write(y, at, mean_y)
        status, aux = "diverged" if state.diverged else "finished", x[0] if len(x) > 1 else None
        return Solution(x[-1], last, state.t, status, aux=aux, dual=y)

    def _system(self, table: Table, penalty: PenaltyLike, factor: Array | None, dtype: Any) -> System:
        """The constants of the kernels."""
        shrinkage, k = penalty.shrinkage(table.n_blocks), table.n_blocks
        l1, l2 = (_of_vectors(part) for part in shrinkage or ([0.0] * k, [0.0] * k))
        damping = _of_vectors([0.0] * k, self.dual_damping) if self.saddle else _of_vectors(table.damping)
        weights = None if factor is None else np.asarray(factor, dtype=dtype)
        norm, limit = math.sqrt(np.vdot(table.M, table.M)), LIMIT[np.dtype(dtype)]
        dual_bound = 1.0 if self.ball == L2_BALL else np.inf
        fixed = Constants(table.M, table.m, damping, l1, l2, norm, float(self.radius), dual_bound, limit)
        return System(fixed, weights, table, penalty, shrinkage is not None)

    # --- averages ---------------------------------------------------------------------------------------------------

    def _averaged(self, state: StreamState, last: Array, dual: Array | None) -> tuple[Array, Array | None]:
        """(x̄, ȳ), or the last point while nothing has been averaged."""
        totals, earlier, extra = state.totals, state.earlier, 0.0
        # It counts both ends (`eq:averaging`), but a trial point beyond the last row does not exist.
        if self.step_size is not None and not (self.extragradient or state.diverged):
            extra = float(steps(self.step_size, state.t, 1)[0])
        weight = extra + totals.weight + earlier.weight
        if self.average == "none" or not weight > 0:
            return last, dual

        def mean(sums: Any, before: Any, point: Array) -> Array:
            out = extra * point
            out += state.in_units(sums + before)
            out /= weight
            return out

        x = mean(totals.x, earlier.x, last)
        return x, None if dual is None else mean(totals.y, earlier.y, dual)

    def _until_rotation(self, t: int) -> int:
        """Rows until the next power of two, where a suffix average forgets its older half."""
        return (1 << t.bit_length()) - t if self.average == "suffix" else sys.maxsize

    def _rotate(self, state: StreamState) -> None:
        if self.average == "suffix" and state.t >= 2 and state.t & (state.t - 1) == 0:
            state.rotate_sums()
            state.record[WEIGHT] = 0.0


def steps(step_size: float | Schedule, first: int, count: int) -> Array:
    """α_t for t = first, …, first + count − 1, as float64."""
    if not callable(step_size):
        return np.full(count, float(step_size))
    alpha = np.asarray(step_size(np.arange(first, first + count)), dtype=np.float64)
    if alpha.shape != (count,):
        raise ValueError(
            f"step_size returned shape {alpha.shape} for {count} step indices; a schedule maps an array of indices "
            "to an array of the same length"
        )
    bad = ~(np.isfinite(alpha) & (alpha > 0))
    if bad.any():
        i = int(np.argmax(bad))
        raise ValueError(f"step_size gave {alpha[i]} at step {first + i}; steps must be positive and finite")
    return alpha


def _of_vectors(values: Any, dual: float = 0.0) -> Array:
    """The numbers of (w, θ), with 0 for w in a system of θ alone, and those of y1 and y2."""
    return np.array([*([0.0] * (2 - len(values))), *values, dual, dual], dtype=np.float64)


def _at_once(batch: Batch, lazy: bool) -> int:
    """Rows in a block: those laid out densely take 32 MB, and the places of lazy ones 4 MB, which stay in the cache."""
    if not (batch.is_sparse or lazy):
        return len(batch)
    return max(1, 2**20 * len(batch) // max(batch.n_entries, 1) if lazy else 2**22 // batch.n_features)


def _part(rows: Any, first: int, stop: int, dtype: Any) -> Any:
    """Rows as the kernels want them: contiguous, and writable, since a read-only array is another type to them."""
    if isinstance(rows, tuple):
        return rows.between(first, stop)  # type: ignore[attr-defined]
    array = rows[first:stop]
    if type(array) is not np.ndarray or array.dtype != dtype or not array.flags.carray:
        array = dense(array, dtype)
    return array if array.flags.writeable else array.copy()


# --- the passes -----------------------------------------------------------------------------------------------------


def pass_for(solver: Any, state: Any, system: Any, sparse: bool) -> str:
    """The name of the pass that takes these rows: one answer for a method and its rows, in the first line that fits.

    method                                                   dense rows    CSR rows
    -------------------------------------------------------  ------------  -----------------------------
    penalty that only its prox knows (groups, own ones)      numpy         numpy, laid out densely
    coin betting                                             numpy         numpy, laid out densely
    dual averaging with a radius, or not with the l2 ball    numpy         numpy, laid out densely
    dual averaging, l2 ball of y, from x_0 = 0               dense         awake
    the same from another x_0                                dense         dense, laid out densely
    p-norm maps, l1 ball of y, the box form of the l1 norm   dense         dense, laid out densely
    trial points bent by a threshold or a box                dense         dense, laid out densely
    no l1 penalty (nor box, nor ridges that differ)          dense         entries
    l1 or box, step by hand, no ridge, damping or radius     dense         entries
    l1, box or ridges that differ, and anything else         dense         dense, laid out densely
    """
    if solver.family == "coins" or not system.separable:
        return "numpy"
    if solver.family == "averaging":
        if solver.ball != L2_BALL or np.isfinite(solver.radius):
            return "numpy"
        return "awake" if sparse and not state.origin.any() else "dense"
    if not sparse or solver.p != 2 or solver.boxed or solver.ball == L1_BALL:
        return "dense"
    straight = system.plain and solver.ball != BOX
    return "entries" if straight or (is_simple(solver, system) and not solver.extragradient) else "dense"


def is_simple(solver: Any, system: Any) -> bool:
    """Return whether a step is set by hand and only thresholds and balls follow it."""
    fixed, by_hand = system.fixed, not solver.measures
    return by_hand and not (fixed.l2.any() or fixed.damping.any() or np.isfinite(solver.radius))


def is_bent(solver: Any, system: Any) -> bool:
    """Whether `entries` takes the way with thresholds.

    That way also serves four vectors without a penalty: it measures ‖y‖ as it goes, and the linear way needs φᵀφ'.
    """
    four = solver.saddle and system.table.n_blocks == 2
    return is_simple(solver, system) and (four or solver.ball == BOX or not system.plain)


def taker(name: str, solver: Any, state: Any, system: Any) -> Callable[[Stream], int]:
    """The function of a pass that takes rows; it returns how many before the run diverged, or came to a bad row."""
    if name in LAZY:
        return lazily().taker(name, solver, state, system)
    return _dense(solver, state, system) if name == "dense" else partial(plain.take, solver, state, system)


def _dense(solver: Any, state: Any, system: Any) -> Callable[[Stream], int]:
    """The pass over dense rows.

    It moves the sums of dual averaging, or the mirror image of a p-norm, and x and y are formed from these at the end.
    """
    more, kinds, p = state.more, _dense_kinds(solver, state, system), float(solver.p)
    kernel, rule = dense_pass.stepping(kinds), solver.rule(state.x.size)
    x = more["sum_x"] if kinds.summed else more["image"] if kinds.mirrored else state.x
    if kinds.mirrored and not np.array_equal(linked(x, p), state.x):  # x was set from outside
        x[:] = linked(state.x, p / (p - 1.0))
    y, room, averaged = more["sum_y"] if kinds.summed else state.y, room_for_a_step(), solver.average != "none"
    unread = x if averaged else np.zeros_like(x)  # sums that a kernel keeps although nobody asked for them
    start, outer = four_of(state.origin), four_of(x if state.u is None else state.u)
    trace = x[-1:] if state.trace is None else state.trace
    factor = x[-1] if system.factor is None else system.factor

    def take(rows: Stream) -> int:
        totals = four_of(state.totals.x, state.totals.y) if averaged else four_of(unread)  # a rotation exchanges them
        shares = four_of(more["share"] if averaged and kinds.summed else unread)
        vectors = tuple(zip(four_of(x, y), totals, shares, start, outer, strict=True))
        now = dense_pass.Dense(vectors, trace, factor, state.pending)
        taken = int(kernel(rule, rows, now, state.record, room, system.fixed, p))
        if kinds.summed:
            plain.form_point(solver, state, system)
        elif kinds.mirrored:
            state.x[:] = linked(x, p)
        return taken

    return take


def _dense_kinds(solver: Any, state: Any, system: Any) -> dense_pass.Kinds:
    """What the pass over dense rows is compiled for."""
    fixed, summed, mirrored = system.fixed, solver.family == "averaging", solver.p != 2
    straight = system.plain and solver.ball in (FREE, L2_BALL) and not (mirrored or summed)
    trial, by_hand = solver.extragradient or summed, isinstance(solver.rule(1), Fixed)
    measured = not by_hand or (trial and straight)  # a trial point that is a combination of v and D needs Γ
    return dense_pass.Kinds(
        two=system.table.n_blocks == 2,
        saddle=solver.saddle,
        traced=system.table.lam > 0,
        across=bool(fixed.M[1].any() or fixed.M[:, 1].any() or fixed.m[1]),
        measured=measured,
        sized=bool(measured or mirrored or np.isfinite(solver.radius)),
        started=bool(measured and state.origin.any()),
        weighed=system.factor is not None,
        # Only steps by hand in x alone often go without an average: a kernel of its own is worth it there.
        averaged=solver.average != "none" or measured or trial or mirrored or solver.saddle,
        trial=trial,
        swept=trial and not straight,
        summed=summed,
        clipped=solver.ball == BOX,
        cornered=solver.ball == L1_BALL,
        outer=solver.boxed,
        mirrored=mirrored,
    )


def linked(x: Array, p: float) -> Array:
    """∇½‖x‖_p² of every block: sgn(x_j)|x_j|^{p − 1}/‖x‖_p^{p − 2}. The conjugate exponent inverts it."""
    norm = np.linalg.norm(x, p, axis=1, keepdims=True)
    share = np.divide(np.abs(x), norm, out=np.zeros_like(x), where=norm > 0)
    return np.asarray(np.copysign(norm * share ** (p - 1.0), x), dtype=x.dtype)


def four_of(x: Array, y: Array | None = None) -> tuple[Array, Array, Array, Array]:
    """(w, θ, y1, y2). The kernels want four arrays, so another vector stands in for one that does not exist."""
    y = x if y is None else y
    return x[0], x[-1], y[0], y[-1]
