"""HTD: hybrid TD, which is TD on-policy and a gradient method off-policy."""

from __future__ import annotations

import numpy as np

from sparsetd.system import PHI, PSI, E, Table


def htd(eta: float = 1.0) -> Table:
    """A_t = [[η(φ−γφ')φᵀ, ηe(φ−γφ')ᵀ], [(φ−γφ')(e−φ)ᵀ, e(φ−γφ')ᵀ]], b_t = r[ηe; e], with e = ρφ.

    The stochastic iteration is θ ← θ + α(δe + (φ−γφ')(φ−e)ᵀw), w ← w + ηα(δe − (φ−γφ')(φᵀw)); at ratio 1 the θ update
    is TD's.

    References
    ----------
    White & White (2016), Investigating practical linear temporal difference learning.
    """
    change = PHI - PSI
    return Table.two_blocks(
        "htd",
        ww=eta * np.outer(change, PHI),
        wt=eta * np.outer(E, change),
        tw=np.outer(change, E - PHI),
        tt=np.outer(E, change),
        bw=eta * E,
        bt=E,
    )
