"""What type checkers see of `sparsetd.control`, and where its public names are found when they are first used."""

from sparsetd.control.acting import Episode as Episode
from sparsetd.control.acting import online as online
from sparsetd.control.acting import rollout as rollout
from sparsetd.control.iteration import LinearValues as LinearValues
from sparsetd.control.iteration import PolicyIteration as PolicyIteration
from sparsetd.control.iteration import policy_iteration as policy_iteration
from sparsetd.control.learners import EstimatorLearner as EstimatorLearner
from sparsetd.control.learners import Learner as Learner
from sparsetd.control.learners import Step as Step
from sparsetd.control.policies import Rule as Rule
from sparsetd.control.policies import ValuePolicy as ValuePolicy
from sparsetd.control.policies import epsilon_greedy as epsilon_greedy
from sparsetd.control.policies import greedy as greedy
from sparsetd.control.policies import softmax as softmax
from sparsetd.control.policies import uniform as uniform
