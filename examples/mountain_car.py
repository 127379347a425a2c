"""
Mountain car: few radial basis functions out of many
====================================================

Grids of radial basis functions cover position and speed at several resolutions. LSTD uses them all; ``SparseTDSelect``
keeps those that held-out episodes ask for. Both are judged by their projected Bellman error on a fresh log, and the
value of pushing at random is drawn over the whole state space.

Needs ``pip install matplotlib gymnasium``.
"""

# %%
# Two logs of 3,000 random pushes each: one to learn from and one to judge by. The cars start anywhere, so
# that the logs cover the whole state space.
import gymnasium
import matplotlib.pyplot as plt
import numpy as np

from sparsetd import LSTD, SparseTDSelect, ValueFunction
from sparsetd.control import uniform
from sparsetd.features import RBFGrid, featurize
from sparsetd.logs import collect


class Anywhere(gymnasium.Wrapper):
    """Cars that start at any place and any speed."""

    def reset(self, **how):
        super().reset(**how)
        self.unwrapped.state = self.np_random.uniform([-1.2, -0.07], [0.5, 0.07])
        return np.array(self.unwrapped.state), {}


GAMMA = 0.95
env = Anywhere(gymnasium.make("MountainCar-v0"))
log, fresh = (collect(env, uniform(3), rng=seed, n_steps=3000) for seed in range(2))
estimators = {
    "LSTD": LSTD(gamma=GAMMA, alpha=1e-6, fit_intercept=True),
    "SparseTDSelect": SparseTDSelect(gamma=GAMMA, fit_intercept=True),
}

# %%
# ``ValueFunction`` joins a feature map and an estimator, and takes observations.
position, speed = np.meshgrid(np.linspace(-1.2, 0.6, 60), np.linspace(-0.07, 0.07, 60))
states = np.column_stack([position.ravel(), speed.ravel()])
figure, axes = plt.subplots(1, 2, figsize=(10, 4), sharey=True, layout="constrained")
for axis, (name, estimator) in zip(axes, estimators.items(), strict=True):
    model = ValueFunction(RBFGrid((2, 4, 8)), estimator).fit(log)
    rows = featurize(fresh, model.features_, GAMMA)
    score = model.estimator_.score(rows.phi, rows.reward, rows.phi_next, discount=rows.discount, start=rows.start)
    kept = np.count_nonzero(model.estimator_.coef_)
    print(f"{name:10s} {kept:3d} of {rows.n_features} features, held-out score {score:.4f}")
    shown = axis.pcolormesh(position, speed, model.value(states).reshape(position.shape), vmin=-20, vmax=-5)
    axis.set(xlabel="position", title=f"{name}: {kept} of {rows.n_features} features")
axes[0].set_ylabel("speed")
figure.colorbar(shown, ax=axes, label="value of pushing at random")
plt.show()
