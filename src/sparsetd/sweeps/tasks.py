"""What a sweep runs: settings of the grid, the data that a seed stands for, and the errors that are measured.

**Settings** are every method with every combination of the grid's values. **A task** (a log, a finite problem, or an
environment in which a learner acts) answers two questions: which data a seed stands for, and what one learner makes of
them.

**Errors** of a weight vector cost O(d²), however many rows or states are behind them. Every one of them is the length
of an affine function of θ,

    RMSPBE(θ) = ‖Qᵀ(r − Dθ)‖      √NEU(θ) = ‖Fᵀ(r − Dθ)‖      value error(θ) = ‖V − Φθ‖

with rows weighted by √ξ (a finite problem) or by the ratio over √N (a log), F the features, Q an orthonormal basis of
their columns and D = F − γF'. The products are formed once, and many θ are then measured by one matrix product.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import product
from math import prod
from typing import Any, Literal

import numpy as np
from scipy.linalg import orth
from sklearn.base import clone

from sparsetd.control import Rule, online
from sparsetd.estimators.validation import check_parameters, nearest
from sparsetd.problems import FiniteMDP
from sparsetd.sweeps.results import Row
from sparsetd.system import Array, Batch, Trace, dense

MOST = 1_000_000  # runs: a table of more could not be read, nor held in memory
Grid = Mapping[str, Sequence[Any]]


@dataclass(frozen=True)
class Setting:
    """One row of the table before its seed: the method, the values of the grid, and the learner that has them."""

    method: str
    values: dict[str, Any]
    learner: Any


def settings_of(learners: Any, grid: Grid, n_runs: int = 1) -> list[Setting]:
    """The settings in the order of the table: method by method, the last parameter of the grid varying fastest."""
    named = _named(learners)
    known = {method: _parameters(learner) for method, learner in named.items()}
    for name, values in grid.items():
        lacking = [method for method, own in known.items() if name not in own]
        if len(lacking) == len(named):
            raise ValueError(nearest("the grid's parameter", name, sorted(set().union(*known.values()))))
        if lacking:
            raise ValueError(f"{lacking[0]} has no parameter {name}: sweep it apart from the methods that have one")
        if isinstance(values, str) or not hasattr(values, "__len__"):
            raise ValueError(f"the grid's {name} is {values!r}: give a list of values")
        if len(values) == 0:
            raise ValueError(f"the grid has no values for {name}: give at least one, or leave the parameter out")
    n = n_runs * len(named) * prod(map(len, grid.values()))
    if n > MOST:
        raise ValueError(f"the sweep has {n:,} runs, more than {MOST:,}: give fewer values, or fewer runs of each")
    # NumPy's numbers become Python's, which a file can hold.
    plain = [[value.item() if hasattr(value, "item") else value for value in values] for values in grid.values()]
    every = [dict(zip(grid, values, strict=True)) for values in product(*plain)]
    return [Setting(name, values, with_values(learner, values)) for name, learner in named.items() for values in every]


def _parameters(learner: Any) -> list[str]:
    """The names that a grid can set, also those of an estimator within a control learner."""
    if not hasattr(learner, "get_params") or isinstance(learner, type):
        raise TypeError(f"{learner!r} is neither an estimator nor a control learner: pass an instance such as TDC()")
    return list(learner.get_params())


def with_values(learner: Any, values: Mapping[str, Any]) -> Any:
    """A fresh learner with these values."""
    made = clone(learner).set_params(**values)
    check_parameters(getattr(made, "estimator", made).get_params(deep=False))
    return made


def _named(learners: Any) -> dict[str, Any]:
    if isinstance(learners, Mapping):
        named = dict(learners)
    else:
        several = list(learners) if isinstance(learners, (list, tuple)) else [learners]
        named = {type(learner).__name__: learner for learner in several}
        if len(named) < len(several):
            raise ValueError(
                "two methods have the same name: pass a dict such as {'TDC': TDC(), 'TDC(.9)': TDC(lam=.9)}"
            )
    if not named:
        raise ValueError("no method was given: pass an estimator, a list of them, or a dict from names to estimators")
    return named


NAMES = ("rmspbe", "mspbe", "neu", "value_error")
LARGEST = 8192  # features: the products take 8 d² bytes


@dataclass(frozen=True, eq=False)
class Distance:
    """‖target − matrix·θ‖, or its square."""

    target: Array
    matrix: Array
    squared: bool = False

    def __call__(self, theta: Array) -> Array:
        """The error of each row of `theta`, NaN where the weights are not finite."""
        with np.errstate(over="ignore", invalid="ignore"):
            gap = self.target - np.atleast_2d(theta) @ self.matrix.T
            square = np.einsum("ij,ij->i", gap, gap)
            return np.asarray(square if self.squared else np.sqrt(square))


def trace_for(settings: Sequence[Setting], data: Batch | FiniteMDP, metric: Metric) -> Trace:
    """Whether the methods learn values of states, or of actions: there the action is given, so no ratio weighs a row.

    The two differ off-policy only. There a method for actions would learn the values of the behaviour from states.
    """
    if np.all(data.ratio == 1.0) if isinstance(data, Batch) else np.array_equal(data.target, data.behavior):
        return "state"
    tables = {s.method: s.learner.triple()[0] for s in settings if hasattr(s.learner, "triple")}
    for_actions = [method for method, table in tables.items() if table.trace == "action"]
    others = [s.method for s in settings if s.method not in for_actions]
    if not for_actions:
        return "state"
    if isinstance(data, FiniteMDP):
        raise ValueError(
            f"{for_actions[0]} learns values of actions, and an off-policy finite problem gives rows of states: sweep "
            "it on `featurize(log, features, gamma, policy)`, or take TDC or ROTD"
        )
    if others and not isinstance(metric, Mapping):
        raise ValueError(
            f"{for_actions[0]} learns values of actions, where no ratio weighs a row, and {others[0]} does not: the "
            "errors differ, so sweep them apart"
        )
    return "action"


def distance(name: str, data: Batch | FiniteMDP, trace: Trace = "state") -> Distance:
    """The error of this name on a log or a finite problem, weighted as methods with this kind of trace weigh rows."""
    if name not in NAMES:
        raise ValueError(f"{nearest('metric', name, NAMES)}, or pass a dict from a name to a function of the model")
    if data.n_features > LARGEST:
        raise ValueError(
            f"metric {name!r} would square {data.n_features} features: pass a function of the fitted model instead"
        )
    if name == "value_error":
        if not isinstance(data, FiniteMDP):
            raise ValueError("metric 'value_error' needs the exact values of a finite problem: use 'rmspbe' on a log")
        root = np.sqrt(data.xi)
        return Distance(root * data.value, root[:, None] * data.features)
    # F is weighted so that FᵀF = E[φφᵀ], and r and D so that Fᵀ(r − Dθ) is the expected update E[ρδφ].
    if isinstance(data, FiniteMDP):
        phi, share = data.features, np.sqrt(data.xi)
        change, weight = phi - data.gamma * data.transition @ phi, share
    else:
        phi, share = dense(data.phi), np.full(len(data), 1.0 / np.sqrt(len(data)))
        ratio = data.ratio if trace == "state" else 1.0
        change, weight = phi - data.discount[:, None] * dense(data.phi_next), ratio * data.interest * share
    left = share[:, None] * phi
    basis = left if name == "neu" else orth(left)
    products = basis.T @ (weight * data.reward), basis.T @ (weight[:, None] * change)
    return Distance(*products, squared=name in ("mspbe", "neu"))


PROBE = 64  # rows or steps of a short run: its result tells whether a user's functions were edited

Metric = str | Sequence[str] | Mapping[str, Callable[[Any], float]]


@dataclass
class Prediction:
    """Learners of values on rows: those of a log, or fresh ones of a finite problem for every seed.

    With several seeds the episodes of a log are drawn with replacement, so that the band over seeds is a bootstrap.
    """

    source: Batch | FiniteMDP
    metric: Metric = "rmspbe"
    n_rows: int = 1000
    sampling: Literal["trajectory", "independent"] = "trajectory"
    curve: int = 10
    resampled: bool = False
    trace: Trace = "state"
    together: int = 32
    metrics: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        if callable(self.metric):
            raise TypeError("a function as metric needs a name: pass metric={'kept': function of the fitted model}")
        self.metrics = (self.metric,) if isinstance(self.metric, str) else tuple(self.metric)
        exact = not isinstance(self.source, Batch)
        named = () if isinstance(self.metric, Mapping) else self.metrics
        self.errors = {name: distance(name, self.source, self.trace) for name in named}
        self.initial = self.source.theta0 if exact and self.source.theta0 is not None else None  # type: ignore[union-attr]

    def data(self, seed: int) -> Batch:
        """The rows that all settings share at this seed."""
        rng = np.random.default_rng(seed)
        if isinstance(self.source, Batch):
            return resample(self.source, rng) if self.resampled else self.source
        draw = self.source.trajectory if self.sampling == "trajectory" else self.source.sample
        return draw(self.n_rows, rng)

    def learner(self, setting: Setting) -> Any:
        """A fresh estimator, started where the problem's literature starts it."""
        model = clone(setting.learner)
        if self.errors and getattr(model, "fit_intercept", False):
            raise ValueError(
                "fit_intercept=True hides a weight from the metric: add a column of ones to the rows instead"
            )
        if self.initial is not None and getattr(model, "coef_init", 0) is None:
            model.set_params(coef_init=self.initial)
        return model

    def run(self, setting: Setting, data: Batch) -> Row:
        """Fit in as many chunks as the curve has points, which changes no bit of the result."""
        model, points = self.learner(setting), []
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # `status` says what happened, for every row
            passes = int(getattr(model, "n_passes", 1))
            for rows, first in pieces(len(data), passes, max(self.curve, 1)):
                part = data[rows]
                start = part.start.copy()
                start[:1] |= first
                model.partial_fit(part.phi, part.reward, part.phi_next, **part.columns | {"start": start})
                points.append(self.measure(model)[self.metrics[0]] if self.curve else None)
        told = {"status": str(model.status_), "transitions": passes * len(data)}
        return {**self.measure(model), **told, "curve": points if self.curve else []}

    def measure(self, model: Any) -> dict[str, float]:
        if isinstance(self.metric, Mapping):
            return {name: float(function(model)) for name, function in self.metric.items()}
        return {name: float(error(model.coef_)[0]) for name, error in self.errors.items()}

    def short(self, setting: Setting) -> Row:
        return self.run(setting, self.data(0)[:PROBE])

    def description(self, setting: Setting) -> Any:
        arrays = [getattr(self.source, f.name) for f in fields(self.source)]
        options = [self.metrics, self.sampling, self.n_rows, self.curve, self.resampled, self.trace]
        computed = None if self.errors else self.short(setting)
        return type(self.source).__name__, arrays, options, computed


@dataclass
class Control:
    """Describe a task for learners that act, so that `sweep` can run them with many settings.

    `env()` makes an environment, `features` maps an observation to φ(s).

    Every run is one call of :func:`~sparsetd.control.online`. The metrics are the mean return ("return") and the mean
    length ("steps") of the last tenth of the episodes; the curve is the return of every episode.

    Examples
    --------
    >>> import gymnasium
    >>> import numpy as np
    >>> from sparsetd import GQ, sweep
    >>> from sparsetd.control import EstimatorLearner
    >>> from sparsetd.sweeps import Control
    >>> task = Control(lambda: gymnasium.make('MountainCar-v0'), np.asarray, n_episodes=2, max_steps=20)
    >>> learner = EstimatorLearner(GQ(gamma=0.99), n_actions=3)
    >>> sweep(learner, {'estimator__step_size': [0.001, 0.01]}, task, n_jobs=1)
    Sweep of EstimatorLearner over estimator__step_size: 2 runs
    """

    env: Callable[[], Any]
    features: Callable[[Array], Array]
    n_episodes: int = 100
    max_steps: int = 1000
    behavior: Rule = field(default_factory=lambda: Rule(epsilon=0.1))
    target: Rule = field(default_factory=Rule)
    metrics: tuple[str, ...] = ("return", "steps")
    together: int = 1

    def data(self, seed: int) -> np.random.Generator:
        return np.random.default_rng(seed)

    def run(self, setting: Setting, data: np.random.Generator) -> Row:
        episodes = online(
            self.env(), clone(setting.learner), self.features, data, behavior=self.behavior, target=self.target,
            n_episodes=self.n_episodes, max_steps=self.max_steps,
        )  # fmt: skip
        last = episodes[-max(1, self.n_episodes // 10) :]
        told = {"return": float(np.mean([e.total for e in last])), "steps": float(np.mean([e.steps for e in last]))}
        status = "finished" if episodes[-1].finite else "diverged"
        return {**told, "status": status, "curve": [float(e.total) for e in episodes]}

    def short(self, setting: Setting) -> Row:
        return replace(self, n_episodes=1, max_steps=PROBE).run(setting, self.data(0))

    def description(self, setting: Setting) -> Any:
        return "Control", self.n_episodes, self.max_steps, repr((self.behavior, self.target)), self.short(setting)


# A task has `run`, which gives the columns of one row (the metrics, `status` and `curve`), `data` of a seed, `together`
# (how many settings make one piece of work) and `description`: everything else that decides the rows. A user's code is
# known by the result of a `short` run of one setting.
Task = Prediction | Control


def labelled(settings: list[Setting], seed: int, results: list[Row]) -> list[Row]:
    """The rows of the table for some settings with one seed."""
    return [
        {"method": s.method, **s.values, "seed": seed, **result} for s, result in zip(settings, results, strict=True)
    ]


def pieces(n: int, passes: int, points: int) -> list[tuple[slice, bool]]:
    """Cuts of `passes` times n rows into about `points` parts that cross no pass, and whether each begins one."""
    each = max(1, -(-points // passes))
    ends = [round(n * (i + 1) / each) for i in range(each)]
    once = [(slice(a, b), a == 0) for a, b in zip([0, *ends[:-1]], ends, strict=True) if b > a]
    return once * passes


def resample(batch: Batch, rng: np.random.Generator) -> Batch:
    """A log of as many episodes, drawn with replacement."""
    begins = np.flatnonzero(batch.start) if batch.start.any() else np.array([0])
    ends = np.append(begins[1:], len(batch))
    if len(begins) < 2:
        raise ValueError("the log is one episode, which cannot be drawn again: use n_runs=1, or mark its starts")
    drawn = rng.integers(len(begins), size=len(begins))
    return batch[np.concatenate([np.arange(begins[i], ends[i]) for i in drawn])]
