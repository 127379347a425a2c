"""TDC(λ): TD with gradient correction, convergent off-policy."""

from __future__ import annotations

import numpy as np

from sparsetd.system import PHI, PSI, E, Table, Trace


def tdc(
    eta: float = 1.0, lam: float = 0.0, *, name: str = "tdc", damping_w: float = 0.0, trace: Trace = "state"
) -> Table:
    """A_t = [[ηφφᵀ, ηe(φ−γφ')ᵀ], [γ(1−λ)φ'eᵀ, e(φ−γφ')ᵀ]], b_t = r[ηe; e] (`eq:abc`; e = ρφ without traces).

    The stochastic iteration is θ ← θ + α(δe − γ(1−λ)(eᵀw)φ'), w ← w + ηα(δe − (φᵀw)φ) (`eq:TDCupdate`). Its fixed
    point is w = 0 and LSTD's θ when E[e(φ−γφ')ᵀ] is non-singular. η = β/α is the ratio of the two steps.

    References
    ----------
    Sutton et al. (2009), Fast gradient-descent methods for temporal-difference learning with linear function
    approximation.
    """
    change = PHI - PSI
    return Table.two_blocks(
        name,
        ww=eta * np.outer(PHI, PHI),
        wt=eta * np.outer(E, change),
        tw=(1.0 - lam) * np.outer(PSI, E),
        tt=np.outer(E, change),
        bw=eta * E,
        bt=E,
        damping_w=damping_w,
        lam=lam,
        trace=trace,
    )
