"""Every exported estimator keeps scikit-learn's contract and the laws of linear TD, found by discovery."""

from __future__ import annotations

import inspect
from typing import Any

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

import sparsetd
from sparsetd import estimators, selection
from sparsetd.estimators import BaseTD
from sparsetd.testing import LAWS, check_td_estimator

ESTIMATORS: list[Any] = [
    value()
    for package in (estimators, selection)
    for name in package.__all__
    if inspect.isclass(value := getattr(package, name)) and issubclass(value, BaseTD) and value is not BaseTD
]


# With a number as its step an estimator is another solver, with kernels of its own for dense and for sparse rows.
HAND_SET: list[Any] = [type(e)(step_size=0.01) for e in ESTIMATORS if getattr(e, "step_size", None) == "auto"]


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
    with pytest.raises(AssertionError, match="Forgetful breaks the law two_pieces_equal_one"):
        check_td_estimator(Forgetful(step_size=0.01))


@pytest.mark.parametrize("law", LAWS, ids=_name)
@pytest.mark.parametrize("estimator", ESTIMATORS + HAND_SET, ids=_name)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_law(estimator: Any, law: Any) -> None:
    law(estimator)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@parametrize_with_checks(ESTIMATORS)
def test_scikit_learn_contract(estimator: Any, check: Any) -> None:
    check(estimator)
