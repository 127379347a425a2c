"""Problems with exact answers: P, r, ξ, V and the systems that the methods solve."""

from __future__ import annotations

from sparsetd._tools.lazy_names import refusing
from sparsetd.problems.finite import FiniteMDP
from sparsetd.problems.worlds import boyan_chain, random_mdp, random_walk, star, with_noise_features

__all__ = ["FiniteMDP", "boyan_chain", "random_mdp", "random_walk", "star", "with_noise_features"]

__getattr__ = refusing(__name__)
