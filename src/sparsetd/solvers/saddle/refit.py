"""LSTD on the features that were selected: the penalty chooses, and then stops shrinking.

θ_S = argmin ‖G_SS θ_S − g_S‖,      G_SS = Σ_t w_t e_S(φ − ψ)_Sᵀ,    g_S = Σ_t w_t r_t e_S
"""

from __future__ import annotations

import numpy as np

from sparsetd.solvers.saddle.linear import Implicit, as_weight
from sparsetd.system import Array, Batch, Table


def selected_rows(table: Table, batch: Batch, selected: Array) -> tuple[Array, Array, Array]:
    """φ_S, ψ_S and e_S of every row, each of shape (N, |S|)."""
    phi, psi, e = Implicit(table, batch, as_weight(batch, None)).directions(np.asarray(selected))
    return phi, psi, e


def refit(table: Table, batch: Batch, selected: Array, weight: Array | None = None) -> Array:
    """θ_S by LSTD on the rows with their weights; the shortest solution where G_SS is singular."""
    phi, psi, e = selected_rows(table, batch, selected)
    weighted = as_weight(batch, weight)[:, None] * e
    return np.asarray(np.linalg.lstsq(weighted.T @ (phi - psi), weighted.T @ batch.reward, rcond=None)[0])
