"""Which h(x): every penalty is a frozen value with `value`, `prox` and, where it is separable, `shrinkage`."""

from __future__ import annotations

from sparsetd.penalties.base import Penalty
from sparsetd.penalties.custom import Custom
from sparsetd.penalties.elastic_net import ElasticNet
from sparsetd.penalties.group_l1 import GroupL1
from sparsetd.penalties.l1 import L1
from sparsetd.penalties.none import NoPenalty
from sparsetd.penalties.ridge import Ridge

__all__ = ["L1", "Custom", "ElasticNet", "GroupL1", "NoPenalty", "Penalty", "Ridge"]
