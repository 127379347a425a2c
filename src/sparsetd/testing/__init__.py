"""The laws of linear TD estimators, public as scikit-learn's `check_estimator` is.

    for law in sparsetd.testing.LAWS: law(estimator)

A law is a function of an unfitted estimator that raises AssertionError where it is broken, and SkipTest where it does
not concern the estimator (a dual without a saddle point, say), as the checks of scikit-learn do. `CONTRACT` holds the
laws of what all estimators share (columns, containers, refusals), `MATHEMATICS` those that each method must keep by
itself (streams, symmetries, dense = sparse); `LAWS` holds both.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any
from unittest import SkipTest

from sparsetd.testing import contract, mathematics
from sparsetd.testing.small_log import Law, laws_of

CONTRACT: tuple[Law, ...] = laws_of(contract)
MATHEMATICS: tuple[Law, ...] = laws_of(mathematics)
LAWS: tuple[Law, ...] = CONTRACT + MATHEMATICS


def check_td_estimator(estimator: Any) -> None:
    """Check every law of linear TD on an estimator, and raise AssertionError at the first that it breaks.

    Examples
    --------
    >>> from sparsetd import TD
    >>> from sparsetd.testing import check_td_estimator
    >>> check_td_estimator(TD(step_size=0.01))
    """
    for law in LAWS:
        try:
            with suppress(SkipTest):
                law(estimator)
        except AssertionError as error:
            raise AssertionError(f"{type(estimator).__name__} breaks the law {law.__name__}: {error}") from error


__all__ = ["CONTRACT", "LAWS", "MATHEMATICS", "Law", "check_td_estimator"]
