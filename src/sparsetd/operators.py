"""Which linear system a method solves: every operator is a function that returns its `Table` of constants.

`OPERATORS` lists them by name. A new operator is one function here and one row in that table; the generic tests then
hold it to the same laws as the others.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from sparsetd.system import PHI, PSI, Array, E, Table, Trace

__all__ = ["OPERATORS", "etd", "gq", "gtd", "gtd2", "htd", "td", "tdc", "tdrc"]


def td(lam: float = 0.0) -> Table:
    """Return the table of TD(λ): the classic method, which may diverge off-policy.

    A_t = e(φ − γφ')ᵀ, b_t = r e, in θ alone.

    The stochastic iteration θ ← θ − α(A_tθ − b_t) = θ + αδe is TD(λ); E[A_t]θ = E[b_t] is LSTD(λ).

    References
    ----------
    Sutton (1988), Learning to predict by the methods of temporal differences.

    Examples
    --------
    >>> from sparsetd import operators
    >>> operators.td(lam=0.5).lam
    0.5
    """
    return Table.one_block("td", np.outer(E, PHI - PSI), E, lam=lam)


def etd(lam: float = 0.0) -> Table:
    """Return the table of emphatic TD(λ): TD with weights that keep it stable off-policy, at a higher variance.

    A_t = e(φ − γφ')ᵀ, b_t = r e with the emphatic trace e_t = ρ_t(m_t φ_t + γ_t λ e_{t−1}).

    m_t = λ i_t + (1 − λ) F_t and F_t = ρ_{t−1} γ_t F_{t−1} + i_t. The table is TD's; only the trace differs.

    References
    ----------
    Sutton, Mahmood & White (2016), An emphatic approach to the problem of off-policy temporal-difference learning.

    Examples
    --------
    >>> from sparsetd import operators
    >>> operators.etd().trace
    'emphatic'
    """
    return replace(td(lam), name="etd", trace="emphatic")


def tdc(
    eta: float = 1.0, lam: float = 0.0, *, name: str = "tdc", damping_w: float = 0.0, trace: Trace = "state"
) -> Table:
    """Return the table of TDC(λ): TD with a gradient correction, which converges off-policy.

    A_t = [[ηφφᵀ, ηe(φ−γφ')ᵀ], [γ(1−λ)φ'eᵀ, e(φ−γφ')ᵀ]], b_t = r[ηe; e] (`eq:abc`; e = ρφ without traces).

    The stochastic iteration is θ ← θ + α(δe − γ(1−λ)(eᵀw)φ'), w ← w + ηα(δe − (φᵀw)φ) (`eq:TDCupdate`). Its fixed
    point is w = 0 and LSTD's θ when E[e(φ−γφ')ᵀ] is non-singular. η = β/α is the ratio of the two steps.

    References
    ----------
    Sutton et al. (2009), Fast gradient-descent methods for temporal-difference learning with linear function
    approximation.

    Examples
    --------
    >>> from sparsetd import operators
    >>> operators.tdc(eta=10.0).n_blocks  # w and θ
    2
    """
    blocks = {"ww": np.outer(PHI, PHI), "tw": (1.0 - lam) * np.outer(PSI, E), "tt": np.outer(E, PHI - PSI), "bt": E}
    return _corrected(name, eta, **blocks, damping_w=damping_w, lam=lam, trace=trace)


def _corrected(name: str, eta: float, *, ww: Array, tw: Array, tt: Array, bt: Array, **others: Any) -> Table:
    """Return the table of a method whose w follows the TD error, w ← w + ηα(δe − B ww Bᵀw), from its other blocks."""
    error = np.outer(E, PHI - PSI)
    return Table.two_blocks(name, ww=eta * ww, wt=eta * error, tw=tw, tt=tt, bw=eta * E, bt=bt, **others)


def tdrc(eta: float = 1.0, lam: float = 0.0, beta: float = 1.0) -> Table:
    """Return the table of TDRC(λ): TDC with a regularised correction, which is less sensitive to its steps.

    TDC's A_t plus ηβI on the block of w: w ← w + ηα((δe − (φᵀw)φ) − βw).

    β = 0 is TDC; β → ∞ sends w to 0 and leaves TD.

    References
    ----------
    Ghiassian et al. (2020), Gradient temporal-difference learning with regularized corrections.

    Examples
    --------
    >>> from sparsetd import operators
    >>> operators.tdrc(beta=0.5).damping
    array([0.5, 0. ])
    """
    return tdc(eta, lam, name="tdrc", damping_w=eta * beta)


def gtd(eta: float = 1.0, lam: float = 0.0) -> Table:
    """Return the table of GTD(λ): the first gradient TD method, kept for comparison with GTD2 and TDC.

    A_t = [[ηI, ηe(φ−γφ')ᵀ], [−(φ−γφ')eᵀ, 0]], b_t = r[ηe; 0].

    The stochastic iteration is w ← w + ηα(δe − w), θ ← θ + α(φ−γφ')(eᵀw).

    References
    ----------
    Sutton, Szepesvári & Maei (2008), A convergent O(n) algorithm for off-policy temporal-difference learning.

    Examples
    --------
    >>> from sparsetd import operators
    >>> operators.gtd(eta=2.0).damping
    array([2., 0.])
    """
    return _descent("gtd", eta, lam, ww=np.zeros((3, 3)), damping_w=eta)


def gtd2(eta: float = 1.0, lam: float = 0.0) -> Table:
    """Return the table of GTD2(λ): the gradient of the projected Bellman error, which Mirror-Prox can extrapolate.

    A_t = [[ηφφᵀ, ηe(φ−γφ')ᵀ], [−(φ−γφ')eᵀ, 0]], b_t = r[ηe; 0].

    The stochastic iteration is w ← w + ηα(δe − (φᵀw)φ), θ ← θ + α(φ−γφ')(eᵀw). With η = 1 the mean operator is
    monotone (its symmetric part is diag(C, 0)), which is why Mirror-Prox applies to it.

    References
    ----------
    Sutton et al. (2009), Fast gradient-descent methods for temporal-difference learning with linear function
    approximation.

    Examples
    --------
    >>> from sparsetd import operators
    >>> operators.gtd2().M.shape
    (6, 6)
    """
    return _descent("gtd2", eta, lam, ww=np.outer(PHI, PHI))


def _descent(name: str, eta: float, lam: float, *, ww: Array, damping_w: float = 0.0) -> Table:
    """Return the table of θ ← θ + α(φ − γφ')(eᵀw); `ww` and `damping_w` say how w is learnt."""
    blocks = {"ww": ww, "tw": -np.outer(PHI - PSI, E), "tt": np.zeros((3, 3)), "bt": np.zeros(3)}
    return _corrected(name, eta, **blocks, damping_w=damping_w, lam=lam)


def htd(eta: float = 1.0) -> Table:
    """Return the table of HTD: TD where the data is on-policy, a gradient method where it is not.

    A_t = [[η(φ−γφ')φᵀ, ηe(φ−γφ')ᵀ], [(φ−γφ')(e−φ)ᵀ, e(φ−γφ')ᵀ]], b_t = r[ηe; e], with e = ρφ.

    The stochastic iteration is θ ← θ + α(δe + (φ−γφ')(φ−e)ᵀw), w ← w + ηα(δe − (φ−γφ')(φᵀw)); at ratio 1 the θ update
    is TD's.

    References
    ----------
    White & White (2016), Investigating practical linear temporal difference learning.

    Examples
    --------
    >>> from sparsetd import operators
    >>> operators.htd().name
    'htd'
    """
    change = PHI - PSI
    blocks = {"ww": np.outer(change, PHI), "tw": np.outer(change, E - PHI), "tt": np.outer(E, change), "bt": E}
    return _corrected("htd", eta, **blocks)


def gq(eta: float = 1.0, lam: float = 0.0) -> Table:
    """Return the table of GQ(λ): TDC(λ) for action values.

    A_t = [[ηφφᵀ, ηe(φ−γφ̄)ᵀ], [γ(1−λ)φ̄eᵀ, e(φ−γφ̄)ᵀ]], b_t = r[ηe; e] (`eq:gqAb`), φ̄ = Σ_a π(a|s')φ(s', a).

    The table is TDC's. An action value takes the action as given, so the action needs no correction: the ratio
    multiplies the *old* trace only, e_t = i_t φ_t + ρ_t γ_t λ e_{t−1}.

    References
    ----------
    Maei & Sutton (2010), GQ(λ): a general gradient algorithm for temporal-difference prediction learning with
    eligibility traces.

    Examples
    --------
    >>> from sparsetd import operators
    >>> operators.gq(lam=0.4).trace
    'action'
    """
    return tdc(eta, lam, name="gq", trace="action")


OPERATORS: dict[str, Callable[..., Table]] = {
    "td": td,
    "etd": etd,
    "tdc": tdc,
    "tdrc": tdrc,
    "gtd": gtd,
    "gtd2": gtd2,
    "htd": htd,
    "gq": gq,
}
