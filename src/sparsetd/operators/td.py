"""TD(λ): the on-policy classic; may diverge off-policy."""

from __future__ import annotations

import numpy as np

from sparsetd.system import PHI, PSI, E, Table


def td(lam: float = 0.0) -> Table:
    """A_t = e(φ − γφ')ᵀ, b_t = r e, in θ alone.

    The stochastic iteration θ ← θ − α(A_tθ − b_t) = θ + αδe is TD(λ); E[A_t]θ = E[b_t] is LSTD(λ).

    References
    ----------
    Sutton (1988), Learning to predict by the methods of temporal differences.
    """
    return Table.one_block("td", np.outer(E, PHI - PSI), E, lam=lam)
