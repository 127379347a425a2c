"""Bad input gets one sentence that names the argument and the first bad row."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.base import clone

from sparsetd.testing.logs import Log, fitted, log, streamed


def _refused(estimator: Any, rows: Log, *wanted: str, **parameters: Any) -> None:
    _says(lambda: fitted(estimator, rows, **parameters), *wanted)


def _says(action: Callable[[], Any], *wanted: str) -> None:
    """The action is refused in a sentence that has all the wanted patterns."""
    try:
        action()
    except (ValueError, TypeError) as error:
        sentence = str(error)
    else:
        raise AssertionError(f"nothing was said about {', '.join(wanted)}")
    for pattern in wanted:
        assert re.search(pattern, sentence), f"{sentence!r} does not say {pattern!r}"


def _refused_cell(estimator: Any, rows: Log, name: str, row: int, value: float, *wanted: str) -> None:
    """One bad number in a column is refused with the column's name and its row."""
    column = np.array(getattr(rows, name), dtype=float)
    column[row] = value
    _refused(estimator, rows.but(**{name: column}), rf"\b{name}\b", rf"row {row}\b", *wanted)


def nan_is_refused_with_its_row(estimator: Any, rows: Log) -> None:
    for name in ("X", "y", "X_next", "ratio", "discount"):
        _refused_cell(estimator, rows, name, 13, np.nan, "NaN")


def infinity_is_refused_with_its_row(estimator: Any, rows: Log) -> None:
    for name in ("X", "y", "X_next", "ratio"):
        _refused_cell(estimator, rows, name, 13, np.inf, "inf")


def a_negative_ratio_is_refused(estimator: Any, rows: Log) -> None:
    _refused_cell(estimator, rows, "ratio", 5, -0.5, r"-0\.5")


def a_discount_above_one_is_refused(estimator: Any, rows: Log) -> None:
    _refused_cell(estimator, rows, "discount", 6, 1.5, r"1\.5")


def a_short_column_is_refused(estimator: Any) -> None:
    for name in ("ratio", "discount", "start"):
        rows = log()
        _refused(estimator, rows.but(**{name: getattr(rows, name)[:-1]}), name, "48")


def a_short_successor_is_refused(estimator: Any, rows: Log) -> None:
    _refused(estimator, rows.but(X_next=rows.X_next[:-1]), "X_next", "47", "48")


def another_width_of_successor_is_refused(estimator: Any, rows: Log) -> None:
    _refused(estimator, rows.but(X_next=rows.X_next[:, :-1]), "3 features", "4 features")


def no_rows_are_refused(estimator: Any, rows: Log) -> None:
    _refused(estimator, rows[:0], "0 sample")


def no_features_are_refused(estimator: Any, rows: Log) -> None:
    _refused(estimator, rows.but(X=rows.X[:, :0], X_next=rows.X_next[:, :0]), "0 feature")


def gamma_outside_the_unit_interval_is_refused(estimator: Any) -> None:
    for gamma in (-0.1, 1.1, np.nan, "high"):
        _refused(estimator, log(), "gamma", gamma=gamma)


def a_start_that_is_no_boolean_is_refused(estimator: Any, rows: Log) -> None:
    start = rows.start.astype(int)
    start[9] = 7
    _refused(estimator, rows.but(start=start), "start", r"row 9\b")


def an_unknown_unpenalized_feature_is_refused(estimator: Any) -> None:
    _refused(estimator, log(), "unpenalized", "nobody", unpenalized=("nobody",))
    _refused(estimator, log(), "unpenalized", "99", unpenalized=(99,))


def a_changed_width_is_refused_mid_stream(estimator: Any) -> None:
    model, rows = streamed(estimator, log(), ()), log(d=5)
    _says(lambda: model.partial_fit(rows.X, rows.y, rows.X_next), "5 features")


def bad_hyperparameters_are_refused(estimator: Any) -> None:
    bad = {"step_size": -1.0, "rho_theta": -1.0, "rho_w": -1.0, "eta": 0.0, "lam": 2.0, "n_passes": 0, "average": "al",
           "fit_norm": 3, "support_tol": 1.0, "coef_init": [1.0]}  # fmt: skip
    known = clone(estimator).get_params()
    for name, value in bad.items():
        if name in known:
            _refused(estimator, log(), name, **{name: value})
