"""Tile coding: several shifted grids, of which each state lights one tile per grid."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import scipy.sparse as sp

from sparsetd.features.base import Array, Bound, BoxFeatures, positive_integer, refuse_too_many

_MIX = (np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))


class TileCoding(BoxFeatures):
    """Map a state to the tiles it lies in, one of each shifted grid: sparse rows, for values that are rough.

    φ_i(s) = 1 if s lies in tile i, else 0: a CSR row with exactly `n_tilings` ones.

    Tiling t is shifted in dimension j by ((2j + 1) t mod n_tilings) / n_tilings of a tile (Miller and Glanz, 1996), to
    spread the corners better than equal shifts. States outside the box are clipped to it. The tiles of a tiling have
    columns of their own, also when hashed: two tilings never collide, so rows stay binary and sorted.

    Parameters
    ----------
    n_tilings : int
    n_tiles : int or sequence of int
        Tiles per dimension (a shifted tiling needs one more to cover the box).
    low, high : float, sequence or None
        The box; learned in `fit` where None.
    hash_size : int or None
        Total number of columns the tiles are hashed to; None gives every tile its own.

    Attributes
    ----------
    n_features_out_ : int

    Examples
    --------
    >>> from sparsetd.features import TileCoding
    >>> tiles = TileCoding(n_tilings=4, n_tiles=8, low=[0, 0], high=[1, 1]).fit([[0.0, 0.0]])
    >>> rows = tiles.transform([[0.2, 0.7], [0.9, 0.1]])
    >>> rows.shape
    (2, 324)
    >>> rows.sum(axis=1)
    array([4., 4.])
    """

    def __init__(
        self,
        n_tilings: int = 8,
        n_tiles: int | Sequence[int] = 8,
        *,
        low: Bound = None,
        high: Bound = None,
        hash_size: int | None = None,
    ) -> None:
        self.n_tilings = n_tilings
        self.n_tiles = n_tiles
        self.low = low
        self.high = high
        self.hash_size = hash_size

    def _lay_out(self) -> None:
        t, p = positive_integer("n_tilings", self.n_tilings), self.n_features_in_
        refuse_too_many(t, "use fewer tilings", each=p)
        given = [self.n_tiles] * p if np.ndim(self.n_tiles) == 0 else list(np.ravel(self.n_tiles))
        if len(given) != p:
            raise ValueError(f"`n_tiles` must be a number or {p} numbers, one per column, but it is {self.n_tiles!r}.")
        self._tiles = np.array([positive_integer("n_tiles", g) for g in given])
        shift = np.outer(np.arange(t), 2 * np.arange(p) + 1) % t
        self._shift = shift / t
        with np.errstate(over="ignore"):
            cells = np.prod(self._tiles + 1.0)
        if self.hash_size is not None:
            per_tiling = positive_integer("hash_size", self.hash_size) // t
            if per_tiling == 0:
                raise ValueError(f"`hash_size` must be at least n_tilings = {t}, but it is {self.hash_size}.")
            if t * per_tiling > np.iinfo(np.int32).max:
                raise ValueError(f"`hash_size` must be below 2**31, but it is {self.hash_size}.")
        refuse_too_many(float(t * cells if self.hash_size is None else 0), "hash them with `hash_size`")
        self._per_tiling = int(cells) if self.hash_size is None else per_tiling
        self.n_features_out_ = t * self._per_tiling

    def _features(self, u: Array) -> sp.csr_array:
        n, t = len(u), len(self._shift)
        scaled = np.clip(u, 0.0, 1.0) * self._tiles
        cell = np.floor(scaled[:, None, :] + self._shift).astype(np.int64)
        tile = self._hashed(cell) if self.hash_size is not None else self._numbered(cell)
        indices = (tile + np.arange(t) * self._per_tiling).ravel().astype(np.int32)
        indptr = np.arange(0, n * t + 1, t, dtype=np.int32)
        return sp.csr_array((np.ones(n * t), indices, indptr), shape=(n, self.n_features_out_))

    def _numbered(self, cell: Array) -> Array:
        return np.asarray(np.ravel_multi_index(tuple(np.moveaxis(cell, 2, 0)), tuple(self._tiles + 1)))

    def _hashed(self, cell: Array) -> Array:
        """splitmix64 over the coordinates, a different stream for every tiling."""
        h = np.broadcast_to(_mix(np.arange(cell.shape[1], dtype=np.uint64)), cell.shape[:2])
        for j in range(cell.shape[2]):
            h = _mix(h ^ cell[:, :, j].astype(np.uint64))
        return (h % np.uint64(self._per_tiling)).astype(np.int64)

    def _names(self, names: list[str]) -> list[str]:  # noqa: ARG002
        return [f"tile{i // self._per_tiling}_{i % self._per_tiling}" for i in range(self.n_features_out_)]


def _mix(h: Array) -> Array:
    with np.errstate(over="ignore"):
        h = h + _MIX[0]
        h = (h ^ (h >> np.uint64(30))) * _MIX[1]
        h = (h ^ (h >> np.uint64(27))) * _MIX[2]
    return h ^ (h >> np.uint64(31))
