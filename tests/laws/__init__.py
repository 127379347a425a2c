"""The laws of linear TD estimators: `for law in laws.LAWS: law(estimator)`.

A law is a function of an unfitted estimator that raises AssertionError where it is broken, and SkipTest where it does
not concern the estimator (a dual without a saddle point, say), as the checks of scikit-learn do. `CONTRACT` holds the
laws of what all estimators share (columns, containers, refusals), `MATHEMATICS` those that each method must keep by
itself (streams, symmetries, dense = sparse); `LAWS` holds both.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any
from unittest import SkipTest

from laws import contract, mathematics
from laws.small_log import Law, laws_of

CONTRACT: tuple[Law, ...] = laws_of(contract)
MATHEMATICS: tuple[Law, ...] = laws_of(mathematics)
LAWS: tuple[Law, ...] = CONTRACT + MATHEMATICS


def check_laws(estimator: Any) -> None:
    """Check every law on an estimator, and raise AssertionError at the first that it breaks."""
    for law in LAWS:
        try:
            with suppress(SkipTest):
                law(estimator)
        except AssertionError as error:
            raise AssertionError(f"{type(estimator).__name__} breaks the law {law.__name__}: {error}") from error
