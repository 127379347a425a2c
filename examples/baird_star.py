"""
TD diverges off-policy, and what to use instead
===============================================

Baird's star has seven states whose values are all zero. The behaviour policy hardly ever does what the target policy
does. TD runs away from the answer; TDC and RO-TD come close to it. No step size is chosen here: all steps are
automatic.
"""

# %%
# The star starts from weights that are far off (``mdp.theta0``). Without ``coef_init`` every method would start at
# the exact answer, zero, and there would be nothing to see.
import warnings

import matplotlib.pyplot as plt
import numpy as np

from sparsetd import ROTD, TD, TDC
from sparsetd.estimators import DivergenceWarning
from sparsetd.metrics import exact_rmspbe
from sparsetd.problems import star

mdp = star()
log = mdp.trajectory(60_000, np.random.default_rng(0))
seen = np.unique(np.geomspace(100, len(log), 40).astype(int))


def learning_curve(model):
    """The exact error of the model after so many transitions."""
    errors, first = [], 0
    for last in seen:
        part = log[first:last]
        model.partial_fit(part.phi, part.reward, part.phi_next, ratio=part.ratio)
        errors.append(exact_rmspbe(mdp, model.coef_))
        first = last
    return errors


# %%
# A diverging method warns and says so in ``status_``. We expect it of TD, so the warning is silenced here.
figure, axis = plt.subplots(figsize=(7, 4), layout="constrained")
for estimator in (TD, TDC, ROTD):
    model = estimator(gamma=mdp.gamma, coef_init=mdp.theta0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DivergenceWarning)
        errors = learning_curve(model)
    axis.plot(seen, errors, label=estimator.__name__, linewidth=2)
    print(f"{estimator.__name__:5s} {model.status_:9s} error {errors[-1]:.3g}")

axis.set(xscale="log", yscale="log", ylim=(1e-3, 1e6), xlabel="transitions seen", ylabel="exact error (RMSPBE)")
axis.legend(loc="center left", bbox_to_anchor=(1.01, 0.5))  # beside the curves
plt.show()
