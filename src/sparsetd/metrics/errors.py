"""Errors of a value function V_θ = φᵀθ, from data and exactly.

The errors are functions of the expected update g(θ) = E[δ e], with the ratio in the trace e (e = ρφ without traces).
From data they take a `Batch`. Without sampling they take anything that has A, b and C, as a `FiniteMDP` has.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from scipy.sparse.linalg import lsmr
from sklearn.exceptions import ConvergenceWarning

from sparsetd.solvers.saddle import inverse_root
from sparsetd.system import Array, Batch, Table, Trace, TraceCarry, recurrence, trace_weights

MOST_STEPS = 2000  # of LSMR: on 65,536 hashed rows so many take a minute, and 35 are enough
NOT_YET = 7  # LSMR's code for an end without convergence

# --- from data --------------------------------------------------------------------------------------------------------


def td_errors(batch: Batch, theta: Array) -> Array:
    """Return the TD error of every row, without its ratio.

    δ_t = r_t + γ_t φ'_tᵀθ − φ_tᵀθ.

    >>> import numpy as np
    >>> from sparsetd.problems import random_walk
    >>> batch = random_walk().trajectory(1000, np.random.default_rng(0))
    >>> td_errors(batch, np.zeros(5)).shape
    (1000,)
    """
    return np.asarray(batch.reward + batch.discount * (batch.phi_next @ theta) - batch.phi @ theta)


def mspbe(batch: Batch, theta: Array, *, lam: float = 0.0, trace: Trace = "state") -> float:
    """Return the mean squared projected Bellman error: what TDC and GTD2 minimise, and zero for LSTD.

    MSPBE(θ) = gᵀC⁺g with g = (1/N) Σ δ_t e_t and C = (1/N) Σ φ_t φ_tᵀ: equation mspbe; eq:gqObj with traces.

    Since Σ_t δ_t e_t = Φᵀv with v_t = c_t z_t, z_t = δ_t + d_{t+1} z_{t+1} and (c, d) the weights of the trace, this is
    ‖Π_Φ v‖²/N with Π_Φ the projection on the columns of Φ. Least squares compute it: C is never formed, and
    features may be collinear. Without traces v = ρδ.

    >>> import numpy as np
    >>> from sparsetd.problems import random_walk
    >>> batch = random_walk().trajectory(1000, np.random.default_rng(0))
    >>> from sparsetd import LSTD
    >>> theta = LSTD().fit(batch.phi, batch.reward, batch.phi_next, discount=batch.discount).coef_
    >>> mspbe(batch, theta) < 1e-12 < mspbe(batch, np.zeros(5))  # LSTD is its zero
    True
    """
    v = corrections(batch, theta, lam, trace)
    fitted = project_on_columns(batch.phi, v)
    return float(fitted @ fitted) / len(batch)


def rmspbe(batch: Batch, theta: Array, *, lam: float = 0.0, trace: Trace = "state") -> float:
    """Return the root of the mean squared projected Bellman error: the usual measure of learning curves.

    RMSPBE(θ) = √MSPBE(θ), in the units of the reward.

    >>> import numpy as np
    >>> from sparsetd.problems import random_walk
    >>> batch = random_walk().trajectory(1000, np.random.default_rng(0))
    >>> theta = np.ones(5)
    >>> bool(np.isclose(rmspbe(batch, theta) ** 2, mspbe(batch, theta)))
    True
    """
    return float(np.sqrt(mspbe(batch, theta, lam=lam, trace=trace)))


def neu(batch: Batch, theta: Array, *, lam: float = 0.0, trace: Trace = "state") -> float:
    """Return the squared norm of the expected update: unlike the MSPBE, it depends on the scale of the features.

    NEU(θ) = ‖g‖²: the MSPBE without the C⁺ that makes it free of scale.

    >>> import numpy as np
    >>> from sparsetd.problems import random_walk
    >>> batch = random_walk().trajectory(1000, np.random.default_rng(0))
    >>> g = batch.phi.T @ td_errors(batch, np.ones(5)) / len(batch)
    >>> bool(np.isclose(neu(batch, np.ones(5)), g @ g))
    True
    """
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
        # Scaling columns to length 1 and dropping empty ones does not change what they span. Unscaled, a common feature
        # has a column hundreds of times as long as a rare one; the larger this ratio, the more steps LSMR needs, and
        # on hashed rows it would not end.
        phi = sp.csr_array(phi)
        length = np.sqrt(np.bincount(phi.indices, phi.data**2, minlength=phi.shape[1]))
        place = np.cumsum(length > 0) - 1
        entries = phi.data / np.where(length > 0, length, 1.0)[phi.indices]
        shape = phi.shape[0], max(place[-1] + 1, 1)
        phi = sp.csr_array((entries, place[phi.indices].clip(0), phi.indptr), shape=shape)
        coef, ended, *_ = lsmr(phi, v, atol=1e-13, btol=1e-13, conlim=0.0, maxiter=min(20 * min(phi.shape), MOST_STEPS))
        if ended == NOT_YET:
            why = "the features nearly depend on one another"
            what = f"The projected error is only known from below after {MOST_STEPS:,} steps of LSMR: {why}."
            warnings.warn(what, ConvergenceWarning, stacklevel=2)
    else:
        dense = np.asarray(phi, dtype=np.float64)
        cutoff = max(dense.shape) * np.finfo(np.float64).eps
        coef = scipy.linalg.lstsq(dense, v, cond=cutoff, lapack_driver="gelsy")[0]
    return np.asarray(phi @ coef)


# --- without sampling ------------------------------------------------------------------------------------------------


# A known problem has A = ΦᵀΞ(I − γP)Φ, b = ΦᵀΞR and C = ΦᵀΞΦ, or the true V as `value`, the `features`
# of the states and their weights `xi`.
Known = Any


def exact_mspbe(problem: Known, theta: Array) -> float:
    """Return the mean squared projected Bellman error of a known problem.

    MSPBE(θ) = (b − Aθ)ᵀ C⁺ (b − Aθ) = ‖Φθ − ΠT(Φθ)‖²_Ξ; C⁺ because collinear features (the star) make C singular.

    >>> import numpy as np
    >>> from sparsetd.problems import random_walk
    >>> walk = random_walk(gamma=0.9)
    >>> exact_mspbe(walk, np.linalg.solve(walk.A, walk.b)) < 1e-12
    True
    """
    g = inverse_root(problem.C, len(problem.C) * np.finfo(np.float64).eps) @ (problem.b - problem.A @ theta)
    return float(g @ g)


def exact_rmspbe(problem: Known, theta: Array) -> float:
    """Return the root of the mean squared projected Bellman error of a known problem.

    >>> import numpy as np
    >>> from sparsetd.problems import star
    >>> problem = star()
    >>> round(exact_rmspbe(problem, problem.theta0), 4)
    8.2214
    """
    return float(np.sqrt(exact_mspbe(problem, theta)))


def exact_neu(problem: Known, theta: Array) -> float:
    """Return the squared norm of the expected update of a known problem.

    NEU(θ) = ‖b − Aθ‖².

    >>> import numpy as np
    >>> from sparsetd.problems import random_walk
    >>> walk = random_walk(gamma=0.9)
    >>> bool(np.isclose(exact_neu(walk, np.zeros(5)), walk.b @ walk.b))
    True
    """
    g = problem.b - problem.A @ theta
    return float(g @ g)


def value_error(problem: Known, theta: Array) -> float:
    """Return the distance between learnt and true values of a known problem, weighted by how often states are visited.

    ‖Φθ − V‖_Ξ = √Σ_s ξ(s)(φ(s)ᵀθ − V(s))².

    >>> import numpy as np
    >>> from sparsetd.problems import random_walk
    >>> walk = random_walk(gamma=0.9)
    >>> value_error(walk, np.linalg.solve(walk.A, walk.b)) < 1e-12  # a table of states can be right
    True
    """
    return float(np.sqrt(problem.xi @ (problem.features @ theta - problem.value) ** 2))
