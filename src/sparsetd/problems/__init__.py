"""Problems with exact answers: P, r, ξ, V and the systems that the methods solve."""

from __future__ import annotations

from sparsetd._tools.lazy_names import refusing
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

__getattr__ = refusing(
    __name__,
    {
        "triple_link": "reproduction.triple_link_plant, in a clone of the repository",
        "triple_link_env": "reproduction.triple_link_env, in a clone of the repository",
    },
)
