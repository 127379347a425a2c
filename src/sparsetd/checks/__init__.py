"""The laws of linear TD estimators, public as scikit-learn's `check_estimator` is.

    for law in sparsetd.checks.LAWS: law(estimator)

A law is a function of an unfitted estimator that raises AssertionError where it is broken. A law that does not concern
an estimator (a dual without a saddle point, say) holds for it trivially.
"""

from __future__ import annotations

from typing import Any

from sparsetd.checks import attributes, containers, refusals, semantics, streams, symmetries
from sparsetd.checks.logs import Law, laws_of

LAWS: tuple[Law, ...] = sum(map(laws_of, (attributes, containers, streams, semantics, symmetries, refusals)), ())


def check_td_estimator(estimator: Any) -> None:
    """Raise AssertionError at the first law of linear TD that the estimator breaks."""
    for law in LAWS:
        try:
            law(estimator)
        except AssertionError as error:
            raise AssertionError(f"{type(estimator).__name__} breaks the law {law.__name__}: {error}") from error


__all__ = ["LAWS", "Law", "check_td_estimator"]
