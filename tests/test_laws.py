"""Every exported estimator keeps scikit-learn's contract and the laws of linear TD, found by discovery.

The mathematics of a method (streams, dense = sparse, symmetries, ends and ratios) is tried on every estimator. What all
share through `BaseTD` (columns, containers, refusals, scikit-learn's contract) is tried on one estimator of each kind.
"""

from __future__ import annotations

import inspect
from typing import Any

import pytest
from laws import CONTRACT, MATHEMATICS, check_laws
from sklearn.base import clone
from sklearn.utils import estimator_checks
from sklearn.utils.estimator_checks import parametrize_with_checks

import sparsetd
from sparsetd import estimators, selection
from sparsetd.estimators import BaseTD

DEFAULTS: list[Any] = [
    value()
    for package in (estimators, selection)
    for name in package.__all__
    if inspect.isclass(value := getattr(package, name)) and issubclass(value, BaseTD) and value is not BaseTD
]
# With a number as its step an estimator is another solver, with kernels of its own for dense and for sparse rows.
HAND_SET: list[Any] = [type(e)(step_size=0.01) for e in DEFAULTS if getattr(e, "step_size", None) == "auto"]


def kind(estimator: Any) -> tuple[Any, ...]:
    """What decides which shared code an estimator runs through: its state, its dual and its step rule."""
    table, _, solver = estimator.triple()
    state = type(solver.init(table, 3, float))
    return state, getattr(solver, "saddle", False), getattr(estimator, "step_size", None) == "auto"


def one_of_each_kind(models: list[Any]) -> list[Any]:
    return list({kind(model): model for model in reversed(models)}.values())


def _name(value: Any) -> str:
    if inspect.isfunction(value):
        return value.__name__
    return type(value).__name__ + (f"-{value.step_size}" if hasattr(value, "step_size") else "")


class Forgetful(sparsetd.TD):
    """TD that begins anew with every call of `partial_fit`."""

    def partial_fit(self, *rows: Any, **columns: Any) -> Any:
        vars(self).pop("_state", None)
        return super().partial_fit(*rows, **columns)


def test_a_broken_law_is_named() -> None:
    with pytest.raises(AssertionError, match="Forgetful breaks the law columns_of_another_size_are_refused"):
        check_laws(Forgetful(step_size=0.01))


def test_there_is_more_than_one_kind() -> None:
    """A `kind` that lost its meaning would leave most laws untried."""
    assert 5 <= len(one_of_each_kind(DEFAULTS + HAND_SET)) <= 10


@pytest.mark.parametrize("law", MATHEMATICS, ids=_name)
@pytest.mark.parametrize("estimator", DEFAULTS + HAND_SET, ids=_name)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_law(estimator: Any, law: Any) -> None:
    law(estimator)


@pytest.mark.parametrize("law", CONTRACT, ids=_name)
@pytest.mark.parametrize("estimator", one_of_each_kind(DEFAULTS + HAND_SET), ids=_name)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_contract(estimator: Any, law: Any) -> None:
    law(estimator)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@parametrize_with_checks(one_of_each_kind(DEFAULTS))
def test_scikit_learn_contract(estimator: Any, check: Any) -> None:
    check(estimator)


@pytest.mark.parametrize("estimator", DEFAULTS, ids=_name)
def test_the_constructor_keeps_scikit_learns_contract(estimator: Any) -> None:
    """Parameters are the only thing in which every class differs from its base."""
    name = type(estimator).__name__
    estimator_checks.check_parameters_default_constructible(name, estimator)
    for check in ("estimator_cloneable", "estimator_repr", "get_params_invariance", "set_params",
                  "no_attributes_set_in_init", "do_not_raise_errors_in_init_or_set_params"):  # fmt: skip
        getattr(estimator_checks, f"check_{check}")(name, clone(estimator))
