"""Choosing without hand-tuning: regularization paths, cross-validation, stability selection, intervals."""

from __future__ import annotations

from sparsetd.selection.intervals import Interval, Summary, summary, value_interval
from sparsetd.selection.path import SparsePath, rho_max, sparse_td_path
from sparsetd.selection.sparse_td_select import SparseTDSelect
from sparsetd.selection.stability import StabilitySelection, stability_selection

__all__ = [
    "Interval",
    "SparsePath",
    "SparseTDSelect",
    "StabilitySelection",
    "Summary",
    "rho_max",
    "sparse_td_path",
    "stability_selection",
    "summary",
    "value_interval",
]
