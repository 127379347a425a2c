"""Settings: every method with every combination of the grid's values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, is_dataclass, replace
from itertools import product
from math import prod
from typing import Any

from sklearn.base import clone

from sparsetd.estimators.validation import check_parameters, nearest

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
    check_grid(named, grid)
    n = n_runs * len(named) * prod(map(len, grid.values()))
    if n > MOST:
        raise ValueError(f"the sweep has {n:,} runs, more than {MOST:,}: give fewer values, or fewer runs of each")
    return [
        Setting(name, values, with_values(learner, values))
        for name, learner in named.items()
        for values in _combinations(grid)
    ]


def check_grid(named: Mapping[str, Any], grid: Grid) -> None:
    """One sentence about a parameter that a method does not have, and about one without values."""
    known = sorted({name for learner in named.values() for name in parameters(learner)})
    for name, values in grid.items():
        if name not in known:
            raise ValueError(nearest("the grid's parameter", name, known))
        for method, learner in named.items():
            if name not in parameters(learner):
                raise ValueError(f"{method} has no parameter {name}: sweep it apart from the methods that have one")
        if isinstance(values, str) or not hasattr(values, "__len__"):
            raise ValueError(f"the grid's {name} is {values!r}: give a list of values")
        if len(values) == 0:
            raise ValueError(f"the grid has no values for {name}: give at least one, or leave the parameter out")


def parameters(learner: Any) -> dict[str, Any]:
    """Return what can be set: the parameters of an estimator, or the fields of a control learner."""
    if hasattr(learner, "get_params"):
        return dict(learner.get_params(deep=False))
    if is_dataclass(learner) and not isinstance(learner, type):
        return {f.name: getattr(learner, f.name) for f in learner.__dataclass_fields__.values() if f.init}
    raise TypeError(f"{learner!r} is neither an estimator nor a control learner: pass an instance such as TDC()")


def with_values(learner: Any, values: Mapping[str, Any]) -> Any:
    """A fresh learner with these values."""
    if hasattr(learner, "set_params"):
        made = clone(learner).set_params(**values)
        check_parameters(made.get_params(deep=False))
        return made
    return replace(learner, **values)


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


def _combinations(grid: Grid) -> list[dict[str, Any]]:
    return [dict(zip(grid, map(_plain, values), strict=True)) for values in product(*grid.values())]


def _plain(value: Any) -> Any:
    """NumPy's numbers as Python's, which a file can hold."""
    return value.item() if hasattr(value, "item") else value
