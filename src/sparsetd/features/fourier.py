"""The Fourier basis of Konidaris, Osentoski and Thomas (2011)."""

from __future__ import annotations

import numpy as np

from sparsetd.features.base import Array, Bound, BoxFeatures, positive_integer, power, refuse_too_many


class Fourier(BoxFeatures):
    """Map a state to cosine waves of several frequencies: a basis for smooth values in few dimensions.

    φ_c(s) = cos(π c·u) for every c ∈ {0, …, order}ᵖ, with u the state scaled (and clipped) to the unit box.

    Konidaris et al. give coefficient c the step size α / ‖c‖₂ (and α for c = 0): the factors are `step_scale_`.
    Dividing the *feature* by √‖c‖ has the same effect on a TD step, where φ enters twice (once in the step, once in the
    value); that is `scaled=True`. With a penalty the two differ: the coefficient of a scaled feature is larger.

    Parameters
    ----------
    order : int
        Highest frequency per dimension; (order + 1)ᵖ features.
    low, high : float, sequence or None
        The box; learned in `fit` where None.
    coupling : int or None
        Keep only the c with at most this many non-zero entries: a basis that grows polynomially with the dimension.
    scaled : bool
        Whether features are divided by √‖c‖.

    Attributes
    ----------
    frequencies_ : array (n_features, p)
        The vectors c.
    step_scale_ : array (n_features,)
        1 / ‖c‖₂, and 1 for c = 0.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsetd.features import Fourier
    >>> states = np.array([[0.0, 0.0], [1.0, 2.0]])
    >>> waves = Fourier(order=1).fit(states)
    >>> waves.get_feature_names_out(['x', 'v']).tolist()
    ['1', 'cos(pi*(v))', 'cos(pi*(x))', 'cos(pi*(x+v))']
    >>> waves.transform(states).round(6)
    array([[ 1.,  1.,  1.,  1.],
           [ 1., -1., -1.,  1.]])
    """

    def __init__(
        self,
        order: int = 3,
        *,
        low: Bound = None,
        high: Bound = None,
        coupling: int | None = None,
        scaled: bool = False,
    ) -> None:
        self.order = order
        self.low = low
        self.high = high
        self.coupling = coupling
        self.scaled = scaled

    def _lay_out(self) -> None:
        order, p = positive_integer("order", self.order), self.n_features_in_
        coupling = p if self.coupling is None else positive_integer("coupling", self.coupling)
        refuse_too_many(power(order + 1, p), f"lower `order` for {p} dimensions", each=p)
        c = np.indices((order + 1,) * p).reshape(p, -1).T.copy()
        self.frequencies_ = c[(c > 0).sum(axis=1) <= coupling]
        norm = np.linalg.norm(self.frequencies_, axis=1)
        self.step_scale_ = 1.0 / np.where(norm > 0, norm, 1.0)

    def _features(self, u: Array) -> Array:
        phi = np.cos(np.pi * (np.clip(u, 0.0, 1.0) @ self.frequencies_.T))
        return phi * np.sqrt(self.step_scale_) if self.scaled else phi

    def _names(self, names: list[str]) -> list[str]:
        return [_wave(c, names) for c in self.frequencies_]


def _wave(c: Array, names: list[str]) -> str:
    terms = [name if k == 1 else f"{k}*{name}" for k, name in zip(c, names, strict=True) if k]
    return f"cos(pi*({'+'.join(terms)}))" if terms else "1"
