"""Gaussian bumps on regular grids of several resolutions."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import numpy as np

from sparsetd.features.base import Array, Bound, BoxFeatures, positive_integer, power, refuse_too_many


class RBFGrid(BoxFeatures):
    """Map a state to Gaussian bumps on grids of several resolutions: a basis for local detail in few dimensions.

    φ_c(s) = exp(−½ ‖(u − c) / (width · spacing)‖²) for every centre c of every grid, and a constant.

    u is the state scaled to the unit box. A grid of g points per dimension has gᵖ centres from edge to edge, spaced by
    1/(g − 1). The default grids give 4 + 16 + 64 + 256 + 1024 + 1 = 1365 features in two dimensions, the paper's
    mountain-car basis (its width is not printed; `width` is the Gaussian's standard deviation in units of the spacing).

    Parameters
    ----------
    grids : sequence of int
        Points per dimension of each grid.
    width : float
        Standard deviation of a bump, as a multiple of its grid's spacing.
    low, high : float, sequence or None
        The box; learned in `fit` where None.
    constant : bool
        Whether the last feature is the constant 1.

    Attributes
    ----------
    centers_ : array (n_bumps, p)
        Centres in the units of the observation.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsetd.features import RBFGrid
    >>> bumps = RBFGrid(grids=(2, 3), low=0.0, high=1.0).fit(np.zeros((1, 1)))
    >>> bumps.get_feature_names_out(['x']).tolist()
    ['rbf2(x:0)', 'rbf2(x:1)', 'rbf3(x:0)', 'rbf3(x:1)', 'rbf3(x:2)', '1']
    >>> bumps.transform([[0.5]]).round(2)
    array([[0.88, 0.88, 0.61, 1.  , 0.61, 1.  ]])
    """

    def __init__(
        self,
        grids: Sequence[int] = (2, 4, 8, 16, 32),
        *,
        width: float = 1.0,
        low: Bound = None,
        high: Bound = None,
        constant: bool = True,
    ) -> None:
        self.grids = grids
        self.width = width
        self.low = low
        self.high = high
        self.constant = constant

    def _lay_out(self) -> None:
        p = self.n_features_in_
        grids = [positive_integer("grids", g) for g in self.grids]
        if not self.width > 0:
            raise ValueError(f"`width` must be positive, but it is {self.width!r}.")
        refuse_too_many(sum(power(g, p) for g in grids), f"use fewer or coarser grids in {p} dimensions", each=p)
        self._axes = [np.linspace(0, 1, g) if g > 1 else np.array([0.5]) for g in grids]
        unit = np.vstack([_points(axis, p) for axis in self._axes])
        self.centers_ = self.low_ + unit * (self.high_ - self.low_)

    def _features(self, u: Array) -> Array:
        blocks = [self._bumps(u, axis) for axis in self._axes]
        if self.constant:
            blocks.append(np.ones((len(u), 1)))
        return np.hstack(blocks)

    def _bumps(self, u: Array, axis: Array) -> Array:
        """A Gaussian of several dimensions is a product of one-dimensional ones: exp is taken g·p, not gᵖ, times."""
        spacing = 1.0 / max(len(axis) - 1, 1)
        one_dim = np.exp(-0.5 * ((u[:, :, None] - axis) / (self.width * spacing)) ** 2)
        out = np.ones((len(u), 1))
        for j in range(u.shape[1]):
            out = (out[:, :, None] * one_dim[:, j, None, :]).reshape(len(u), -1)
        return out

    def _names(self, names: list[str]) -> list[str]:
        out = []
        for axis in self._axes:
            for index in product(range(len(axis)), repeat=len(names)):
                where = ",".join(f"{name}:{i}" for name, i in zip(names, index, strict=True))
                out.append(f"rbf{len(axis)}({where})")
        return [*out, "1"] if self.constant else out


def _points(axis: Array, p: int) -> Array:
    """All points of a grid in p dimensions, the last coordinate running fastest."""
    return axis[np.indices((len(axis),) * p).reshape(p, -1).T]
