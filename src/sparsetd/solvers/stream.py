"""The one driver of all streaming solvers: a rule (which step) times a pass (how the state moves).

    Streaming.update → `pass_for` names the pass → `take` → `compiled` or `plain`

On CSR rows the iterates live in `state.lazy`, a dict of plain values that a checkpoint can hold, and a step visits only
what its row touches; the dense arrays of the state are filled in when somebody reads them. Entering and leaving copy
them, so dense and sparse rows may alternate, and a change of penalty begins a new lazy state from the old values.
"""

from __future__ import annotations

import sys
from typing import Any, ClassVar, Literal, NamedTuple, Protocol

import numpy as np

from sparsetd._tools.moderate import all_moderate
from sparsetd.solvers import plain
from sparsetd.solvers.compiled import averaging, general
from sparsetd.solvers.compiled import dense as dense_pass
from sparsetd.solvers.compiled.balls import BOX, FREE, L1_BALL, L2_BALL
from sparsetd.solvers.compiled.points import Constants, Stream
from sparsetd.solvers.compiled.rules import GX, GY, MASS, RECORD, WEIGHT, Fixed, limit_of
from sparsetd.solvers.csr_rows import Rows, rows_of
from sparsetd.solvers.state import LAYOUT, StreamState, Totals, apart
from sparsetd.system import Array, Batch, Solution, Table, dense, trace_weights

Average = Literal["all", "suffix", "none"]
FitNorm = Literal[1, 2, "inf"]
FUSED = ("dense", "averaging")  # passes over dense rows that look for numbers that are not finite as well
LAZY = ("entries", "awake")  # passes over CSR rows, whose iterates live in `state.lazy`


class PenaltyLike(Protocol):
    """What a streaming solver asks of a penalty."""

    def prox(self, x: Array, step: float, factor: Array | None = None) -> Array: ...
    def shrinkage(self, n_blocks: int) -> tuple[Array, Array] | None: ...


class System(NamedTuple):
    """What a run holds fixed; that of the kernels is zero where there is no w or y."""

    fixed: Constants
    factor: Array | None
    table: Table
    penalty: PenaltyLike
    separable: bool  # whether the penalty separates into features; if not, only its prox is known

    @property
    def k(self) -> int:
        return self.table.n_blocks

    @property
    def traced(self) -> bool:
        return self.table.lam > 0

    @property
    def penalised(self) -> bool:
        return not self.separable or bool(self.fixed.l1.any() or self.fixed.l2.any())

    @property
    def plain(self) -> bool:
        """No penalty but a ridge that is the same for all features."""
        alike = self.factor is None or not self.fixed.l2.any() or bool(np.all(self.factor == 1.0))
        return alike and not self.fixed.l1.any()


class Streaming:
    """The common machinery; a solver is a choice of the class constants, of the rule and of the dual ball."""

    average: Average
    radius: float

    family: ClassVar[Literal["steps", "averaging", "coins"]] = "steps"
    stops_at_bad_rows: ClassVar[bool] = True  # dense rows that are not finite, as if the run had diverged
    saddle: ClassVar[bool] = False
    boxed: ClassVar[bool] = False
    extragradient: ClassVar[bool] = False
    dual_damping: ClassVar[float] = 0.0

    @property
    def ball(self) -> int:
        return FREE

    @property
    def exponent(self) -> float:
        """Exponent of the mirror map of x."""
        return 2.0

    def rule(self, size: int) -> Any:
        """The rule of a state with so many numbers in x."""
        raise NotImplementedError

    @property
    def dual_bound(self) -> float:
        """Radius of the l2 ball of y."""
        return 1.0 if self.ball == L2_BALL else np.inf

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
        return StreamState(x, dual, u, trace, origin, Totals(x_sum, sums[0]), Totals(x_old, sums[1]))

    def update(
        self, state: StreamState, batch: Batch, table: Table, penalty: PenaltyLike, factor: Array | None = None
    ) -> StreamState:
        """Take the rows of `batch` in order."""
        if len(state.record) != RECORD or (state.lazy is not None and state.lazy.get("layout") != LAYOUT):
            raise ValueError(  # compiled code does not check bounds
                "The state of this stream comes from another version, which kept other numbers: remove its checkpoint, "
                "and fit anew."
            )
        numbers = (batch.reward, batch.discount, *trace_weights(table, batch, state.carry))
        columns = tuple(np.require(c, np.float64, ["C", "W"]) for c in (*numbers, self._steps(state.t, len(batch))))
        system = self._system(table, penalty, factor, state.x.dtype)
        # A stream that began lazily stays so, however it is cut.
        name = pass_for(self, state, system, batch.is_sparse or state.lazy is not None)
        rows = (batch.phi, batch.phi_next)
        if name in LAZY:
            rows = (rows_of(batch.phi), rows_of(batch.phi_next))
        else:
            state.leave()
        laid_out = batch.is_sparse and name not in LAZY
        at_once, done = max(1, 2**22 // batch.n_features) if laid_out else len(batch), 0
        while done < len(batch) and not state.diverged:
            self._rotate(state)
            units = self._units(state, system, batch.is_sparse)
            pause = at_once if units is None else units.until_due(state.t)
            stop = min(len(batch), done + self._until_rotation(state.t), done + pause, done + at_once)
            phi = [_part(given, done, stop, state.x.dtype) for given in rows]
            if units is not None:
                units.observe(phi[0], state.t)
                with np.errstate(all="ignore"):  # the kernels stop at what is not finite
                    phi = [units.rows_in(part) for part in phi]
            taken = self._taken(name, state, Stream(*phi, *(column[done:stop] for column in columns)), system)
            state.t += taken
            state.totals.weight = float(state.record[WEIGHT])
            state.diverged = taken < stop - done
            done = stop
        return state

    def _units(self, state: StreamState, system: System, sparse: bool) -> Any:
        """The units in use, after a look for better ones where it is due; None where sizes are left as they are."""
        if state.units is None or system.penalised:
            return None
        if state.units.is_due(state.t):
            new = state.units.found(sparse, bool(system.fixed.damping.any()))
            if new is not None:
                state.change_units(new)
        return state.units

    def _taken(self, name: str, state: StreamState, rows: Stream, system: System) -> int:
        """Take rows by a pass; returns how many before the run diverged, or came to a bad row."""
        looks = name in FUSED or name in LAZY
        if not (looks or (all_moderate(rows.phi) and all_moderate(rows.phi_next))):
            return 0
        return take(name, self, state, rows, system)

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

        It is put together some features at a time. `brief` leaves out w and y, which nobody may ever read: they are as
        long as θ each, and memory that is never written costs nothing.
        """
        del table, penalty, factor
        coef, last = np.empty((2, state.x.shape[1]), state.x.dtype)
        aux = None if brief or len(state.x) == 1 else np.empty_like(coef)
        y = None if brief or state.y is None else np.empty_like(state.y)
        for at, part in state.parts():
            point, dual = part.primal, part.dual
            x, mean_y = self._averaged(part, point, dual)
            coef[at], last[at] = x[-1], point[-1]
            if aux is not None:
                aux[at] = x[0]
            if y is not None:
                y[:, at] = mean_y
        return Solution(coef, last, state.t, "diverged" if state.diverged else "finished", aux=aux, dual=y)

    def _system(self, table: Table, penalty: PenaltyLike, factor: Array | None, dtype: Any) -> System:
        """The constants of the kernels."""
        shrinkage, k = penalty.shrinkage(table.n_blocks), table.n_blocks
        dual = [self.dual_damping] * 2 if self.saddle else [0.0, 0.0]
        damping = np.concatenate([_padded([0.0] * k if self.saddle else table.damping), dual])
        l1, l2 = (np.append(_padded(part), [0.0, 0.0]) for part in shrinkage or np.zeros((2, k)))
        weights = None if factor is None else np.asarray(factor, dtype=dtype)
        norm, limit = float(np.linalg.norm(table.M)), limit_of(dtype)
        fixed = Constants(table.M, table.m, damping, l1, l2, norm, float(self.radius), self.dual_bound, limit)
        return System(fixed, weights, table, penalty, shrinkage is not None)

    # --- averages ---------------------------------------------------------------------------------------------------

    def _steps(self, first: int, count: int) -> Array:
        """The steps that were set by hand."""
        del first
        return np.full(count, np.nan)

    def _last_weight(self, state: StreamState) -> float:
        """Return what the last point counts beside the points that were averaged when a row was taken."""
        del state
        return 0.0

    def _averaged(self, state: StreamState, last: Array, dual: Array | None) -> tuple[Array, Array | None]:
        """(x̄, ȳ), or the last point while nothing has been averaged."""
        totals = {"all": [state.totals], "suffix": [state.totals, state.earlier], "none": []}[self.average]
        extra = self._last_weight(state) if totals else 0.0
        weight = extra + sum(s.weight for s in totals)
        if not weight > 0:
            return last, dual

        def mean(sums: list[Any], point: Array) -> Array:
            total, out = sums[0] if len(sums) == 1 else sums[0] + sums[1], extra * point
            out += total if state.units is None else state.units.coefficients(total)
            out /= weight
            return out

        return mean([s.x for s in totals], last), None if dual is None else mean([s.y for s in totals], dual)

    def _until_rotation(self, t: int) -> int:
        """Rows until the next power of two, where a suffix average forgets its older half."""
        return (1 << t.bit_length()) - t if self.average == "suffix" else sys.maxsize

    def _rotate(self, state: StreamState) -> None:
        if self.average == "suffix" and state.t >= 2 and state.t & (state.t - 1) == 0:
            state.take_sums()
            state.earlier, state.totals = state.totals, state.earlier
            state.totals.clear()
            state.record[WEIGHT] = 0.0


def _padded(values: Any) -> Array:
    """The numbers of (w, θ), with 0 for w in a system of θ alone."""
    return np.append(np.zeros(2 - len(values)), np.asarray(values, dtype=np.float64))


def _part(rows: Any, first: int, stop: int, dtype: Any) -> Any:
    """Rows as the kernels want them: contiguous, and writable, since a read-only array is another type to them."""
    if isinstance(rows, Rows):
        return rows.between(first, stop)
    array = dense(rows[first:stop], dtype)
    return array if array.flags.writeable else array.copy()


# --- the passes -----------------------------------------------------------------------------------------------------


def pass_for(solver: Any, state: Any, system: Any, sparse: bool) -> str:
    """The name of the pass that takes these rows: one answer for a method and its rows.

    method                                                   dense rows    CSR rows
    -------------------------------------------------------  ------------  -----------------------------
    penalty that only its prox knows (groups, own ones)      numpy         numpy, laid out densely
    coin betting                                             numpy         numpy, laid out densely
    dual averaging, l2 ball of y, no radius, from x_0 = 0    averaging     awake
    the same from another x_0                                averaging     averaging, laid out densely
    dual averaging with another ball, or with a radius       numpy         numpy, laid out densely
    p-norm maps, l1 ball of y, the box form of the l1 norm   general       general, laid out densely
    trial points bent by a threshold or a box                general       general, laid out densely
    no l1 penalty (nor box, nor ridges that differ)          dense         entries
    l1 or box, step by hand, no ridge, damping or radius     dense         entries
    l1 or box with any of these, or by an automatic step     dense         dense, laid out densely
    """
    if solver.family == "coins" or not system.separable:
        return "numpy"
    if solver.family == "averaging":
        if solver.ball != L2_BALL or np.isfinite(solver.radius):
            return "numpy"
        return "awake" if sparse and not state.origin.any() else "averaging"
    plain_steps = system.plain and solver.ball != BOX
    if solver.exponent != 2 or solver.boxed or solver.ball == L1_BALL or (solver.extragradient and not plain_steps):
        return "general"
    return "entries" if sparse and (plain_steps or is_simple(solver, system)) else "dense"


def is_simple(solver: Any, system: Any) -> bool:
    """Return whether a step is set by hand and nothing but thresholds and balls follows it."""
    fixed, by_hand = system.fixed, not solver.measures
    return by_hand and not (fixed.l2.any() or fixed.damping.any() or np.isfinite(solver.radius))


def is_bent(solver: Any, system: Any) -> bool:
    """Whether `entries` writes thresholds, which serves four vectors without a penalty as well: it measures ‖y‖ on its
    way, for which the linear way needs φᵀφ'."""
    four = solver.saddle and system.k == 2
    return is_simple(solver, system) and (four or solver.ball == BOX or not system.plain)


def take(name: str, solver: Any, state: Any, rows: Stream, system: Any) -> int:
    """Take rows by a pass; returns how many before the run diverged, or came to a bad row."""
    if name in LAZY:
        from sparsetd.solvers import lazy

        lazy.enter(solver, state, system, name)
        return int(lazy.advance(solver, state, rows, system))
    return int(
        {"dense": _dense, "averaging": _averaging, "general": _general, "numpy": _numpy}[name](
            solver, state, rows, system
        )
    )


def _numpy(solver: Any, state: Any, rows: Stream, system: Any) -> int:
    state.apply_pending()
    return plain.take(solver, state, rows, system)


def _dense(solver: Any, state: Any, rows: Stream, system: Any) -> int:
    """One pass over a dense state per row."""
    rule, fixed, measured = solver.rule(state.x.size), system.fixed, solver.measures or None
    origin = places(state.origin, None) if measured and state.origin.any() else None
    across = bool(fixed.M[1].any() or fixed.M[:, 1].any() or fixed.m[1]) or None
    sized = measured or np.isfinite(solver.radius) or None
    clip = state.x.dtype.type(1.0) if solver.ball == BOX else None
    averages = None if solver.average == "none" else places(state.totals.x, state.totals.y)
    kinds = (system.k == 2 or None, solver.saddle or None, across, measured, sized, solver.extragradient or None, clip)
    work = (np.zeros((6, 7)), np.zeros((6, 12)), np.zeros(6), state.pending)
    vectors, more = places(state.x, state.y), (state.trace, origin, state.record, work)
    return int(dense_pass.stream(rule, rows, vectors, averages, *more, fixed, system.factor, *kinds))


def _averaging(solver: Any, state: Any, rows: Stream, system: Any) -> int:
    """Dual averaging on a dense state; x and y are functions of the sums that it moves."""
    more, rule, record, totals = state.more, solver.rule(state.x.size), state.record, None
    origin = places(state.origin, None) if state.origin.any() else None
    if solver.average != "none":
        totals = (*places(state.totals.x, state.totals.y), *places(more["share"], None)[:2])
    kinds = (origin, state.trace, system.factor, system.k == 2 or None)
    work = (np.zeros((6, 7)), np.zeros((6, 12)), np.zeros(6), np.zeros(12))
    sums = places(more["sum_x"], more["sum_y"])
    taken = averaging.stream(rule, rows, sums, totals, *kinds, record, work, system.fixed)
    state.x[:] = solver.primal_of(state, more["sum_x"], record[GX], record[MASS], system)
    y = more["sum_y"].astype(np.float64)
    y *= solver.dual_radius(state.x.size) / np.sqrt(record[GY]) if record[GY] > 0 else 0.0
    state.y[:] = y / max(1.0, float(np.linalg.norm(y)))
    return int(taken)


def _general(solver: Any, state: Any, rows: Stream, system: Any) -> int:
    """Return what needs all coordinates at once, loop by loop."""
    state.apply_pending()
    x, y, u, origin = (_blocks(v) for v in (state.x, state.y, state.u, state.origin))
    averages = None if solver.average == "none" else (_blocks(state.totals.x), _blocks(state.totals.y))
    mid = tuple(_blocks(None if v is None else np.empty_like(v)) for v in (state.x, state.y))
    kinds = (solver.measures or None, solver.extragradient or None, solver.ball, float(solver.exponent))
    more = (mid, state.trace, origin, state.record, system.fixed, system.factor)
    return int(general.stream(solver.rule(state.x.size), rows, x, y, averages, u, *more, *kinds))


def places(x: Array, y: Array | None) -> tuple[Array, Array, Array, Array]:
    """(w, θ, y1, y2); where there is no such vector another one stands in its place."""
    y = x if y is None else y
    return x[0], x[-1], y[0], y[-1]


def _blocks(v: Array | None) -> tuple[Array, ...] | None:
    return None if v is None else tuple(v)
