"""Problems with exact answers: P, r, ξ, V and the systems that the methods solve."""

from __future__ import annotations

from sparsetd.problems.boyan import boyan_chain
from sparsetd.problems.finite import FiniteMDP
from sparsetd.problems.gym_tables import gym_mdp
from sparsetd.problems.random_mdp import random_mdp, with_noise_features
from sparsetd.problems.random_walk import random_walk
from sparsetd.problems.star import star

__all__ = ["FiniteMDP", "boyan_chain", "gym_mdp", "random_mdp", "random_walk", "star", "with_noise_features"]
