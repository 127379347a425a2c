"""`SparseTDSelect` by itself: does its support depend on the order of episodes, or on the units of the columns?"""

from __future__ import annotations

import numpy as np

from benchmarks.trust.case import Case
from benchmarks.trust.names import f1, jaccard, originals
from sparsetd import SparseTDSelect
from sparsetd.logs import Transitions


def probed(case: Case, permuted: Transitions, rescaled: Transitions) -> dict[str, float]:
    """F1 of the support, and its Jaccard index with that of the same log permuted and rescaled."""
    own = support(case.log, case.gamma)
    return {
        "f1": f1(own, set(case.relevant or ())),
        "permuted": jaccard(own, support(permuted, case.gamma)),
        "rescaled": jaccard(own, support(rescaled, case.gamma)),
    }


def support(log: Transitions, gamma: float) -> set[str]:
    """What the default estimator keeps of the columns as they come."""
    model = SparseTDSelect(gamma=gamma, fit_intercept=True)
    discount = gamma * ~log.terminated
    columns = {"ratio": log.importance_ratio(), "discount": discount, "start": log.start}
    model.fit(log.observation, log.reward, log.next_observation, **columns)
    return originals([(log.names or ())[j] for j in np.flatnonzero(model.support_)])
