"""TDRC(λ): TDC with a regularised correction."""

from __future__ import annotations

from sparsetd.operators.tdc import tdc
from sparsetd.system import Table


def tdrc(eta: float = 1.0, lam: float = 0.0, beta: float = 1.0) -> Table:
    """TDC's A_t plus ηβI on the block of w: w ← w + ηα((δe − (φᵀw)φ) − βw).

    β = 0 is TDC; β → ∞ sends w to 0 and leaves TD.

    References
    ----------
    Ghiassian et al. (2020), Gradient temporal-difference learning with regularized corrections.
    """
    return tdc(eta, lam, name="tdrc", damping_w=eta * beta)
