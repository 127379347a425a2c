"""
Which features carry the value?
===============================

Five of a hundred features make the value function. The regularization path shows them enter one by one as the penalty
falls, ``SparseTDSelect`` chooses some of them, and stability selection says which features would be chosen again.
"""

# %%
# A log of 3,000 transitions of a random process with five relevant features, and 95 columns of noise beside them.
import matplotlib.pyplot as plt
import numpy as np

from sparsetd import SparseTDSelect
from sparsetd.problems import random_mdp, with_noise_features
from sparsetd.selection import sparse_td_path, stability_selection

rng = np.random.default_rng(1)
mdp = random_mdp(rng, n_states=50, n_features=5, n_relevant=5, reward_noise=0.1)
log = with_noise_features(mdp.trajectory(3000, rng, horizon=20), n_noise=95, rng=rng)
columns = {"ratio": log.ratio, "discount": log.discount, "start": log.start}

# %%
# The path: one line per feature, the penalty falling from left to right. The largest weights carry their names.
path = sparse_td_path(log.phi, log.reward, log.phi_next, gamma=mdp.gamma, n_rhos=40, eps=0.05, **columns)
model = SparseTDSelect(gamma=mdp.gamma).fit(log.phi, log.reward, log.phi_next, **columns)

figure, axis = plt.subplots(figsize=(7, 4), layout="constrained")
path.plot(ax=axis)
axis.axvline(model.rho_theta_, color="black", linestyle="--", linewidth=1)
axis.annotate("chosen ", (model.rho_theta_, axis.get_ylim()[0]), ha="right", va="bottom")
axis.set_title("The regularization path")
plt.show()
print("chosen by SparseTDSelect:", np.flatnonzero(model.support_))

# %%
# Stability selection draws random halves of the episodes and counts how often each feature is chosen.
stable = stability_selection(
    log.phi, log.reward, log.phi_next, n_resamples=20, random_state=0, gamma=mdp.gamma, **columns
)
stable.plot()
plt.show()
print(stable)
