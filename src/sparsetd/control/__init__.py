"""From values to decisions: policies, policy iteration and online greedy control, as plain functions."""

from __future__ import annotations

from sparsetd._tools.lazy_names import refusing
from sparsetd.control.learners import EstimatorLearner, GreedyGQ, GreedyROGQ, Learner, Step
from sparsetd.control.online import Episode, evaluate, online, rollout
from sparsetd.control.policies import Rule, ValuePolicy, epsilon_greedy, greedy, softmax, uniform
from sparsetd.control.policy_iteration import LinearValues, PolicyIteration, policy_iteration

__all__ = [
    "Episode",
    "EstimatorLearner",
    "GreedyGQ",
    "GreedyROGQ",
    "Learner",
    "LinearValues",
    "PolicyIteration",
    "Rule",
    "Step",
    "ValuePolicy",
    "epsilon_greedy",
    "evaluate",
    "greedy",
    "online",
    "policy_iteration",
    "rollout",
    "softmax",
    "uniform",
]

__getattr__ = refusing(__name__)
