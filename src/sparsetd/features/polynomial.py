"""Monomials of the scaled state."""

from __future__ import annotations

from math import exp, lgamma

from sklearn.preprocessing import PolynomialFeatures

from sparsetd.features.base import Array, Bound, BoxFeatures, positive_integer, refuse_too_many


class Polynomial(BoxFeatures):
    """Map a state to all products of its numbers up to a degree: a basis for values that curve gently.

    All monomials Π_j v_j^{k_j} with Σ_j k_j ≤ degree of the state scaled to v ∈ [−1, 1]ᵖ.

    Scaling keeps high powers of the same size as low ones, without which the least-squares systems are hopelessly
    conditioned. scikit-learn's `PolynomialFeatures` does the rest.

    Parameters
    ----------
    degree : int
    low, high : float, sequence or None
        The box; learned in `fit` where None.
    constant : bool
        Whether the first feature is the constant 1.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsetd.features import Polynomial
    >>> states = np.array([[0.0, 10.0], [4.0, 30.0]])
    >>> powers = Polynomial(degree=2).fit(states)
    >>> powers.get_feature_names_out(['x', 'v']).tolist()
    ['1', 'x', 'v', 'x^2', 'x v', 'v^2']
    >>> powers.transform([[3.0, 20.0]])
    array([[1.  , 0.5 , 0.  , 0.25, 0.  , 0.  ]])
    """

    def __init__(self, degree: int = 2, *, low: Bound = None, high: Bound = None, constant: bool = True) -> None:
        self.degree = degree
        self.low = low
        self.high = high
        self.constant = constant

    def _lay_out(self) -> None:
        degree, p = positive_integer("degree", self.degree), self.n_features_in_
        count = lgamma(p + degree + 1) - lgamma(p + 1) - lgamma(degree + 1)  # the logarithm of (p + degree over p)
        refuse_too_many(exp(min(count, 700)), f"lower `degree` for {p} dimensions")
        self._powers = PolynomialFeatures(degree, include_bias=self.constant).fit(self.low_[None])

    def _features(self, u: Array) -> Array:
        return self._powers.transform(2.0 * u - 1.0)

    def _names(self, names: list[str]) -> list[str]:
        return list(self._powers.get_feature_names_out(names))
