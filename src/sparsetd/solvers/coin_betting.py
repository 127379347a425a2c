"""Coin betting on each block: the learner inside PF-GTD."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sparsetd.solvers import plain
from sparsetd.solvers.adaptive import Automatic
from sparsetd.solvers.stream import Average
from sparsetd.system import Array


@dataclass(frozen=True)
class CoinBetting(Automatic):
    """Learns each block by betting on its gradients, without any step size: the learner inside PF-GTD.

    x_b = x_0 + βWu with g = (A_t x − b_t)_b, s = gᵀu, m = s/(1 − βs) for each block b separately, and

        A += m²   W −= sβW   β ← clip(β − 2m/((2 − ln 3)A), ±1/2h)   u ← Π₁(u − g/√(2Σ‖g‖²))

    A gambler bets the fraction β of a wealth W on the sign of the next outcome, in the direction u. A gradient that is
    longer than the largest norm h seen before is cut to it. The blocks share `wealth` equally. Published code starts u
    at random. Here u starts at 0, so that the result depends on the rows alone. The reported average is uniform.

    See also `DistanceOverGradients`: automatic steps that also take a penalty.

    References
    ----------
    Jacobsen & Chan (2021), Parameter-free gradient temporal difference learning.
    Cutkosky & Orabona (2018), Black-box reductions for parameter-free online learning in Banach spaces.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsetd import LinearTD, solvers
    >>> from sparsetd.problems import random_mdp
    >>> mdp = random_mdp(np.random.default_rng(0), n_features=10, n_relevant=2)
    >>> rows = mdp.sample(2000, np.random.default_rng(1))
    >>> model = LinearTD(gamma=0.9, operator='tdc', solver=solvers.CoinBetting())
    >>> model = model.fit(rows.phi, rows.reward, rows.phi_next)
    >>> np.sort(np.abs(model.coef_).argsort()[-2:]), np.flatnonzero(mdp.theta_star)
    (array([4, 5]), array([4, 5]))
    """

    average: Average = "all"
    wealth: float = 1.0
    hint: float = 1.0

    family = "coins"

    def more(self, x: Array) -> dict[str, Array]:
        coins = np.zeros((len(x), 5))
        coins[:, plain.WEALTH], coins[:, plain.HINT] = self.wealth / len(coins), self.hint
        return {"directions": np.zeros(x.shape, x.dtype), "coins": coins}
