"""GTD2(λ): the gradient of the MSPBE through an auxiliary least-squares estimate."""

from __future__ import annotations

import numpy as np

from sparsetd.system import PHI, PSI, E, Table


def gtd2(eta: float = 1.0, lam: float = 0.0) -> Table:
    """A_t = [[ηφφᵀ, ηe(φ−γφ')ᵀ], [−(φ−γφ')eᵀ, 0]], b_t = r[ηe; 0].

    The stochastic iteration is w ← w + ηα(δe − (φᵀw)φ), θ ← θ + α(φ−γφ')(eᵀw). With η = 1 the mean operator is
    monotone (its symmetric part is diag(C, 0)), which is why Mirror-Prox applies to it.

    References
    ----------
    Sutton et al. (2009), Fast gradient-descent methods for temporal-difference learning with linear function
    approximation.
    """
    change, zero = PHI - PSI, np.zeros((3, 3))
    return Table.two_blocks(
        "gtd2",
        ww=eta * np.outer(PHI, PHI),
        wt=eta * np.outer(E, change),
        tw=-np.outer(change, E),
        tt=zero,
        bw=eta * E,
        bt=zero[0],
        lam=lam,
    )
