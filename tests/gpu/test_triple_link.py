"""The kernel of the triple link against the library's learners, with the kernel's own random numbers."""

from __future__ import annotations

import dataclasses
import shutil

import numpy as np
import pytest
from gpu import host

from reproduction.cuda import triple_link as gpu
from reproduction.triple_link import GQ_LQR, PUSHES, ROGQ_LQR, learner
from reproduction.triple_link_coordinates import coordinates, fourier_features
from reproduction.triple_link_plant import FORCES, Plant, failed, rk4
from sparsetd.control import Rule, online

TASK = {"order": 1, "dt": 0.005, "n_x": 300, "max_episodes": 4, "max_total": 100_000}
SETTINGS = (
    GQ_LQR,
    dataclasses.replace(GQ_LQR, scale=1.0, alpha=1e-3, epsilon=0.2, decay=0.9, konidaris=False),
    dataclasses.replace(ROGQ_LQR, alpha=1e-4, lam=0.8, epsilon=0.1, konidaris=True),
    dataclasses.replace(ROGQ_LQR, alpha=1e-3, forgetting=0.0),
)


class Pendulum:
    """The environment without Gymnasium."""

    def reset(self, **_):
        self.state = np.zeros(8)
        return self.state, {}

    def step(self, action):
        self.state = rk4(self.state, FORCES[action], Plant().constants(), TASK["dt"], 1)
        down = failed(self.state)
        return self.state, -1.0 if down else 0.0, down, False, {}


class Drawn:
    """The random numbers of the kernel in the place of NumPy's."""

    def __init__(self, seed: int) -> None:
        self.seed, self.count = seed, 0

    def integers(self, _n: int) -> int:
        return 0

    def random(self) -> float:
        full, self.count = 2**64 - 1, self.count + 1
        z = (self.seed * 0x100000001B3 + self.count) * 0x9E3779B97F4A7C15 & full
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 & full
        z = (z ^ (z >> 27)) * 0x94D049BB133111EB & full
        return float((z ^ (z >> 31)) >> 11) / 2**53


def on_cores(tuned, seed):
    features = fourier_features("lqr", TASK["dt"], tuned.scale, TASK["order"])
    episodes = online(
        Pendulum(), learner(tuned, TASK["order"]), features, Drawn(seed), first_actions=PUSHES,
        behavior=lambda k: Rule(epsilon=tuned.epsilon * tuned.decay**k), n_episodes=TASK["max_episodes"],
        max_steps=TASK["n_x"], stop=lambda e: e.steps >= TASK["n_x"],
    )  # fmt: skip
    solved = episodes[-1].steps >= TASK["n_x"]
    return [int(solved), len(episodes) if solved else TASK["max_episodes"], max(e.steps for e in episodes)]


@pytest.mark.skipif(shutil.which("g++") is None, reason="compiles the kernel's source as C++")
@pytest.mark.parametrize("tuned", SETTINGS, ids=lambda t: f"{t.method} {t.alpha:g}")
def test_the_kernel_learns_as_the_library_does(tuned, tmp_path):
    runs = [gpu.numbers(tuned, coordinates("lqr", TASK["dt"]), seed) for seed in (3, 4)]
    found = host.learn(tmp_path, runs, saddle=tuned.method != "GQ(λ)", **TASK)
    np.testing.assert_allclose(found, [on_cores(tuned, seed) for seed in (3, 4)], atol=1)


@pytest.mark.gpu
@pytest.mark.parametrize("tuned", SETTINGS, ids=lambda t: f"{t.method} {t.alpha:g}")
def test_the_device_learns_as_the_library_does(tuned):
    runs = [gpu.numbers(tuned, coordinates("lqr", TASK["dt"]), seed) for seed in (3, 4)]
    found = gpu.learn(runs, saddle=tuned.method != "GQ(λ)", **TASK)
    np.testing.assert_allclose(found, [on_cores(tuned, seed) for seed in (3, 4)], atol=1)
