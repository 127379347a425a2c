"""
From a log to Minari and back
=============================

Minari stores datasets of episodes. It has no standard field for propensities, so they travel in ``infos``.

Needs ``pip install matplotlib "minari[hdf5]"``.
"""

# %%
# Twenty episodes of mountain car become twenty episode buffers: T + 1 observations for T steps.
import os
import tempfile
import warnings

import gymnasium
import matplotlib.pyplot as plt
import minari
import numpy as np
from gymnasium import spaces
from minari.data_collector.episode_buffer import EpisodeBuffer

from sparsetd import evaluate
from sparsetd.control import uniform
from sparsetd.logs import collect, read

log = collect(gymnasium.make("MountainCar-v0", max_episode_steps=60), uniform(3), rng=0, n_episodes=20)
buffers = [
    EpisodeBuffer(
        id=i,
        observations=np.vstack([part.observation, part.next_observation[-1:]]),
        actions=part.action,
        rewards=part.reward.tolist(),
        terminations=part.terminated.tolist(),
        truncations=part.truncated.tolist(),
        infos={"behavior_prob": np.append(np.nan, part.behavior_prob)},  # one entry for the reset, then T
    )
    for i, part in enumerate(log.episodes())
]

# %%
# Write them as a dataset in a temporary folder, and read that dataset as a log. Minari warns that it would like an
# author and the environment; it gets neither.
with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
    warnings.simplefilter("ignore")
    os.environ["MINARI_DATASETS_PATH"] = folder
    minari.create_dataset_from_buffers(
        "sparsetd/mountain-car-v0",
        buffers,
        observation_space=spaces.Box(-1.2, 0.6, (2,), dtype=np.float64),
        action_space=spaces.Discrete(3),
        data_format="hdf5",
    )
    back = read("minari:sparsetd/mountain-car-v0")

same = np.array_equal(back.observation, log.observation) and np.array_equal(back.reward, log.reward)
print(f"{back}\nthe same rows: {same}")


# %%
# What is it worth to push right nine times in ten? The importance ratios say how far the log can tell.
def push_right(state):
    return np.tile([0.05, 0.05, 0.9], (len(state), 1))


result = evaluate(back, push_right, gamma=0.9, n_resamples=0)
low, high = result.interval
print(f"value of pushing right nine times in ten: {result.value:.2f}, interval {low:.2f} to {high:.2f}")

ratios = back.with_target(push_right).importance_ratio()
figure, axis = plt.subplots(figsize=(6, 3), layout="constrained")
values, counts = np.unique(ratios.round(6), return_counts=True)
axis.bar([f"{value:.2f}" for value in values], counts)
axis.set(xlabel="importance ratio of a row", ylabel="rows", title="How much each row counts for the target policy")
plt.show()
