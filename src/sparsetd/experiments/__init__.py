"""Every experiment of the paper, one file each."""

from __future__ import annotations

from sparsetd.experiments.experiment import Experiment
from sparsetd.experiments.random_walk import RANDOM_WALK
from sparsetd.experiments.star import STAR

EXPERIMENTS: dict[str, Experiment] = {e.name: e for e in (STAR, RANDOM_WALK)}

__all__ = ["EXPERIMENTS", "Experiment"]
