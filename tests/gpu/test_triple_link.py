"""The kernel of the triple link against the library's learners, with the kernel's own random numbers."""

from __future__ import annotations

import dataclasses
import shutil
from functools import cache

import numpy as np
import pytest
from gpu import host

from reproduction.cuda import triple_link as gpu
from reproduction.online_learners import GreedyROGQ
from reproduction.triple_link import GQ_LQR, PUSHES, ROGQ_LQR, learner
from reproduction.triple_link_coordinates import coordinates, fourier_features
from reproduction.triple_link_plant import FORCES, TRACK, Plant, rk4
from sparsetd.control import Rule, online

ORDER, DT = 1, 0.005
# Links that may tilt by 1° only end an episode after about 30 steps, so that few rows hold several episodes.
TASK = {"order": ORDER, "dt": DT, "n_x": 300, "max_episodes": 5, "max_total": 100_000, "angle": np.deg2rad(1.0)}
# The kernel sums 3 · 2⁸ products in single precision, one after the other: what rounding can do to such a sum, as a
# share of the sum of the sizes of its terms.
ROUNDING = 3 * 2**8 * 2.0**-24
# Runs in which no choice hangs on rounding, with their seeds; `on_cores` asserts it.
SETTINGS = (
    (GQ_LQR, (7, 24)),
    (dataclasses.replace(GQ_LQR, scale=1.0, alpha=1e-3, epsilon=0.2, decay=0.9, konidaris=False), (18, 23)),
    (dataclasses.replace(ROGQ_LQR, alpha=1e-4, lam=0.8, epsilon=0.1, konidaris=True), (6, 16)),
    (dataclasses.replace(ROGQ_LQR, alpha=1e-3, forgetting=0.0), (5, 14)),
)
each_setting = pytest.mark.parametrize(
    ("tuned", "seeds"), SETTINGS, ids=[f"{tuned.method} {tuned.alpha:g}" for tuned, _ in SETTINGS]
)


class Pendulum:
    """The environment without Gymnasium."""

    def reset(self, **_):
        self.state = np.zeros(8)
        return self.state, {}

    def step(self, action):
        self.state = rk4(self.state, FORCES[action], Plant().constants(), DT, 1)
        down = bool(abs(self.state[0]) > TRACK or np.abs(self.state[1:4]).max() > TASK["angle"])
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


class Watched:
    """A learner, and how clearly it chose: the smallest lead of the best action over a worse one, by ‖θ‖₁.

    An action that is exactly as good shares the choice and needs no lead. Nothing is chosen at the start of an
    episode, where the first action is drawn.
    """

    def __init__(self, learner) -> None:
        self.learner, self.gamma, self.update, self.lead = learner, learner.gamma, learner.update, np.inf

    def begin(self) -> None:
        self.learner.begin()
        self.chooses = False

    def values(self, phi):
        q = self.learner.values(phi)
        worse = q[q < q.max()]
        if self.chooses and len(worse):
            self.lead = min(self.lead, (q.max() - worse.max()) / np.abs(self.learner.theta).sum())
        self.chooses = True
        return q


@cache
def on_cores(tuned, seed):
    """The kernel's results and weights as the library has them."""
    watched = Watched(learner(tuned, ORDER))
    episodes = online(
        Pendulum(), watched, fourier_features("lqr", DT, tuned.scale, ORDER), Drawn(seed), first_actions=PUSHES,
        behavior=lambda k: Rule(epsilon=tuned.epsilon * tuned.decay**k), n_episodes=TASK["max_episodes"],
        max_steps=TASK["n_x"], stop=lambda e: e.steps >= TASK["n_x"],
    )  # fmt: skip
    assert watched.lead > 2 * ROUNDING, "a choice hangs on rounding, so that the two may part: take another seed"
    solved = episodes[-1].steps >= TASK["n_x"]
    result = [int(solved), len(episodes) if solved else TASK["max_episodes"], max(e.steps for e in episodes)]
    return result, weights_of(watched.learner)


def weights_of(found):
    trace = found._trace.reshape(found.theta.shape)
    both = (found.x[1], found.x[0], trace)
    return np.array([*both, found.mean, *found.y] if isinstance(found, GreedyROGQ) else both)


def agrees(launch, tuned, seeds, **how):
    """Whether the kernel's results are those of the library, and its weights to within rounding."""
    runs = [gpu.numbers(tuned, coordinates("lqr", DT), seed) for seed in seeds]
    results, weights = launch(runs, saddle=tuned.method != "GQ(λ)", weights=True, **TASK, **how)
    fair = True
    for seed, result, found in zip(seeds, results, weights, strict=True):
        expected_result, expected = on_cores(tuned, seed)
        found[4:] /= max(1.0, np.linalg.norm(found[4:]))  # the kernel projects y when it reads it
        largest = np.abs(expected).max(axis=(1, 2), keepdims=True)
        fair &= result.tolist() == expected_result and bool((np.abs(found - expected) <= ROUNDING * largest).all())
    return fair


needs_a_compiler = pytest.mark.skipif(shutil.which("g++") is None, reason="compiles the kernel's source as C++")


@needs_a_compiler
@each_setting
def test_the_kernel_learns_as_the_library_does(tuned, seeds):
    assert agrees(host.launch, tuned, seeds)


WRONG = {  # a setting that notices it, and what is replaced by what
    "the trace is kept": (0, "into = 0;", "into = p.gamma;"),
    "exploration does not decay": (1, "epsilon *= p.decay", "epsilon *= 1"),
    "the trace forgets the ratio": (2, "into * share[action] / mu[action]", "into"),
    "θ is not thresholded": (3, "al * (float)p.rho_theta", "0.0f"),
    "a step is a ten thousandth too long": (3, "al = step[i]", "al = 1.0001f * step[i]"),
}


@needs_a_compiler
@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_kernel_is_noticed(wrong):
    setting, *replaced = WRONG[wrong]
    assert not agrees(host.launch, *SETTINGS[setting], wrong=tuple(replaced))


@pytest.mark.gpu
@each_setting
def test_the_device_learns_as_the_library_does(tuned, seeds):
    assert agrees(gpu.launch, tuned, seeds)
