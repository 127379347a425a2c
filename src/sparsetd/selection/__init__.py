"""Choosing without hand-tuning: regularization paths, cross-validation, stability selection, intervals."""

from __future__ import annotations

from sparsetd.selection.intervals import Interval, value_interval
from sparsetd.selection.path import SparsePath, rho_max, sparse_td_path
from sparsetd.selection.sparse_td_cv import SparseTDCV
from sparsetd.selection.stability import StabilitySelection, stability_selection

__all__ = [
    "Interval",
    "SparsePath",
    "SparseTDCV",
    "StabilitySelection",
    "rho_max",
    "sparse_td_path",
    "stability_selection",
    "value_interval",
]
