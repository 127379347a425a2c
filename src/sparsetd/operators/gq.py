"""GQ(λ): TDC(λ) for action values."""

from __future__ import annotations

from sparsetd.operators.tdc import tdc
from sparsetd.system import Table


def gq(eta: float = 1.0, lam: float = 0.0) -> Table:
    """A_t = [[ηφφᵀ, ηe(φ−γφ̄)ᵀ], [γ(1−λ)φ̄eᵀ, e(φ−γφ̄)ᵀ]], b_t = r[ηe; e] (`eq:gqAb`), φ̄ = Σ_a π(a|s')φ(s', a).

    The table is TDC's. The action is part of what is valued, so it needs no correction: the ratio multiplies the *old*
    trace only, e_t = i_t φ_t + ρ_t γ_t λ e_{t−1}.

    References
    ----------
    Maei & Sutton (2010), GQ(λ): a general gradient algorithm for temporal-difference prediction learning with
    eligibility traces.
    """
    return tdc(eta, lam, name="gq", trace="action")
