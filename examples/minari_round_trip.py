"""A log becomes a Minari dataset, and the Minari dataset becomes the same log.

Minari has no standard field for propensities: they travel in `infos`. No environment is needed.

    pip install "minari[hdf5]"
    python examples/minari_round_trip.py
"""

from __future__ import annotations

import argparse
import os
import tempfile
import warnings

import numpy as np

from sparsetd.evaluation import evaluate
from sparsetd.problems import mountain_car
from sparsetd.transitions import Transitions, read


def buffers(log: Transitions) -> list:
    """One `EpisodeBuffer` per episode: T + 1 observations for T steps."""
    from minari.data_collector.episode_buffer import EpisodeBuffer

    out = []
    for i, part in enumerate(log.episodes()):
        out.append(
            EpisodeBuffer(
                id=i,
                observations=np.vstack([part.observation, part.next_observation[-1:]]),
                actions=part.action,
                rewards=part.reward.tolist(),
                terminations=part.terminated.tolist(),
                truncations=part.truncated.tolist(),
                infos={"behavior_prob": np.append(np.nan, part.behavior_prob)},  # one entry for the reset, then T
            )
        )
    return out


def main(episodes: int = 20) -> None:
    import minari
    from gymnasium import spaces

    log = mountain_car.collect(np.random.default_rng(0), n_episodes=episodes, n_steps=60, start="uniform")
    with tempfile.TemporaryDirectory() as folder:
        os.environ["MINARI_DATASETS_PATH"] = folder
        with warnings.catch_warnings():  # Minari would like an author, a description and an environment
            warnings.simplefilter("ignore")
            minari.create_dataset_from_buffers(
                "sparsetd/mountain-car-v0",
                buffers(log),
                observation_space=spaces.Box(mountain_car.LOW, mountain_car.HIGH, dtype=np.float64),
                action_space=spaces.Discrete(3),
                data_format="hdf5",
            )
        back = read("minari:sparsetd/mountain-car-v0")
    same = np.array_equal(back.observation, log.observation) and np.array_equal(back.reward, log.reward)
    print(f"{back}\nthe same rows: {same}")

    result = evaluate(back, push_right, gamma=0.9, n_resamples=0)
    low, high = result.interval
    print(f"value of pushing right nine times in ten: {result.value:.2f}, interval {low:.2f} to {high:.2f}")


def push_right(s: np.ndarray) -> np.ndarray:
    return np.tile([0.05, 0.05, 0.9], (len(s), 1))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--episodes", type=int, default=20)
    main(**vars(parser.parse_args()))
