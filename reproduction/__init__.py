"""Every experiment of the paper, one file each."""

from __future__ import annotations

from reproduction.complexity import COMPLEXITY
from reproduction.experiment import Experiment
from reproduction.interpolation import INTERPOLATION
from reproduction.mountain_car import MOUNTAIN_CAR
from reproduction.mountain_car_actor_critic import ACTOR_CRITIC
from reproduction.mountain_car_atlas import ATLAS
from reproduction.proposition_1 import PROPOSITION_1
from reproduction.random_walk import RANDOM_WALK
from reproduction.star import STAR
from reproduction.triple_link import TRIPLE_LINK
from reproduction.triple_link_search import SEARCH

EXPERIMENTS: dict[str, Experiment] = {
    e.name: e for e in (STAR, RANDOM_WALK, MOUNTAIN_CAR, TRIPLE_LINK, COMPLEXITY, INTERPOLATION, PROPOSITION_1)
}
# Larger relatives, run only when they are asked for.
LARGER: dict[str, Experiment] = {e.name: e for e in (ATLAS, SEARCH, ACTOR_CRITIC)}

__all__ = ["EXPERIMENTS", "LARGER", "Experiment"]
