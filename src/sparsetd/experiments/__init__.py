"""Every experiment of the paper, one file each."""

from __future__ import annotations

from sparsetd.experiments.complexity import COMPLEXITY
from sparsetd.experiments.experiment import Experiment
from sparsetd.experiments.interpolation import INTERPOLATION
from sparsetd.experiments.mountain_car import MOUNTAIN_CAR
from sparsetd.experiments.mountain_car_actor_critic import ACTOR_CRITIC
from sparsetd.experiments.mountain_car_atlas import ATLAS
from sparsetd.experiments.proposition_1 import PROPOSITION_1
from sparsetd.experiments.random_walk import RANDOM_WALK
from sparsetd.experiments.star import STAR
from sparsetd.experiments.triple_link import TRIPLE_LINK
from sparsetd.experiments.triple_link_search import SEARCH

EXPERIMENTS: dict[str, Experiment] = {
    e.name: e for e in (STAR, RANDOM_WALK, MOUNTAIN_CAR, TRIPLE_LINK, COMPLEXITY, INTERPOLATION, PROPOSITION_1)
}
# Larger relatives, run only when they are asked for.
LARGER: dict[str, Experiment] = {e.name: e for e in (ATLAS, SEARCH, ACTOR_CRITIC)}

__all__ = ["EXPERIMENTS", "LARGER", "Experiment"]
