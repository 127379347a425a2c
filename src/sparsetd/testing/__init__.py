"""The laws of linear TD estimators, public as scikit-learn's `check_estimator` is.

    for law in sparsetd.testing.LAWS: law(estimator)

A law is a function of an unfitted estimator that raises AssertionError where it is broken, and SkipTest where it does
not concern the estimator (a dual without a saddle point, say), as the checks of scikit-learn do.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any
from unittest import SkipTest

from sparsetd.testing import attributes, containers, refusals, semantics, streams, symmetries
from sparsetd.testing.logs import Law, laws_of

LAWS: tuple[Law, ...] = sum(map(laws_of, (attributes, containers, streams, semantics, symmetries, refusals)), ())


def check_td_estimator(estimator: Any) -> None:
    """Raise AssertionError at the first law of linear TD that the estimator breaks."""
    for law in LAWS:
        try:
            with suppress(SkipTest):
                law(estimator)
        except AssertionError as error:
            raise AssertionError(f"{type(estimator).__name__} breaks the law {law.__name__}: {error}") from error


__all__ = ["LAWS", "Law", "check_td_estimator"]
