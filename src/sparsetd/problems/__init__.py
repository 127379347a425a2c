"""Problems with exact answers: P, r, ξ, V and the systems that the methods solve."""

from __future__ import annotations

from sparsetd._tools.lazy_names import refusing
from sparsetd.problems.finite import FiniteMDP
from sparsetd.problems.worlds import boyan_chain, random_mdp, random_walk, star, with_noise_features

__all__ = ["FiniteMDP", "boyan_chain", "random_mdp", "random_walk", "star", "with_noise_features"]

# Problems that only the experiments or the benchmarks use moved there.
_MOVED = {
    "reproduction.mountain_car_world": "mountain_car",
    "reproduction.triple_link_plant": "triple_link",
    "reproduction.triple_link_env": "triple_link_env",
    "reproduction.action_values": "state_action action_value_trajectory",
    "benchmarks.gym_mdp": "gym_mdp",
}
__getattr__ = refusing(
    __name__,
    {name: f"{home}, in a clone of the repository" for home, names in _MOVED.items() for name in names.split()},
)
