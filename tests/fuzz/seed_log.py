"""A small valid log: two episodes, every role of the schema."""

from __future__ import annotations

from typing import Any

import numpy as np

from sparsetd.logs.schema import ALIASES, WHOLE

N = 6


def columns() -> dict[str, Any]:
    x = np.arange(2.0 * N).reshape(N, 2) / 4
    return {
        "episode": [0, 0, 0, 1, 1, 1],
        "step": [0, 1, 2, 0, 1, 2],
        "obs_x": x[:, 0].tolist(),
        "obs_y": x[:, 1].tolist(),
        "next_obs_x": (x[:, 0] + 1).tolist(),
        "next_obs_y": (x[:, 1] + 1).tolist(),
        "action": [0, 1, 1, 0, 1, 0],
        "reward": [1.0, -0.5, 0.0, 2.0, 0.25, 3.0],
        "terminated": [False, False, True, False, False, False],
        "truncated": [False, False, False, False, False, True],
        "behavior_prob": [0.5] * N,
        "target_prob": [0.25] * N,
    }


def list_columns() -> dict[str, Any]:
    """The same with lists, text and fewer roles; successors are the next rows."""
    full = columns()
    lists = [[x, y] for x, y in zip(full["obs_x"], full["obs_y"], strict=True)]
    names = ["a", "a", "a", "b", "b", "b"]
    return {
        "observation": lists,
        "reward": full["reward"],
        "done": full["terminated"],
        "trajectory": names,
        "ratio": [1] * N,
    }


NAMES = sorted(
    {name for names in (*ALIASES.values(), *WHOLE) for name in names}
    | {*columns(), "observation_0", "state_0", "action_0", "action_1", "next_reward", "x", "next_x"}
)
