"""Continuous systems of the REPORT set: epidemic, glucose, tanks, ward, sessions, terraces."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from scipy.special import expit

from benchmarks.trust.families.system import Array, Rng, System, chosen, mixed, of_two

GOES_ON = 0.93


def _over(n: int, rng: Rng) -> Array:
    return rng.random(n) >= GOES_ON


@lru_cache
def epidemic() -> System:
    """Susceptible, infected and recovered people of towns of different size; closing schools slows contacts."""

    def start(n: int, rng: Rng) -> Array:
        infected = 10 ** rng.uniform(-3.5, -1.5, n)
        return np.column_stack([(1 - infected) * rng.uniform(0.6, 1.0, n), infected, rng.lognormal(4, 0.8, n)])

    def step(x: Array, action: Array, _: int, rng: Rng) -> tuple[Array, Array, Array]:
        free, ill, size = x.T
        contacts = np.where(action == 1, 0.5, 0.95) * np.exp(0.1 * rng.normal(size=len(x)))
        new = np.minimum(contacts * free * ill + 1e-4, free)
        after = (0.65 * ill + new).clip(1e-5, 1)
        reward = -12 * np.sqrt(after) * after - 0.12 * action - 0.5 * (after > 0.1)
        return np.column_stack([free - new, after, size]), reward, _over(len(x), rng)

    def see(x: Array, _: int) -> Array:
        return np.column_stack([1000 * x[:, 2] * x[:, 0], 1e5 * x[:, 1], x[:, 2]])

    def behavior(c: Array) -> Array:
        return of_two(0.1 + 0.75 * expit(np.log(c[:, 1]) - 7.5))

    def early(c: Array) -> Array:
        return of_two(np.where(c[:, 1] > 800, 0.92, 0.12))

    targets = {"mild": mixed(behavior, early, 0.4), "strong": early}
    return System(("susceptible", "cases_per_100k", "thousand_people"), start, step, see, behavior, targets)


@lru_cache
def glucose() -> System:
    """Glucose, insulin on board and meals; a dose of insulin in three sizes, and a price for leaving the range."""

    def start(n: int, rng: Rng) -> Array:
        return np.column_stack([rng.normal(150, 35, n).clip(60, 350), rng.exponential(1.0, n), rng.exponential(20, n)])

    def step(x: Array, action: Array, _: int, rng: Rng) -> tuple[Array, Array, Array]:
        sugar, insulin, meal = x.T
        board = 0.6 * insulin + np.array([0.0, 1.5, 4.0])[action]
        eaten = np.where(rng.random(len(x)) < 0.3, rng.gamma(3.0, 15.0, len(x)), 0.0)
        after = sugar + 0.9 * meal - 9.0 * board * (sugar / 150) + 0.08 * (110 - sugar) + 8 * rng.normal(size=len(x))
        after = after.clip(35, 450)
        reward = 1.0 * ((after >= 70) & (after <= 180)) - 2.0 * (after < 70) - 0.004 * np.maximum(after - 180, 0)
        return np.column_stack([after, board, 0.5 * meal + eaten]), reward, _over(len(x), rng)

    def see(x: Array, _: int) -> Array:
        return np.column_stack([x[:, 0], 1000 * x[:, 1], x[:, 2]])

    def behavior(c: Array) -> Array:
        high = (c[:, 0] - 150) / 40
        return 0.85 * chosen(np.column_stack([-high, 0.5 + 0 * high, high - 1])) + 0.05

    def steady(c: Array) -> Array:
        enough = (c[:, 0] > 130).astype(int) + ((c[:, 0] > 200) & (c[:, 1] < 3000))
        return 0.9 * np.eye(3)[enough] + 0.1 / 3

    targets = {"mild": mixed(behavior, steady, 0.4), "strong": steady}
    return System(("glucose_mg_dl", "insulin_mu", "carbs_g"), start, step, see, behavior, targets)


@lru_cache
def tanks() -> System:
    """Two coupled tanks: a pump fills the first, which runs into the second through a hole, as roots of the levels."""

    def start(n: int, rng: Rng) -> Array:
        return np.column_stack([rng.uniform(0.1, 2.0, n), rng.uniform(0.1, 2.0, n), rng.normal(20, 3, n)])

    def step(x: Array, action: Array, _: int, rng: Rng) -> tuple[Array, Array, Array]:
        first, second, warm = x.T
        through, out = 0.28 * np.sqrt(first), 0.26 * np.sqrt(second) * (1 + 0.01 * (warm - 20))
        pumped = np.where(action == 1, 0.5, 0.1) + 0.04 * rng.normal(size=len(x))
        new = np.column_stack([(first + pumped - through).clip(0.01, 3), (second + through - out).clip(0.01, 3)])
        reward = 1.0 * (np.abs(new[:, 1] - 1.2) < 0.3) - 1.0 * (new[:, 0] > 2.5) - 0.25 * action
        warmer = 20 + 0.9 * (warm - 20) + rng.normal(size=len(x))
        return np.column_stack([new, warmer]), reward, _over(len(x), rng)

    def see(x: Array, _: int) -> Array:
        return np.column_stack([1000 * x[:, 0], x[:, 1], x[:, 2] + 273.15])

    def behavior(c: Array) -> Array:
        return of_two(0.12 + 0.76 * expit(2.5 * (1.1 - c[:, 1])))

    def filling(c: Array) -> Array:
        return of_two(np.where((c[:, 1] < 1.3) & (c[:, 0] < 1800), 0.9, 0.08))

    targets = {"mild": mixed(behavior, filling, 0.4), "strong": filling}
    return System(("level_mm", "level_m", "kelvin"), start, step, see, behavior, targets)


@lru_cache
def ward() -> System:
    """A ward takes patients from a queue whose urgency grows; beds are few, and opening one more is dear."""

    def start(n: int, rng: Rng) -> Array:
        return np.column_stack([rng.integers(5, 20, n), rng.poisson(4, n), rng.exponential(2.0, n)]).astype(float)

    def step(x: Array, action: Array, _: int, rng: Rng) -> tuple[Array, Array, Array]:
        beds, waiting, urgency = x.T
        gone = rng.binomial(beds.astype(int), 0.25)
        admitted = np.minimum(waiting, np.maximum(22 + 4 * action - beds + gone, 0))
        new = (waiting - admitted + rng.poisson(4.5, len(x))).clip(0, 40)
        worse = (0.7 * urgency + 0.12 * new * rng.exponential(1.0, len(x))).clip(0, 30)
        reward = -0.3 * np.log1p(worse) ** 2 - 0.5 * action - 1.0 * (new > 10)
        return np.column_stack([beds - gone + admitted, new, worse]), reward, _over(len(x), rng)

    def see(x: Array, _: int) -> Array:
        return np.column_stack([x[:, 0], x[:, 1], 60 * x[:, 2]])

    def behavior(c: Array) -> Array:
        return of_two(0.1 + 0.75 * expit(0.35 * (c[:, 1] - 6)))

    def open_(c: Array) -> Array:
        return of_two(np.where((c[:, 2] > 100) | (c[:, 1] > 7), 0.9, 0.1))

    targets = {"mild": mixed(behavior, open_, 0.4), "strong": open_}
    return System(("beds_taken", "waiting", "urgency_minutes"), start, step, see, behavior, targets)


@lru_cache
def sessions() -> System:
    """Twelve sessions of physiotherapy: strength grows where pain allows it, and walking at the end is what counts."""

    def start(n: int, rng: Rng) -> Array:
        strength, pain = rng.normal(30, 8, n).clip(5, 60), rng.gamma(4, 1.0, n).clip(0, 10)
        return np.column_stack([strength, pain, rng.normal(70, 9, n)])

    def step(x: Array, action: Array, t: int, rng: Rng) -> tuple[Array, Array, Array]:
        strength, pain, age = x.T
        hard = np.array([0.0, 2.0, 5.0])[action]
        gain = hard * np.exp(-0.35 * pain) * (1 - strength / 90)
        new = strength + gain - 0.4 + rng.normal(size=len(x))
        hurts = (0.75 * pain + 0.35 * hard * (age > 70) + 0.2 * hard + 0.4 * rng.normal(size=len(x))).clip(0, 10)
        reward = -0.03 * hurts + 2.0 * (t == 11) * expit((new - 45) / 3)
        return np.column_stack([new.clip(5, 90), hurts, age]), reward, np.zeros(len(x), dtype=bool)

    def see(x: Array, t: int) -> Array:
        return np.column_stack([x[:, 0], x[:, 1], x[:, 2], np.full(len(x), t + 1)])

    def behavior(c: Array) -> Array:
        ready = (4 - c[:, 1]) / 2
        return 0.85 * chosen(np.column_stack([-ready, 0.3 + 0 * ready, ready - 0.3])) + 0.05

    def gentle(c: Array) -> Array:
        return 0.9 * np.eye(3)[np.where(c[:, 1] < 3, 2, np.where(c[:, 1] < 6, 1, 0))] + 0.1 / 3

    targets = {"mild": mixed(behavior, gentle, 0.4), "strong": gentle}
    names = ("strength_n", "pain_0_10", "age", "session")
    return System(names, start, step, see, behavior, targets, gamma=1.0, length=12)


@lru_cache
def terraces() -> System:
    """Rewards in steps of one column and a bump in two others; two kinds of site and four idle columns."""

    def start(n: int, rng: Rng) -> Array:
        return np.column_stack([rng.normal(0, 1, (n, 7)), rng.integers(0, 2, n)])

    def step(x: Array, action: Array, _: int, rng: Rng) -> tuple[Array, Array, Array]:
        after = 0.75 * x + 0.66 * rng.normal(size=x.shape)
        after[:, 0] += 0.45 * action
        after[:, 7] = x[:, 7]
        bump = np.exp(-2 * (x[:, 1] - 0.5) ** 2 - 2 * x[:, 2] ** 2)
        reward = 0.4 * np.floor(1.5 * x[:, 0]).clip(-3, 3) * (1 - x[:, 7]) + 2 * bump - 0.3 * action
        return after, reward + 0.3 * rng.normal(size=len(x)), _over(len(x), rng)

    def see(x: Array, _: int) -> Array:
        shown = [10 + 2 * x[:, 0], np.exp(0.7 * x[:, 1]), 1e-3 * x[:, 2], x[:, 3], np.exp(x[:, 4]), 1e4 * x[:, 5]]
        return np.column_stack([*shown, np.abs(x[:, 6]), x[:, 7]])

    def behavior(c: Array) -> Array:
        return of_two(0.12 + 0.76 * expit(0.4 * (c[:, 0] - 10)))

    def reversed_(c: Array) -> Array:
        return of_two(np.where((c[:, 0] < 10.5) & (c[:, 7] == 0), 0.88, 0.2))

    targets = {"mild": mixed(behavior, reversed_, 0.4), "strong": reversed_}
    names = ("grade", "moisture", "slope", "east", "acid", "height", "stones", "site")
    return System(names, start, step, see, behavior, targets)
