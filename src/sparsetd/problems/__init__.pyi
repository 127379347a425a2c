"""What type checkers see of `sparsetd.problems`, and where its public names are found when they are first used."""

from sparsetd.problems.finite import FiniteMDP as FiniteMDP
from sparsetd.problems.worlds import boyan_chain as boyan_chain
from sparsetd.problems.worlds import random_mdp as random_mdp
from sparsetd.problems.worlds import random_walk as random_walk
from sparsetd.problems.worlds import star as star
from sparsetd.problems.worlds import with_noise_features as with_noise_features
