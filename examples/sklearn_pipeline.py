"""
Inside scikit-learn: a pipeline and a grid search
=================================================

The feature map and the estimator form one ``Pipeline``. scikit-learn's metadata routing carries the successor states
to both, and ``TDScorer`` scores the whole pipeline on held-out episodes by its projected Bellman error.

Needs ``pip install matplotlib gymnasium``.
"""

# %%
# 3,000 random pushes in mountain car; every episode starts at another place and speed.
import gymnasium
import matplotlib.pyplot as plt
import numpy as np
import sklearn
from sklearn.model_selection import GridSearchCV, GroupKFold
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

from sparsetd import LSTD
from sparsetd.control import uniform
from sparsetd.estimators import TDScorer
from sparsetd.features import RBFGrid
from sparsetd.logs import collect


class Anywhere(gymnasium.Wrapper):
    """Cars that start at any place and any speed."""

    def reset(self, **how):
        super().reset(**how)
        self.unwrapped.state = self.np_random.uniform([-1.2, -0.07], [0.5, 0.07])
        return np.array(self.unwrapped.state), {}


GAMMA = 0.9
env = Anywhere(gymnasium.make("MountainCar-v0", max_episode_steps=100))
log = collect(env, uniform(3), rng=0, n_steps=3000)
discount = np.where(log.terminated, 0.0, GAMMA)

# %%
# ``transform_input`` makes the pipeline transform the successors as it transforms the states. Whole episodes are held
# out.
with sklearn.config_context(enable_metadata_routing=True):
    estimator = LSTD(gamma=GAMMA).set_fit_request(X_next=True, discount=True, start=True)
    steps = [("scale", StandardScaler()), ("phi", RBFGrid((4, 4))), ("td", estimator)]
    pipeline = Pipeline(steps, transform_input=["X_next"])
    grid = {"phi__grids": [(2, 2), (3, 3), (6, 6)], "td__alpha": [1e-5, 1e-4, 1e-3, 1e-2]}
    search = GridSearchCV(pipeline, grid, scoring=TDScorer(GAMMA), cv=GroupKFold(3))
    columns = {"X_next": log.next_observation, "discount": discount, "start": log.start}
    search.fit(log.observation, log.reward, groups=log.episode, **columns)

print(f"best of {len(search.cv_results_['params'])}: {search.best_params_}, score {search.best_score_:.3f}")

# %%
# The score of every combination.
scores = search.cv_results_["mean_test_score"].reshape(3, 4)
figure, axis = plt.subplots(figsize=(6, 3.2), layout="constrained")
for sizes, line in zip(grid["phi__grids"], scores, strict=True):
    axis.plot(grid["td__alpha"], line, "o-", label=f"{sizes[0]} × {sizes[1]} bumps")
axis.set(xscale="log", xlabel="ridge", ylabel="held-out score", title="Grid search over a pipeline")
axis.legend(loc="center left", bbox_to_anchor=(1.01, 0.5))  # beside the curves
plt.show()
