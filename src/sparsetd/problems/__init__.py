"""Problems with exact answers: P, r, ξ, V and the systems that the methods solve."""

from __future__ import annotations

from sparsetd.problems.chains import boyan_chain, random_walk, star
from sparsetd.problems.finite import FiniteMDP
from sparsetd.problems.gym_tables import gym_mdp
from sparsetd.problems.random_mdp import random_mdp, with_noise_features
from sparsetd.problems.sampling import action_value_trajectory, state_action

__all__ = [
    "FiniteMDP",
    "action_value_trajectory",
    "boyan_chain",
    "gym_mdp",
    "random_mdp",
    "random_walk",
    "star",
    "state_action",
    "with_noise_features",
]
