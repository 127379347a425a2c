"""`help` of an estimator lists every parameter, each described once."""

import inspect
import pydoc

import pytest

from sparsetd import TDC, estimators
from sparsetd.estimators.base import BaseTD
from sparsetd.estimators.docstrings import _names, _sections, with_inherited

ALL = [value for name in estimators.__all__ if inspect.isclass(value := getattr(estimators, name))]
ESTIMATORS = [cls for cls in ALL if issubclass(cls, BaseTD)]
BASE = """Does something.

Parameters
----------
a, b : float
    Two numbers,
    described on two lines.
c : int
    A third.

Examples
--------
>>> 1
1
"""


@pytest.mark.parametrize("cls", ESTIMATORS, ids=lambda cls: cls.__name__)
def test_every_parameter_is_described_once(cls):
    described = [name for entry in _sections(cls.__doc__)["Parameters"] for name in _names(entry)]
    assert sorted(described) == sorted(cls._get_param_names())


def test_help_shows_parameters_and_attributes_of_base_classes():
    shown = pydoc.plain(pydoc.render_doc(TDC))
    for name in ("eta : float", "step_size : ", "gamma : float", "coef_ : array", "step_size: 'Any' = 'auto'"):
        assert name in shown


def test_lists_go_on_with_what_the_base_has_besides():
    text = with_inherited(
        "Does more.\n\nParameters\n----------\nc : float\n    Another third.\n\nReferences\n----------\nOne.", BASE
    )
    assert text == (
        "Does more.\n\nParameters\n----------\nc : float\n    Another third.\na, b : float\n    Two numbers,\n"
        "    described on two lines.\n\nReferences\n----------\nOne."
    )


def test_a_class_without_a_docstring_has_that_of_a_dataclass():
    class Mine(TDC):
        extra: float = 0.0

    assert Mine.__doc__.startswith("Mine(")


def test_a_mixin_may_come_first():
    class Mixin:
        pass

    class Mine(Mixin, TDC):
        """My own."""

    assert "eta : float" in Mine.__doc__
