"""Continuous systems of the BUILD set: a drug, a server's queue, a pendulum, a programme of ten weeks, waves."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from scipy.special import expit

from benchmarks.trust.families.system import Array, Rng, System, chosen, mixed, of_two

GOES_ON = 0.92


def _over(n: int, rng: Rng) -> Array:
    return rng.random(n) >= GOES_ON


@lru_cache
def drug() -> System:
    """A drug is eliminated and kills germs; too much of it is toxic, and what counts is a window of its level."""

    def start(n: int, rng: Rng) -> Array:
        weight = rng.normal(75, 14, n).clip(40, 130)
        return np.column_stack([rng.exponential(2.0, n), rng.normal(6.0, 1.0, n), weight])

    def step(x: Array, action: Array, _: int, rng: Rng) -> tuple[Array, Array, Array]:
        level, germs, weight = x.T
        dose = np.array([0.0, 250.0, 600.0])[action]
        new = 0.6 * level * np.exp(0.15 * rng.normal(size=len(x))) + dose / weight
        killed = 1.2 * new**2 / (new**2 + 16.0)
        more = (germs + 0.35 - killed + 0.2 * rng.normal(size=len(x))).clip(0, 10)
        inside = (new > 2.5) & (new < 9.0)
        reward = 1.0 * inside - 0.25 * more - 1.5 * (new > 12.0)
        return np.column_stack([new, more, weight]), reward, _over(len(x), rng)

    def see(x: Array, _: int) -> Array:
        return np.column_stack([x[:, 0], np.exp(x[:, 1]), x[:, 2]])

    def behavior(c: Array) -> Array:
        load, level = np.log(c[:, 1]), c[:, 0]
        return 0.85 * chosen(np.column_stack([-load + 4 + 0.2 * level, 1 + 0 * load, load - 6 - 0.2 * level])) + 0.05

    def careful(c: Array) -> Array:
        return 0.9 * np.eye(3)[(c[:, 0] < 3.0).astype(int) + (c[:, 0] < 1.0)] + 0.1 / 3

    targets = {"mild": mixed(behavior, careful, 0.4), "strong": careful}
    return System(("level_mg_l", "germs_per_ml", "weight_kg"), start, step, see, behavior, targets)


@lru_cache
def queue() -> System:
    """A queue whose arrivals follow the hour of the day; a second server costs money."""

    def start(n: int, rng: Rng) -> Array:
        return np.column_stack([rng.poisson(6, n), rng.uniform(0, 24, n), rng.normal(0, 1, n)]).astype(float)

    def step(x: Array, action: Array, _: int, rng: Rng) -> tuple[Array, Array, Array]:
        length, hour, demand = x.T
        arriving = rng.poisson(4 + 2.5 * np.sin(2 * np.pi * (hour - 8) / 24) + np.exp(0.5 * demand))
        new = np.maximum(length + arriving - rng.poisson(np.where(action == 1, 9.0, 5.0)), 0).clip(0, 60)
        reward = -0.02 * new**1.5 - 0.6 * action - 1.0 * (new > 25)
        drift = 0.8 * demand + 0.6 * rng.normal(size=len(x))
        return np.column_stack([new, (hour + 1) % 24, drift]), reward, _over(len(x), rng)

    def see(x: Array, _: int) -> Array:
        return np.column_stack([x[:, 0], x[:, 1], 100 * np.exp(x[:, 2])])

    def behavior(c: Array) -> Array:
        return of_two(0.1 + 0.8 * expit((c[:, 0] - 10) / 5))

    def eager(c: Array) -> Array:
        return of_two(0.05 + 0.9 * ((c[:, 0] > 5) | ((c[:, 1] > 7) & (c[:, 1] < 15))))

    targets = {"mild": mixed(behavior, eager, 0.4), "strong": eager}
    return System(("waiting", "hour", "demand_index"), start, step, see, behavior, targets)


@lru_cache
def pendulum() -> System:
    """A damped pendulum that is pushed left, right or not at all; what counts is how high it swings."""

    def start(n: int, rng: Rng) -> Array:
        return np.column_stack([rng.uniform(-2.5, 2.5, n), rng.normal(0, 0.8, n)])

    def step(x: Array, action: Array, _: int, rng: Rng) -> tuple[Array, Array, Array]:
        angle, speed = x.T
        push = np.array([-1.5, 0.0, 1.5])[action]
        for _ in range(4):
            speed = speed + 0.1 * (-2.0 * np.sin(angle) - 0.3 * speed + push)
            angle = angle + 0.1 * speed
        speed = speed + 0.15 * rng.normal(size=len(x))
        angle = (angle + np.pi) % (2 * np.pi) - np.pi
        reward = -np.cos(angle) - 0.2 * (action != 1) + 0.5 * (np.abs(angle) > 2.4)
        return np.column_stack([angle, speed]), reward, _over(len(x), rng)

    def see(x: Array, _: int) -> Array:
        return np.column_stack([np.degrees(x[:, 0]), 60 * x[:, 1]])

    def behavior(c: Array) -> Array:
        lean = c[:, 1] / 60
        return 0.8 * chosen(np.column_stack([-0.5 * lean, 0.3 + 0 * lean, 0.5 * lean])) + 0.2 / 3

    def along(c: Array) -> Array:
        return 0.9 * np.eye(3)[np.where(c[:, 1] > 0, 2, 0)] + 0.1 / 3

    targets = {"mild": mixed(behavior, along, 0.35), "strong": along}
    return System(("angle_degrees", "speed_per_minute"), start, step, see, behavior, targets)


@lru_cache
def programme() -> System:
    """Ten weeks of coaching: motivation fades, a call lifts it but tires, and a goal reached by the end pays."""

    def start(n: int, rng: Rng) -> Array:
        return np.column_stack([rng.beta(2, 3, n), np.zeros(n), rng.lognormal(3.0, 0.5, n)])

    def step(x: Array, action: Array, t: int, rng: Rng) -> tuple[Array, Array, Array]:
        mood, done, income = x.T
        lift = 0.25 * action * (1 - mood) * np.exp(-0.5 * mood)
        after = (0.88 * mood + lift + 0.05 * rng.normal(size=len(x))).clip(0, 1)
        more = done + (rng.random(len(x)) < expit(6 * after - 3))
        reward = -0.15 * action + 1.0 * (t == 9) * (more >= 5) + 0.3 * np.sqrt(after)
        return np.column_stack([after, more, income]), reward, np.zeros(len(x), dtype=bool)

    def see(x: Array, t: int) -> Array:
        return np.column_stack([100 * x[:, 0], x[:, 1], x[:, 2], np.full(len(x), t)])

    def behavior(c: Array) -> Array:
        return of_two(0.15 + 0.7 * expit((45 - c[:, 0]) / 15))

    def late(c: Array) -> Array:
        return of_two(np.where((c[:, 3] >= 4) & (c[:, 1] < 5), 0.9, 0.1))

    targets = {"mild": mixed(behavior, late, 0.4), "strong": late}
    return System(
        ("motivation", "tasks_done", "income_k", "week"), start, step, see, behavior, targets, gamma=1.0, length=10
    )


@lru_cache
def waves() -> System:
    """Two smooth coordinates whose reward is a wave in the one and a step in the other, and three that are idle."""

    def start(n: int, rng: Rng) -> Array:
        return rng.normal(0, 1, (n, 5))

    def step(x: Array, action: Array, _: int, rng: Rng) -> tuple[Array, Array, Array]:
        after = 0.8 * x + 0.6 * rng.normal(size=x.shape)
        after[:, 0] += 0.5 * (action - 0.5)
        reward = np.sin(3 * x[:, 0]) + (x[:, 1] > 0.5) - 0.2 * action + 0.3 * rng.normal(size=len(x))
        return after, reward, _over(len(x), rng)

    def see(x: Array, _: int) -> Array:
        return np.column_stack([x[:, 0], np.exp(x[:, 1]), 1000 + 50 * x[:, 2], x[:, 3] ** 3, x[:, 4]])

    def behavior(c: Array) -> Array:
        return of_two(0.1 + 0.8 * expit(0.8 * c[:, 0]))

    def away(c: Array) -> Array:
        return of_two(np.where(c[:, 0] > 0.3, 0.15, 0.85))

    targets = {"mild": mixed(behavior, away, 0.4), "strong": away}
    return System(("tide", "wind_kn", "pressure_hpa", "drift", "swell"), start, step, see, behavior, targets)
