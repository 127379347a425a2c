"""Emphatic TD(λ): TD whose trace is weighted by the follow-on, stable off-policy."""

from __future__ import annotations

from dataclasses import replace

from sparsetd.operators.td import td
from sparsetd.system import Table


def etd(lam: float = 0.0) -> Table:
    """A_t = e(φ − γφ')ᵀ, b_t = r e with the emphatic trace e_t = ρ_t(m_t φ_t + γ_t λ e_{t−1}).

    m_t = λ i_t + (1 − λ) F_t and F_t = ρ_{t−1} γ_t F_{t−1} + i_t. The table is TD's; only the trace differs.

    References
    ----------
    Sutton, Mahmood & White (2016), An emphatic approach to the problem of off-policy temporal-difference learning.
    """
    return replace(td(lam), name="etd", trace="emphatic")
