"""A_t and b_t of every method, written as the d × d outer products that the papers print.

Everywhere f = φ − γφ' with γ the discount of the row, and the importance ratio ρ sits in the trace e, that is on the δ
terms and never on φφᵀ. x = [w; θ] for the two-block methods, x = θ for TD and emphatic TD.
"""

from __future__ import annotations

import numpy as np

ONE_BLOCK = {"td", "etd"}
METHODS = ("td", "tdc", "gtd", "gtd2", "tdrc", "htd", "gq", "etd")


def outer(u, v):
    return np.outer(u, v)


def td(phi, phi_next, reward, gamma, e):
    """θ ← θ + α δ e, δ = r + γθᵀφ' − θᵀφ."""
    return outer(e, phi - gamma * phi_next), reward * e


def etd(phi, phi_next, reward, gamma, e):
    """Emphatic TD(λ) is TD(λ) with the emphatic trace (Sutton, Mahmood & White 2016)."""
    return outer(e, phi - gamma * phi_next), reward * e


def tdc(phi, phi_next, reward, gamma, e, eta=1.0, lam=0.0):
    """eq:abc with e for φ where the ratio or the trace enters; λ > 0: TDC(λ) (Maei 2011)."""
    f = phi - gamma * phi_next
    A = np.block([[eta * outer(phi, phi), eta * outer(e, f)], [gamma * (1 - lam) * outer(phi_next, e), outer(e, f)]])
    return A, np.concatenate([eta * reward * e, reward * e])


def gq(phi, phi_next, reward, gamma, e, eta=1.0, lam=0.0):
    """eq:gqAb: φ' is the expected next feature vector φ̄ and e the action-value trace."""
    f = phi - gamma * phi_next
    top = np.hstack([eta * outer(phi, phi), eta * outer(e, f)])
    bottom = np.hstack([gamma * (1 - lam) * outer(phi_next, e), outer(e, f)])
    return np.vstack([top, bottom]), np.concatenate([eta * reward * e, reward * e])


def gtd(phi, phi_next, reward, gamma, e, eta=1.0):
    """w ← w + ηα(δe − w), θ ← θ + α f eᵀw (Sutton, Szepesvári & Maei 2008)."""
    f, d = phi - gamma * phi_next, len(phi)
    A = np.block([[eta * np.eye(d), eta * outer(e, f)], [-outer(f, e), np.zeros((d, d))]])
    return A, np.concatenate([eta * reward * e, np.zeros(d)])


def gtd2(phi, phi_next, reward, gamma, e, eta=1.0):
    """w ← w + ηα(δe − φφᵀw), θ ← θ + α f eᵀw (Sutton et al. 2009)."""
    f, d = phi - gamma * phi_next, len(phi)
    A = np.block([[eta * outer(phi, phi), eta * outer(e, f)], [-outer(f, e), np.zeros((d, d))]])
    return A, np.concatenate([eta * reward * e, np.zeros(d)])


def tdrc(phi, phi_next, reward, gamma, e, eta=1.0, beta=1.0, lam=0.0):
    """TDC with w ← w + ηα(δe − φφᵀw − βw) (Ghiassian et al. 2020)."""
    A, b = tdc(phi, phi_next, reward, gamma, e, eta, lam)
    d = len(phi)
    A[:d, :d] += eta * beta * np.eye(d)
    return A, b


def htd(phi, phi_next, reward, gamma, e, eta=1.0):
    """w ← w + ηα(δe − f φᵀw), θ ← θ + α(δe + f(φ − e)ᵀw): TD where the ratio is 1 (Hackman 2012, λ = 0)."""
    f = phi - gamma * phi_next
    A = np.block([[eta * outer(f, phi), eta * outer(e, f)], [-outer(f, phi - e), outer(e, f)]])
    return A, np.concatenate([eta * reward * e, reward * e])


def traces(kind, phi, discount, ratio, start, interest, lam=0.0):
    """The trace of every row, (n, d). γ_t is the discount of the row before, 0 at the start of an episode.

    state      e_t = ρ_t (i_t φ_t + γ_t λ e_{t−1})
    action     e_t = i_t φ_t + ρ_t γ_t λ e_{t−1}
    emphatic   e_t = ρ_t (M_t φ_t + γ_t λ e_{t−1}),  M_t = λ i_t + (1 − λ) F_t,  F_t = ρ_{t−1} γ_t F_{t−1} + i_t
    """
    out, e, follow_on = [], np.zeros(phi.shape[1]), 0.0
    for t in range(len(phi)):
        gamma = 0.0 if t == 0 or start[t] else discount[t - 1]
        if kind == "state":
            e = ratio[t] * (interest[t] * phi[t] + gamma * lam * e)
        elif kind == "action":
            e = interest[t] * phi[t] + ratio[t] * gamma * lam * e
        else:
            follow_on = (ratio[t - 1] * gamma * follow_on if t else 0.0) + interest[t]
            emphasis = lam * interest[t] + (1 - lam) * follow_on
            e = ratio[t] * (emphasis * phi[t] + gamma * lam * e)
        out.append(e)
    return np.array(out)


def stream(method, phi, phi_next, reward, discount, ratio=None, start=None, interest=None, lam=0.0, **constants):
    """[(A_t, b_t)] of every row of a stream under the named method."""
    n = len(phi)
    ratio = np.ones(n) if ratio is None else ratio
    start = np.arange(n) == 0 if start is None else start
    interest = np.ones(n) if interest is None else interest
    kind = {"gq": "action", "etd": "emphatic"}.get(method, "state")
    e = traces(kind, phi, discount, ratio, start, interest, lam)
    if method in {"tdc", "tdrc", "gq"}:
        constants = {**constants, "lam": lam}
    if method not in globals():
        raise ValueError(f"write {method} in plain NumPy in tests/reference/systems.py, so that it can be compared")
    function = globals()[method]
    return [function(phi[t], phi_next[t], reward[t], discount[t], e[t], **constants) for t in range(n)]


def mean(pairs):
    """(E[A_t], E[b_t]): eq:UNIFY."""
    return np.mean([A for A, _ in pairs], axis=0), np.mean([b for _, b in pairs], axis=0)


# ----- the O(d) formulas exactly as printed (no ratio) -----------------------------------------------------------


def td_error(theta, phi, phi_next, reward, gamma):
    return reward + gamma * phi_next @ theta - phi @ theta


def eq_TDCupdate(w, theta, phi, phi_next, reward, gamma, alpha, eta):
    """eq:TDCupdate: the next (w, θ)."""
    delta, beta = td_error(theta, phi, phi_next, reward, gamma), eta * alpha
    theta_new = theta + alpha * delta * phi - alpha * gamma * phi_next * (phi @ w)
    return w + beta * (delta - phi @ w) * phi, theta_new


def eq_ytAt(y1, y2, phi, phi_next, gamma, eta):
    """eq:ytAt."""
    left = eta * phi * (y1 @ phi) + gamma * phi * (y2 @ phi_next)
    right = (phi - gamma * phi_next) * ((eta * y1 + y2) @ phi)
    return np.concatenate([left, right])


def eq_Atxt_bt(w, theta, phi, phi_next, reward, gamma, eta):
    """eq:Atxt-bt."""
    delta = td_error(theta, phi, phi_next, reward, gamma)
    return np.concatenate([-eta * (delta - phi @ w) * phi, gamma * (phi @ w) * phi_next - delta * phi])


def eq_gq(w, theta, phi, phi_bar, e, reward, gamma, lam, alpha, eta):
    """eq:gq: the next (w, θ)."""
    delta, beta = td_error(theta, phi, phi_bar, reward, gamma), eta * alpha
    theta_new = theta + alpha * (delta * e - gamma * (1 - lam) * (w @ e) * phi_bar)
    return w + beta * (delta * e - (w @ phi) * phi), theta_new


def eq_gqcase_ytAt(y1, y2, phi, phi_bar, e, gamma, lam, eta):
    """eq:gqcase, first line."""
    left = eta * phi * (y1 @ phi) + gamma * (1 - lam) * e * (y2 @ phi_bar)
    right = (phi - gamma * phi_bar) * ((eta * y1 + y2) @ e)
    return np.concatenate([left, right])


def eq_gqcase_Atxt_bt(w, theta, phi, phi_bar, e, reward, gamma, lam, eta):
    """eq:gqcase, second line."""
    delta = td_error(theta, phi, phi_bar, reward, gamma)
    return np.concatenate([-eta * (delta * e - (phi @ w) * phi), gamma * (1 - lam) * (e @ w) * phi_bar - delta * e])
