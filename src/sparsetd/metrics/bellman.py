"""Errors of a value function V_θ = φᵀθ on data.

All of them are functions of the expected update g(θ) = E[δ e], with the ratio in the trace e (e = ρφ without traces).
"""

from __future__ import annotations

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from scipy.sparse.linalg import lsmr

from sparsetd.system import Array, Batch, Table, Trace, TraceCarry, recurrence, trace_weights


def td_errors(batch: Batch, theta: Array) -> Array:
    """δ_t = r_t + γ_t φ'_tᵀθ − φ_tᵀθ, one for each row; the ratio is not included."""
    return np.asarray(batch.reward + batch.discount * (batch.phi_next @ theta) - batch.phi @ theta)


def mspbe(batch: Batch, theta: Array, *, lam: float = 0.0, trace: Trace = "state") -> float:
    """MSPBE(θ) = gᵀC⁺g with g = (1/N) Σ δ_t e_t and C = (1/N) Σ φ_t φ_tᵀ: equation mspbe; eq:gqObj with traces.

    Since Σ_t δ_t e_t = Φᵀv with v_t = c_t z_t, z_t = δ_t + d_{t+1} z_{t+1} and (c, d) the weights of the trace, this is
    ‖Π_Φ v‖²/N with Π_Φ the projection on the columns of Φ. It is computed so, by least squares: C is never formed, and
    features may be collinear. Without traces v = ρδ.
    """
    v = corrections(batch, theta, lam, trace)
    fitted = project_on_columns(batch.phi, v)
    return float(fitted @ fitted) / len(batch)


def rmspbe(batch: Batch, theta: Array, *, lam: float = 0.0, trace: Trace = "state") -> float:
    """RMSPBE(θ) = √MSPBE(θ)."""
    return float(np.sqrt(mspbe(batch, theta, lam=lam, trace=trace)))


def neu(batch: Batch, theta: Array, *, lam: float = 0.0, trace: Trace = "state") -> float:
    """NEU(θ) = ‖g‖², the squared norm of the expected TD update: MSPBE without the C⁺ that makes it scale-free."""
    g = batch.phi.T @ corrections(batch, theta, lam, trace) / len(batch)
    return float(g @ g)


def corrections(batch: Batch, theta: Array, lam: float, trace: Trace) -> Array:
    """v with Σ_t δ_t e_t = Φᵀv: the λ-return errors times their ratio, by one pass backwards."""
    table = Table.one_block("trace", np.zeros((3, 3)), np.zeros(3), lam=lam, trace=trace)
    fresh, old = trace_weights(table, batch, TraceCarry())
    return np.asarray(fresh * recurrence(old, td_errors(batch, theta), transpose=True))


def project_on_columns(phi: Array | sp.csr_array, v: Array) -> Array:
    """Π_Φ v: the fitted values of a least-squares regression (pivoted QR; LSMR where Φ is sparse)."""
    if sp.issparse(phi):
        coef = lsmr(phi, v, atol=1e-13, btol=1e-13, conlim=0.0, maxiter=20 * min(phi.shape))[0]
    else:
        dense = np.asarray(phi, dtype=np.float64)
        cutoff = max(dense.shape) * np.finfo(np.float64).eps
        coef = scipy.linalg.lstsq(dense, v, cond=cutoff, lapack_driver="gelsy")[0]
    return np.asarray(phi @ coef)
