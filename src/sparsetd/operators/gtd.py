"""GTD(λ): the first gradient TD method, which minimises the norm of the expected update (NEU)."""

from __future__ import annotations

import numpy as np

from sparsetd.system import PHI, PSI, E, Table


def gtd(eta: float = 1.0, lam: float = 0.0) -> Table:
    """A_t = [[ηI, ηe(φ−γφ')ᵀ], [−(φ−γφ')eᵀ, 0]], b_t = r[ηe; 0].

    The stochastic iteration is w ← w + ηα(δe − w), θ ← θ + α(φ−γφ')(eᵀw).

    References
    ----------
    Sutton, Szepesvári & Maei (2008), A convergent O(n) algorithm for off-policy temporal-difference learning.
    """
    change, zero = PHI - PSI, np.zeros((3, 3))
    return Table.two_blocks(
        "gtd",
        ww=zero,
        wt=eta * np.outer(E, change),
        tw=-np.outer(change, E),
        tt=zero,
        bw=eta * E,
        bt=zero[0],
        damping_w=eta,
        lam=lam,
    )
