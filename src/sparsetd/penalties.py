"""The penalties h(x). Each is a frozen value with `value`, `prox` and, if it is separable, `shrinkage`.

`prox` defines the penalty, and the tests compare the solvers with it. Compiled solvers read `shrinkage` and apply the
same map themselves.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from sparsetd.system import Array

__all__ = ["L1", "Custom", "ElasticNet", "GroupL1", "NoPenalty", "Penalty", "Ridge"]


@runtime_checkable
class Penalty(Protocol):
    """The interface of a penalty: its value, its proximal map and, if it is separable, its shrinkage.

    h(x) is a function of x = [w; θ], which has shape (k, d) and θ as its last block.

    `factor` multiplies the penalty feature by feature; 0 leaves a feature unpenalised.

    Examples
    --------
    >>> from sparsetd.penalties import L1, Penalty
    >>> isinstance(L1(0.1), Penalty)
    True
    """

    def value(self, x: Array, factor: Array | None = None) -> float:
        """Return h(x)."""
        ...

    def prox(self, x: Array, step: float, factor: Array | None = None) -> Array:
        """Return argmin_u h(u) + ‖u − x‖²/(2 step)."""
        ...

    def shrinkage(self, n_blocks: int) -> tuple[Array, Array] | None:
        """Return (l1, l2), one number per block, if h(x) = Σ_b l1_b‖x_b‖₁ + ½ l2_b‖x_b‖²; None otherwise."""
        ...


def blockwise(rho_theta: float, rho_w: float, n_blocks: int) -> Array:
    """Return the weights in the order of the blocks: [ρ_θ] or [ρ_w, ρ_θ]."""
    return np.array([rho_w, rho_theta])[-n_blocks:]


def soft_threshold(v: Array, threshold: Array | float) -> Array:
    """Move every entry towards zero by the threshold, S_τ(v) = max(v − τ, 0) − max(−v − τ, 0)."""
    return np.asarray(np.maximum(v - threshold, 0.0) - np.maximum(-v - threshold, 0.0))


class Separable:
    """A penalty that treats entries one by one; a subclass states the weights l1 and l2 of each block.

    h(x) = Σ_b l1_b‖x_b‖₁ + ½ l2_b‖x_b‖²
    """

    def shrinkage(self, n_blocks: int) -> tuple[Array, Array]:
        raise NotImplementedError

    def value(self, x: Array, factor: Array | None = None) -> float:
        l1, l2 = self.shrinkage(len(x))
        weight = np.ones(x.shape[1]) if factor is None else factor
        return float(l1 @ (np.abs(x) @ weight) + 0.5 * l2 @ (x**2 @ weight))

    def prox(self, x: Array, step: float, factor: Array | None = None) -> Array:
        l1, l2 = self.shrinkage(len(x))
        weight = np.ones(x.shape[1]) if factor is None else factor
        threshold, shrink = step * np.outer(l1, weight), 1.0 + step * np.outer(l2, weight)
        return np.asarray(soft_threshold(x, threshold) / shrink)


@dataclass(frozen=True)
class NoPenalty(Separable):
    """No penalty: the proximal map leaves everything as it is.

    h(x) = 0.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsetd.penalties import NoPenalty
    >>> NoPenalty().prox(np.array([[3.0, -0.5]]), step=1.0)
    array([[ 3. , -0.5]])
    """

    def shrinkage(self, n_blocks: int) -> tuple[Array, Array]:
        return np.zeros(n_blocks), np.zeros(n_blocks)


@dataclass(frozen=True)
class Ridge(Separable):
    """The quadratic penalty: it shrinks all weights and makes none of them zero.

    h(x) = ½ρ_θ‖θ‖² + ½ρ_w‖w‖².

    Examples
    --------
    >>> import numpy as np
    >>> from sparsetd.penalties import Ridge
    >>> Ridge(1.0).prox(np.array([[3.0, -0.5]]), step=1.0)
    array([[ 1.5 , -0.25]])
    """

    rho_theta: float
    rho_w: float = 0.0

    def shrinkage(self, n_blocks: int) -> tuple[Array, Array]:
        return np.zeros(n_blocks), blockwise(self.rho_theta, self.rho_w, n_blocks)


@dataclass(frozen=True)
class L1(Separable):
    """The sparsity penalty: it makes small weights exactly zero, with separate strengths for θ and w.

    h(x) = ρ_θ‖θ‖₁ + ρ_w‖w‖₁; its prox is one soft threshold per block (`twothreshold`).

    Examples
    --------
    >>> import numpy as np
    >>> from sparsetd.penalties import L1
    >>> L1(1.0).prox(np.array([[3.0, -0.5]]), step=1.0)
    array([[2., 0.]])
    """

    rho_theta: float
    rho_w: float = 0.0

    def shrinkage(self, n_blocks: int) -> tuple[Array, Array]:
        return blockwise(self.rho_theta, self.rho_w, n_blocks), np.zeros(n_blocks)


@dataclass(frozen=True)
class ElasticNet(Separable):
    """Sparsity and shrinkage together: related features enter together instead of excluding one another.

    h(x) = Σ_b ρ_b (κ‖x_b‖₁ + ½(1 − κ)‖x_b‖²), with κ = `l1_ratio`: 1 is L1, 0 is ridge.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsetd.penalties import ElasticNet
    >>> ElasticNet(1.0, l1_ratio=0.5).prox(np.array([[3.0, -0.5]]), step=1.0).round(3)
    array([[1.667, 0.   ]])
    """

    rho_theta: float
    rho_w: float = 0.0
    l1_ratio: float = 0.5

    def shrinkage(self, n_blocks: int) -> tuple[Array, Array]:
        rho = blockwise(self.rho_theta, self.rho_w, n_blocks)
        return self.l1_ratio * rho, (1.0 - self.l1_ratio) * rho


@dataclass(frozen=True, eq=False)
class GroupL1:
    """The group penalty: features of one group enter or leave together.

    h(x) = Σ_b ρ_b Σ_g √|g| ‖x_{b,g}‖₂, where `groups[j]` is the number of feature j's group.

    The factor of a group is the mean of its features' factors, so a group is unpenalised if all of these are 0.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsetd.penalties import GroupL1
    >>> GroupL1(np.array([0, 0, 1]), 1.0).prox(np.array([[3.0, 4.0, 0.5]]), step=1.0).round(2)
    array([[2.15, 2.87, 0.  ]])
    """

    groups: Array
    rho_theta: float
    rho_w: float = 0.0

    def weights(self, factor: Array | None = None) -> Array:
        """√|g| times the mean factor of each group."""
        size = np.bincount(self.groups)
        mean = 1.0 if factor is None else np.bincount(self.groups, factor) / np.maximum(size, 1)
        return np.asarray(np.sqrt(size) * mean)

    def group_weights(self, n_blocks: int, factor: Array | None = None) -> Array:
        """ρ_b √|g| of every block and group, shape (k, number of groups)."""
        return np.outer(blockwise(self.rho_theta, self.rho_w, n_blocks), self.weights(factor))

    def norms(self, x: Array) -> Array:
        """‖x_{b,g}‖₂ of every block and group, shape (k, number of groups)."""
        return np.sqrt([np.bincount(self.groups, row**2) for row in x])

    def value(self, x: Array, factor: Array | None = None) -> float:
        return float(np.sum(self.group_weights(len(x), factor) * self.norms(x)))

    def prox(self, x: Array, step: float, factor: Array | None = None) -> Array:
        """Scale each group by max(0, 1 − step ρ_b √|g| / ‖x_{b,g}‖)."""
        norms, threshold = self.norms(x), step * self.group_weights(len(x), factor)
        scale = np.maximum(1.0 - threshold / np.where(norms > 0, norms, 1.0), 0.0)
        return np.asarray(x * scale[:, self.groups])

    def shrinkage(self, n_blocks: int) -> None:  # noqa: ARG002 (the protocol's signature; not separable for any k)
        return None


@dataclass(frozen=True)
class Custom:
    """A penalty of your own, given by its proximal map.

    `prox_function(x, step)` returns argmin_u h(u) + ‖u − x‖²/(2 step) for x of shape (k, d).

    The solvers then call Python once per step, which takes some microseconds. Only metrics need `value_function(x)`.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsetd.penalties import Custom
    >>> nonnegative = Custom(lambda x, step: np.maximum(x, 0.0))
    >>> nonnegative.prox(np.array([[3.0, -0.5]]), step=1.0)
    array([[3., 0.]])
    """

    prox_function: Callable[[Array, float], Array]
    value_function: Callable[[Array], float] | None = None

    def value(self, x: Array, factor: Array | None = None) -> float:
        self._without(factor)
        if self.value_function is None:
            raise ValueError("this penalty has no value: pass value_function=h to Custom")
        return float(self.value_function(x))

    def prox(self, x: Array, step: float, factor: Array | None = None) -> Array:
        self._without(factor)
        return np.asarray(self.prox_function(x, step))

    def shrinkage(self, n_blocks: int) -> None:  # noqa: ARG002 (the protocol's signature; unknown for any k)
        return None

    @staticmethod
    def _without(factor: Array | None) -> None:
        if factor is not None:
            raise ValueError("a Custom penalty treats every feature alike: leave features unpenalised inside its prox")
