"""Problems with exact answers: P, r, ξ, V and the systems that the methods solve."""

from __future__ import annotations

from sparsetd._tools.lazy_names import refusing
from sparsetd.problems.finite import FiniteMDP, action_value_trajectory, state_action
from sparsetd.problems.worlds import boyan_chain, gym_mdp, random_mdp, random_walk, star, with_noise_features

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
