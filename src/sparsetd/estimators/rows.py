"""Rows as they come in, made into what a batch holds: successors by position, one container, a constant, weights."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from sparsetd.estimators.validation import check_finite, column
from sparsetd.system import Array, Batch, dense, rows_of


def weighted(batch: Batch, sample_weight: Any) -> Batch:
    """Rows scaled by √weight: then both Σ δφ and Σ φφᵀ count each row as often as its weight says."""
    if sample_weight is None:
        return batch
    root = np.sqrt(column("sample_weight", sample_weight, len(batch)))
    by_row = sp.diags_array(root) if batch.is_sparse else root[:, None]
    phi, phi_next = (by_row @ rows if batch.is_sparse else by_row * rows for rows in (batch.phi, batch.phi_next))
    return replace(batch, phi=phi, phi_next=phi_next, reward=root * batch.reward)


def check_target(y: Any) -> None:
    """The row of a bad reward; everything else about y is scikit-learn's to say."""
    reward = np.asarray(y)
    if reward.dtype.kind == "f" and reward.ndim == 1:
        check_finite("y", reward)


class Following:
    """Successors by position of dense rows, in slices that share the memory of φ but for the very last row."""

    def __init__(self, phi: Array) -> None:
        self.phi = phi

    def __getitem__(self, rows: slice) -> Array:
        first, stop, _ = rows.indices(len(self.phi))
        if stop < len(self.phi):
            return np.asarray(self.phi[first + 1 : stop + 1])
        return np.concatenate([self.phi[first + 1 :], self.phi[-1:]])  # what follows the last row counts for nothing


def following(phi: Any, views: bool) -> Any:
    """The next rows; what follows the last row, and every row before a start, is terminal."""
    if not sp.issparse(phi):
        return Following(phi) if views else Following(phi)[:]
    after = rows_of(phi, slice(1, phi.shape[0]))  # shares the memory of φ
    arrays = after.data, after.indices, np.append(after.indptr, after.indptr[-1:])
    return sp.csr_array(arrays, shape=phi.shape, copy=False)


def like(rows: Any, phi: Any) -> Any:
    """The rows in the container and type of φ, so that one kernel serves both."""
    if sp.issparse(phi) and not sp.issparse(rows):
        rows = sp.csr_array(rows)
    elif sp.issparse(rows) and not sp.issparse(phi):
        rows = rows.toarray()
    rows = rows.astype(phi.dtype, copy=False)
    return rows if sp.issparse(rows) else np.ascontiguousarray(rows)


def in_container(batch: Batch, sparse: bool) -> Batch:
    """The batch with dense or with CSR features, itself where it has them already."""
    if batch.is_sparse == sparse:
        return batch
    phi, phi_next = (sp.csr_array(v) if sparse else dense(v) for v in (batch.phi, batch.phi_next))
    return replace(batch, phi=phi, phi_next=phi_next)


def with_constant(phi: Any) -> Any:
    """[φ 1], dense or sparse, in the type of φ."""
    one = np.ones((phi.shape[0], 1), dtype=phi.dtype)
    return sp.hstack([phi, sp.csr_array(one)], format="csr") if sp.issparse(phi) else np.hstack([phi, one])
