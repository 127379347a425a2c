"""The base of every estimator: rows in, a fitted linear value function out."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import cache
from itertools import chain
from typing import Any, ClassVar, Literal, Self, dataclass_transform

import numpy as np
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning, UndefinedMetricWarning
from sklearn.utils.validation import check_is_fitted, validate_data

from sparsetd import solvers
from sparsetd._tools.lazy_names import refuse_old_arguments
from sparsetd._tools.progress import track
from sparsetd._tools.typed_sklearn import BaseEstimator, RegressorMixin
from sparsetd.estimators import validation
from sparsetd.estimators.docstrings import with_inherited
from sparsetd.estimators.plausible import Watch
from sparsetd.estimators.validation import Following, check_parameters, following
from sparsetd.logs.checks import finite as check_finite
from sparsetd.logs.checks import flags
from sparsetd.metrics import mspbe
from sparsetd.penalties import Ridge
from sparsetd.system import COLUMNS, Array, Batch, Solution, Table

Triple = tuple[Table, Any, Any]  # operator, penalty, solver
Run = tuple[Table, Any, Any, Any]  # the triple, and the penalty's weight of each feature

# What rows may be for scikit-learn; whether they are finite is checked by us, who name the row.
ROWS: dict[str, Any] = {"accept_sparse": "csr", "dtype": (np.float64, np.float32), "ensure_all_finite": False}
# A fit is cut into so many chunks that its history has some points; chunking never changes the result.
HISTORY_POINTS = 12
HISTORY_ROWS = 500
MADE_WHEN_READ = ("coef_last_", "aux_", "dual_")  # few people read them, and for a stream each is as long as θ
LOST = ("diverged", "suspicious")  # what `status_` is where no number of the fit can be used
NOT_PASSED = (  # scikit-learn's searches pass columns on to `fit` alone, unless they are told otherwise
    "{0}.score did not get {1}, which fit had: it takes the next row as the successor, ratio 1 and the discount gamma. "
    "Pass the same columns. For a search call sklearn.set_config(enable_metadata_routing=True), request them with "
    "`set_fit_request` and take `scoring=TDScorer()`."
)
WORTH_A_COPY = 2**17  # with more numbers in dense rows, copying the state costs less than checking them beforehand


class DivergenceWarning(ConvergenceWarning):
    """The iterates grew beyond all bounds, and the fit stopped there; or it ended with values that cannot be right.

    Examples
    --------
    >>> import warnings
    >>> from sparsetd import TD
    >>> from sparsetd.estimators import DivergenceWarning
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter('ignore', DivergenceWarning)
    ...     model = TD(gamma=0.9, step_size=10.0, n_passes=500).fit([[1.0], [2.0]], [0.0, 1.0])
    >>> model.status_
    'diverged'
    """


@dataclass_transform(kw_only_default=True, eq_default=False)
@dataclass(kw_only=True, eq=False, repr=False)
class BaseTD(RegressorMixin, BaseEstimator):
    """The base of every estimator: rows of features, rewards and next features in, a linear value function out.

    V(s) ≈ θᵀφ(s) + intercept, from rows (φ, r, φ') of a stream of transitions.

    A named estimator is a triple: `triple` returns its operator's table, its penalty and its solver, and a subclass
    with that one method is a new estimator (docs/extending.md). Fitting is init → update → result of the solver;
    `partial_fit` is update → result.

    Parameters
    ----------
    gamma : float
        Discount factor γ, unless `discount` gives one per row.
    fit_intercept : bool
        Append a constant feature, which no penalty touches.
    unpenalized : sequence of int or str
        Columns (by number, or by name if X is a frame) that the penalty leaves alone.
    coef_init : array of shape (n_features,) or None
        θ before the first row, for the methods that have a start.
    support_tol : float
        A feature is in `support_` if |coef_| > support_tol · max|coef_|; at 0, if its coefficient is not exactly zero.

    Attributes
    ----------
    coef_ : array of shape (n_features,)
        θ as reported: the average where the solver averages.
    coef_last_ : array of shape (n_features,)
        θ of the last iterate.
    intercept_ : float
    aux_ : array of shape (n_features,) or None
        The auxiliary w.
    dual_ : array or None
        The dual y of a saddle-point solver, one row per block.
    support_ : array of bool of shape (n_features,)
    n_iter_ : int
        Rows taken, over all passes.
    status_ : str
        Why it stopped: "finished", "converged", "diverged", "singular" …; "suspicious" if it came to an end, but with
        values that rewards and discount cannot explain, or with weights that are not finite.
    history_ : dict of lists
        `n_iter`, `coef_norm` and `coef_change` between chunks, or what the solver recorded itself.

    Examples
    --------
    >>> from sparsetd import TDC, LSTD
    >>> from sparsetd.estimators import BaseTD
    >>> issubclass(TDC, BaseTD) and issubclass(LSTD, BaseTD)
    True
    """

    gamma: float = 0.99
    fit_intercept: bool = False
    unpenalized: Sequence[int | str] = ()
    coef_init: Any = None
    support_tol: float = 0.0

    # What the public laws may ask: whether −y gives −θ, and whether cy gives cθ where nothing is penalised.
    _odd: ClassVar[bool] = True
    _homogeneous: ClassVar[bool] = True

    def __init_subclass__(cls, **more: Any) -> None:
        """The annotated attributes of an estimator are its parameters, without a decorator, and `help` lists them."""
        super().__init_subclass__(**more)
        parent = next(base for base in cls.__mro__[1:] if issubclass(base, BaseTD))
        if cls.__doc__:  # if there is none, the dataclass makes one
            cls.__doc__ = with_inherited(cls.__doc__, parent.__doc__ or "")
        dataclass(kw_only=True, eq=False, repr=False)(cls)

    def __new__(cls, **parameters: Any) -> Self:
        refuse_old_arguments(cls.__name__, cls._get_param_names(), parameters)
        return super().__new__(cls)

    def set_params(self, **parameters: Any) -> Self:
        """Set parameters by name, as in scikit-learn."""
        refuse_old_arguments(type(self).__name__, self._get_param_names(), parameters)
        super().set_params(**parameters)
        return self

    @classmethod
    @cache
    def _get_param_names(cls) -> list[str]:
        """The names of the parameters: scikit-learn reads the signature whenever it is asked."""
        return super()._get_param_names()

    def triple(self) -> Triple:
        """The operator's table, the penalty and the solver: what a subclass must say, and all that it must say."""
        raise NotImplementedError(f"{type(self).__name__} needs a method `triple`: see docs/extending.md")

    @property
    def _passes(self) -> int:
        return int(getattr(self, "n_passes", 1))

    def fit(
        self,
        X: Any,
        y: Any,
        X_next: Any = None,
        *,
        ratio: Any = None,
        discount: Any = None,
        start: Any = None,
        interest: Any = None,
    ) -> Self:
        """Learn from the rows of a log, in time order.

        Parameters
        ----------
        X : array, CSR matrix or frame of shape (n, n_features)
            φ of each state (or state and action).
        y : array of shape (n,)
            The reward of each transition.
        X_next : same shape as X, or None
            φ' of each successor (φ̄ for action values). None: the next row is the successor, and the last row, like
            every row before a `start`, terminates.
        ratio : array of shape (n,) or None
            Importance ratio π(a|s)/μ(a|s) of the action taken; None is 1.
        discount : array of shape (n,) or None
            Discount of each transition in place of `gamma`; 0 where the episode terminated (not where it was cut
            short).
        start : array of bool of shape (n,) or None
            True in the first row of each episode.
        interest : array of shape (n,) or None
            Weight of each row's state; None is 1.
        """
        check_parameters(self.get_params(deep=False))
        with _restored_on_error(self):
            triple = self.triple()
            how = {"views": getattr(triple[2], "takes_slices", False), "ahead": _is_asked_first(triple)}
            columns = {"ratio": ratio, "discount": discount, "start": start, "interest": interest}
            batch = self._batch(X, y, X_next, **columns, reset=True, **how)
            run = self._begin(batch, triple)
            batch.start[:1] = True
            if self._streams:
                self._go_through(batch, run)
            else:
                for _ in range(self._passes):
                    self._take(batch, run)
            self._refuse_bad_rows(batch)
            given = {"X_next": X_next, "ratio": ratio, "discount": discount, "start": start}
            self._columns_of_fit = [name for name, values in given.items() if values is not None]
            return self._finish(run)

    def partial_fit(
        self,
        X: Any,
        y: Any,
        X_next: Any = None,
        *,
        ratio: Any = None,
        discount: Any = None,
        start: Any = None,
        interest: Any = None,
    ) -> Self:
        """Take more rows of the same stream: any split into calls gives bitwise the model of one call.

        The arguments are those of `fit`. Where a split may fall inside an episode, pass `X_next`: without it the last
        row of every call terminates.
        """
        check_parameters(self.get_params(deep=False))
        first, small, triple = not hasattr(self, "_state"), getattr(X, "size", 0) < WORTH_A_COPY, self.triple()
        with _restored_on_error(self, copied=not first and not small):
            ahead = small or _is_asked_first(triple)
            columns = {"ratio": ratio, "discount": discount, "start": start, "interest": interest}
            batch = self._batch(X, y, X_next, **columns, reset=first, ahead=ahead)
            run = self._begin(batch, triple) if first else self._run(batch.n_features, triple)
            self._take(batch, run, seen=False)
            self._refuse_bad_rows(batch)
            return self._finish(run)

    def predict(self, X: Any) -> Array:
        """V(s) = θᵀφ(s) + intercept for each row."""
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, **ROWS)
        check_finite("X", X)
        return np.asarray(X @ self.coef_ + self.intercept_)

    def score(
        self,
        X: Any,
        y: Any,
        X_next: Any = None,
        *,
        ratio: Any = None,
        discount: Any = None,
        start: Any = None,
        sample_weight: Any = None,
    ) -> float:
        """1 − MSPBE(θ)/MSPBE(0) on these rows: 1 is the fixed point, 0 no better than V = 0.

        The projected Bellman error needs no second sample of the successor, so unlike a squared Bellman residual it
        does not favour functions that hide the noise of the transitions. At γ = 0 it is the share explained of the
        rewards' projection. A fit that diverged, or whose values cannot be right, has the score −∞, with a warning, so
        that no search chooses it. Pass the columns that `fit` was given, for they are part of what is scored.
        """
        check_is_fitted(self)
        if is_lost(self):
            return -math.inf
        given = {"X_next": X_next, "ratio": ratio, "discount": discount, "start": X_next if start is None else start}
        if lacking := [name for name in getattr(self, "_columns_of_fit", ()) if given[name] is None]:
            warnings.warn(NOT_PASSED.format(type(self).__name__, ", ".join(lacking)), stacklevel=2)
        rows = self._batch(X, y, X_next, reset=False, ratio=ratio, discount=discount, start=start)
        batch = validation.weighted(rows, sample_weight)
        theta = np.append(self.coef_, self.intercept_) if self.fit_intercept else self.coef_
        return projected_share(batch, batch.phi @ theta, batch.phi_next @ theta)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.regressor_tags.poor_score = True  # it predicts values, not the rewards it is given as y
        return tags

    def _batch(
        self, X: Any, y: Any, X_next: Any, *, reset: bool, views: bool = False, ahead: bool = True, **columns: Any
    ) -> Batch:
        """Checked rows, with the constant feature if there is one. Nothing that came in is changed.

        With `views` the successors of dense rows are `Following` where none are given: only to be taken in slices. Not
        `ahead`, dense rows are left to a solver that stops at a bad one (`_refuse_bad_rows`).
        """
        ratio, discount, start, interest = (columns.pop(name, None) for name in COLUMNS)
        for unknown in columns:
            raise TypeError(validation.nearest("column", unknown, COLUMNS))
        validation.check_target(y)
        if y is not None and validation.is_plain(self, X, y, reset):
            phi, reward, self.n_features_in_ = X, y, X.shape[1]
        else:
            phi, reward = validate_data(self, X, y, reset=reset, y_numeric=True, **ROWS)
        ahead = ahead or sp.issparse(phi)
        if ahead:
            check_finite("X", phi)
        if not sp.issparse(phi):
            phi = np.ascontiguousarray(phi)  # frames arrive column by column; the order of sums must not depend on it
        n = len(reward)
        begins = flags("start", start, n)
        gammas = validation.column("discount", discount, n, default=self.gamma, high=1.0)
        phi = validation.with_constant(phi) if self.fit_intercept else phi
        if X_next is None:
            phi_next, gammas = following(phi, views), np.where(np.append(begins[1:], True), 0.0, gammas)
        else:
            plain = validation.is_plain(self, X_next)
            try:
                phi_next = X_next if plain else validate_data(self, X_next, reset=False, **ROWS)
            except ValueError as wrong:  # scikit-learn calls whatever it checks X
                raise ValueError(f"X_next does not fit X: {wrong}") from None
            if ahead:
                check_finite("X_next", phi_next)
            if phi_next.shape[0] != n:
                raise ValueError(f"X_next has {phi_next.shape[0]} rows but X has {n}; pass one successor per row")
            phi_next = validation.like(phi_next, phi)
            phi_next = validation.with_constant(phi_next) if self.fit_intercept else phi_next
        return Batch(
            phi,
            phi_next,
            np.asarray(reward, dtype=np.float64),
            gammas,
            validation.column("ratio", ratio, n),
            begins,
            validation.column("interest", interest, n),
        )

    def _run(self, n_features: int, triple: Triple | None = None) -> Run:
        """The triple and the penalty's factors, built once per call: begin → take … take → finish."""
        return *(triple or self.triple()), self._factor(n_features)

    def _begin(self, batch: Batch, triple: Triple | None = None) -> Run:
        run = table, _, solver, _ = self._run(batch.n_features, triple)
        init = None if self.coef_init is None else self._initial(batch.n_features)
        self._state = solver.init(table, batch.n_features, batch.phi.dtype, init)
        self.history_: dict[str, list[float]] = {"n_iter": [], "coef_norm": [], "coef_change": []}
        self._last, self._watch, self._collects_sparse = init, Watch(), batch.is_sparse
        return run

    @property
    def _streams(self) -> bool:
        """Whether the state is a point at any time, not only in the end."""
        return hasattr(type(self._state), "primal")

    def _go_through(self, batch: Batch, run: Run) -> None:
        """All passes over the rows of a stream, with points of the history in between."""
        table, penalty, solver, factor = run
        # Rows before each point of the history; a point costs O(d) and a call, which the rows in between outweigh.
        n, least = len(batch), 8 * batch.n_features if batch.is_sparse else 0
        size = max(HISTORY_ROWS, -(-n // HISTORY_POINTS), n * least // max(batch.n_entries, 1))
        stops, passes = [*range(size, n, size), n], range(self._passes)
        given = (self._state, batch, table, penalty, factor, stops)
        parts, total = chain.from_iterable(solver.through(*given) for _ in passes), len(stops) * len(passes)
        for number, _ in enumerate(track(parts, "parts of the log", total), start=1):
            if number < total:
                self._see(self._state.primal[-1])
        self._watch = self._watch.after(batch, stops)

    def _take(self, batch: Batch, run: Run, seen: bool = True) -> None:
        """Rows in order, and after them a point of the history if it shall be `seen`: O(d)."""
        table, penalty, solver, factor = run
        if not self._streams:  # rows that are kept must all be dense, or all be sparse
            batch = validation.in_container(batch, getattr(self, "_collects_sparse", batch.is_sparse))
        solver.update(self._state, batch, table, penalty, factor)
        self._watch = getattr(self, "_watch", Watch()).after(batch)
        if seen and self._streams:
            self._see(self._state.primal[-1])

    def _see(self, theta: Array) -> None:
        """Add a point to the history."""
        theta = theta.astype(np.float64, copy=False)
        change = theta if self._last is None else theta - self._last
        self.history_["n_iter"].append(self._state.t)
        self.history_["coef_norm"].append(math.sqrt(np.vdot(theta, theta)))
        self.history_["coef_change"].append(math.sqrt(np.vdot(change, change)))
        self._last = theta

    def _refuse_bad_rows(self, batch: Batch) -> None:
        """Say whether a dense stream diverged or met a row that is not finite: it stops alike at both."""
        if getattr(self._state, "diverged", False):
            check_finite("X", batch.phi)
            if not isinstance(batch.phi_next, Following):
                check_finite("X_next", batch.phi_next)

    def _finish(self, run: Run) -> Self:
        table, penalty, solver, factor = run
        for name in MADE_WHEN_READ:
            self.__dict__.pop(name, None)
        # w and y of a stream are made when they are first read (`__getattr__`).
        how = {"brief": True} if hasattr(solver, "stops_at_bad_rows") else {}
        solution: Solution = solver.result(self._state, table, penalty, factor, **how)
        if self._streams and self.history_["n_iter"][-1:] != [self._state.t]:
            self._see(solution.coef_last)
        d = self.n_features_in_
        self.coef_ = solution.coef[:d]
        self.intercept_ = float(solution.coef[d]) if self.fit_intercept else 0.0
        self.n_iter_, self.status_ = solution.n_iter, solution.status
        if not how:
            self._keep(solution)
        self.history_ = solution.history or self.history_
        for name, value in solution.extras.items():
            setattr(self, f"{name}_", value)
        bound = self.support_tol and self.support_tol * max(self.coef_.max(), -self.coef_.min())
        self.support_ = self.coef_ > bound  # without an array of |θ|, which may be long
        self.support_ |= self.coef_ < -bound
        complaint = ""
        if self.status_ in ("finished", "converged"):  # it came to its end, but can these values be right?
            init = None if self.coef_init is None else self._initial(len(solution.coef))
            complaint = self._watch.complaint(solution.coef, init)
        self._watch = self._watch.rested()
        self.status_ = "suspicious" if complaint else self.status_
        if message := complaint or self._advice(penalty):
            kind = DivergenceWarning if self.status_ in LOST else ConvergenceWarning
            warnings.warn(f"{type(self).__name__} {message}", kind, stacklevel=3)
        return self

    def _keep(self, solution: Solution) -> None:
        d = self.n_features_in_
        self.coef_last_ = solution.coef_last[:d]
        self.aux_ = None if solution.aux is None else solution.aux[:d]
        self.dual_ = solution.dual

    def __getattr__(self, name: str) -> Any:
        """Put the last θ, w and y of a stream together when they are read. Any other missing attribute is an error."""
        state: Any = self.__dict__.get("_state")
        if name not in MADE_WHEN_READ or not hasattr(type(state), "primal"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        table, penalty, solver, factor = self._run(state.x.shape[1])
        self._keep(solver.result(state, table, penalty, factor))
        return self.__dict__[name]

    def _advice(self, penalty: Any) -> str:
        """Advice after a fit that ended badly, as the end of a sentence about the method; or nothing."""
        if self.status_ == "diverged":
            others = [name for name in ("TDC", "GTD2", "ROTD", "SparseTD") if name != type(self).__name__]
            return (
                f"diverged after {self.n_iter_} rows and stopped there; try a smaller step_size, features of smaller "
                f"norm, or another method that converges off-policy ({', '.join(others)})"
            )
        if self.support_.any() or isinstance(penalty, Ridge) or not getattr(penalty, "rho_theta", 0.0) > 0:
            return ""
        if self._watch.low == self._watch.high == 0.0:
            return "set every coefficient to zero, because every reward is 0: check the column of rewards"
        return (
            f"set every coefficient to zero: rho_theta={penalty.rho_theta:g} is too strong for these rows; "
            "try a smaller one"
        )

    def _initial(self, n_features: int) -> Array:
        init = np.asarray(self.coef_init, dtype=np.float64)
        if init.shape != (self.n_features_in_,):
            wanted = f"X has {self.n_features_in_} features; pass one number per feature"
            raise ValueError(f"coef_init has shape {init.shape} but {wanted}")
        check_finite("coef_init", init)
        return np.append(init, np.zeros(n_features - len(init)))

    def _factor(self, n_features: int) -> Array | None:
        """Penalty weight of each feature, or None if all are alike."""
        if not self.fit_intercept and not len(self.unpenalized):
            return None
        factor, d, names = np.ones(n_features), self.n_features_in_, list(getattr(self, "feature_names_in_", ()))
        factor[d:] = 0.0  # of the constant
        for which in self.unpenalized:
            if isinstance(which, str) and which not in names:
                known = "use its number or one of X's column names"
                raise ValueError(f"unpenalized names {which!r}, which is not a column of X; {known}")
            number = names.index(which) if isinstance(which, str) else int(which)
            if not -d <= number < d:
                raise ValueError(f"unpenalized has {which} but X has {d} features; number them from 0")
            factor[number % d] = 0.0
        return factor


class StreamingTD(BaseTD):
    """An estimator that takes one step per row.

    Parameters
    ----------
    step_size : "auto", float or callable
        "auto" needs no number: the distance moved so far over the root of the summed squared gradients (the page on
        automatic steps says why and how well). Or α, or a schedule: a function from an array of step indices to an
        array of steps.
    n_passes : int
        How often `fit` goes through the rows.
    average : {"all", "suffix", "none"} or None
        What `coef_` is: the α-weighted average of all iterates, that of the last quarter to half of them, or the last
        one. None is "suffix" with automatic steps, "none" otherwise.
    radius : float
        x = [w; θ] is kept in the l2 ball of this radius (Assumption 3 of the paper); infinite by default.
    """

    step_size: Any = "auto"
    n_passes: int = 1
    average: Literal["all", "suffix", "none"] | None = None
    radius: float = float("inf")

    @property
    def _automatic(self) -> bool:
        return isinstance(self.step_size, str)

    @property
    def _streaming(self) -> dict[str, Any]:
        if self._automatic:
            return {"average": self.average or "suffix", "radius": self.radius, "rescale": not np.isfinite(self.radius)}
        return {"step_size": self.step_size, "average": self.average or "none", "radius": self.radius}

    @property
    def _stochastic(self) -> Any:
        """The solver of x ← x − α(A_t x − b_t)."""
        return (solvers.DistanceOverGradients if self._automatic else solvers.Stochastic)(**self._streaming)

    def _mirror_prox(self, p: float) -> Any:
        """The solver of the same system by extragradient steps."""
        if not self._automatic:
            return solvers.MirrorProx(**self._streaming, p=p)
        if p != 2.0:
            raise ValueError(f"p={p!r} needs a number as step_size: automatic steps are Euclidean (p = 2)")
        return solvers.DistanceOverGradients(**self._streaming, extragradient=True)


def is_lost(model: Any) -> bool:
    """Whether a fit is no candidate in a search: it diverged, or its values cannot be right. A warning says so."""
    status = getattr(model, "status_", "")
    if status not in LOST:
        return False
    told = f"{type(model).__name__} ended as {status!r}: its score is -inf, so that a search does not choose it"
    warnings.warn(told, DivergenceWarning, stacklevel=3)
    return True


def projected_share(batch: Batch, value: Array, after: Array) -> float:
    """1 − MSPBE(V)/MSPBE(0) of a function given by its values: its TD errors stand for the rewards, and θ = 0."""
    delta, nothing = batch.reward + batch.discount * after - value, np.zeros(batch.n_features)
    return share_explained(mspbe(replace(batch, reward=delta), nothing), mspbe(batch, nothing))


def share_explained(error: float, nothing: float) -> float:
    """1 − error/nothing; where V = 0 has no error, 1 for a function that has none either and 0 for others."""
    if nothing > 0:
        return 1.0 - error / nothing
    if error > 0:
        _tell_of_no_reward()
    return float(error == 0.0)


@cache
def _tell_of_no_reward() -> None:
    """Warn, once in a process: a search scores many fits on such rows, and the first of its grid wins."""
    warnings.warn(
        "These rows have no reward, so V = 0 is exact and the score of every other function is 0: compare such fits by "
        "their error itself, with sparsetd.metrics.mspbe or value_error.",
        UndefinedMetricWarning,
        stacklevel=3,
    )


def _is_asked_first(triple: Triple) -> bool:
    """Return whether dense rows are looked at before they are taken: a stream stops at a bad one by itself."""
    return not getattr(triple[2], "stops_at_bad_rows", False)


@contextmanager
def _restored_on_error(model: BaseTD, copied: bool = False) -> Iterator[None]:
    """Restore the model if the block fails; with `copied`, also a state that is changed in place."""
    before = dict(vars(model))
    if copied:
        before["_state"] = deepcopy(model._state)
    try:
        yield
    except BaseException:  # Ctrl-C too: a half-fitted model would look like a fitted one
        model.__dict__ = before
        raise
