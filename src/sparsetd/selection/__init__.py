"""Choosing without hand-tuning: regularization paths, cross-validation, stability selection, intervals."""

from __future__ import annotations

from sparsetd.selection.path import SparsePath, rho_max, sparse_td_path
from sparsetd.selection.sparse_td_cv import SparseTDCV

__all__ = ["SparsePath", "SparseTDCV", "rho_max", "sparse_td_path"]
