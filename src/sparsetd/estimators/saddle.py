"""What RO-TD and RO-GQ(λ) share: their objective, and the ways to reach it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from sparsetd import penalties, solvers
from sparsetd.estimators.streaming import StreamingTD


@dataclass(kw_only=True, eq=False, repr=False)
class SaddleTD(StreamingTD):
    """min_x ‖Ax − b‖_m + ρ_θ‖θ‖₁ + ρ_w‖w‖₁, by the paper's saddle-point iteration.

    The averaged point converges (under a decaying step); the last one cycles. Averages are never exactly sparse: for
    exact zeros and a proof use `SparseTD`.

    Parameters
    ----------
    eta : float
        Weight of the rows of w. 1 is a good value; the paper's 10 makes the sampled iteration much noisier.
    rho_theta, rho_w : float
        ρ₁ and ρ₂ of the paper. If ρ_w/ρ_θ is small, w absorbs the residual in place of θ.
    fit_norm : {1, 2, "inf"}
        m. The dual ball has the conjugate norm, with its true Euclidean projection.
    extragradient : bool
        Mirror-Prox in place of the plain step; automatic steps always have a trial point.
    """

    average: Literal["all", "suffix", "none"] | None = "all"
    eta: float = 1.0
    rho_theta: float = 0.0
    rho_w: float = 0.0
    fit_norm: Literal[1, 2, "inf"] = 2
    extragradient: bool = False

    @property
    def _penalty(self) -> Any:
        return penalties.L1(self.rho_theta, self.rho_w)

    @property
    def _solver(self) -> Any:
        if self.fit_norm == "rmspbe":  # type: ignore[comparison-overlap]
            raise ValueError('fit_norm="rmspbe" needs C, which a stream does not form: use SparseTD, or fit_norm=2')
        if self._automatic and (self.rho_theta or self.rho_w):
            return solvers.DualAveraging(**self._streaming, fit_norm=self.fit_norm, sparse=False)
        if self._automatic:
            return solvers.SaddleDistanceOverGradients(**self._streaming, fit_norm=self.fit_norm)
        kind = solvers.SaddleMirrorProx if self.extragradient else solvers.PrimalDual
        return kind(**self._streaming, fit_norm=self.fit_norm)
