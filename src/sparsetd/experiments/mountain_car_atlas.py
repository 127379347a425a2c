"""Table 1 under every reading: what the paper leaves open on mountain car, crossed and counted.

A reading fixes what is not printed: the starts of the episodes, the reward, the width and the length of the features,
the passes over the samples, which iterate is used, whether an evaluation starts from the last one, γ, η, and whether
the 3,000 samples are collected once, anew for every policy, or online. The printed α, ρ₁ and ρ₂ are kept.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer

from sparsetd import operators
from sparsetd.control import GreedyGQ, GreedyROGQ, Rule, ValuePolicy, online, policy_iteration
from sparsetd.control.policy_iteration import LinearValues
from sparsetd.cuda import Job
from sparsetd.cuda import mountain_car as gpu
from sparsetd.cuda.launch import cupy
from sparsetd.estimators import LARSTD, LSTD, ROTD, TD, TDC
from sparsetd.experiments.experiment import Experiment, Row, Settings, Unit, assumed, cited, paper
from sparsetd.experiments.mountain_car import Valley
from sparsetd.experiments.mountain_car_atlas_verdicts import AXES, METHODS, plot, summarize
from sparsetd.features import RBFGrid
from sparsetd.problems import mountain_car as car
from sparsetd.system import Array
from sparsetd.transitions import Policy, Transitions

Reading = dict[str, Any]
OPEN = "not printed: every value is tried"
EPSILON = 0.1


@dataclass(frozen=True)
class AtlasSettings(Settings):
    n_seeds: int = assumed(6, "runs of each reading")
    alpha: float = paper(0.001, "RO-TD and TDC; TD is given the same")
    rho: tuple[float, float] = paper((0.01, 0.2), "ρ₁ and ρ₂ of RO-TD")
    grids: tuple[int, ...] = paper((2, 4, 8, 16, 32), "RBFs per dimension, 1365 with the constant")
    n_samples: tuple[int, int] = paper((15, 200), "episodes and steps of the 3000 samples")
    dynamics: str = cited("classic", "v += 0.001a − 0.0025 cos 3x, goal x ≥ 0.5")
    start: tuple[str, ...] = assumed(("bottom", "uniform", "rest"), OPEN)
    reward: tuple[str, ...] = assumed(("step", "goal"), f"−1 per step, or 1 at the goal; {OPEN}")
    width: tuple[float, ...] = assumed((0.5, 1.0, 2.0), f"of a bump, in grid spacings; {OPEN}")
    normed: tuple[bool, ...] = assumed((False, True), f"rows of unit length; {OPEN}")
    passes: tuple[int, ...] = assumed((1, 10, 30), f"over the samples, for every policy; {OPEN}")
    average: tuple[str, ...] = assumed(("none", "all"), f"last iterate or average; {OPEN}")
    warm: tuple[bool, ...] = assumed((False, True), f"evaluations start from the last weights; {OPEN}")
    gamma: tuple[float, ...] = assumed((0.9, 0.95, 0.99), OPEN)
    eta: tuple[float, ...] = assumed((1.0, 10.0), f"{OPEN} (10 is printed for the star)")
    data: tuple[str, ...] = assumed(("fixed", "fresh", "online"), f"how the 3000 samples are collected; {OPEN}")
    n_iter: int = assumed(10, "policy iterations; the last policy is tested")
    max_steps: int = assumed(500, "success: the goal within so many steps from (−0.5, 0)")
    every: int = assumed(1, "readings taken on fixed samples and online: one in so many, each with every γ and η")
    every_on_cores: int = assumed(217, "readings taken with fresh samples, LARS-TD and l2-LSTD, which run on cores")
    seeds_on_cores: int = assumed(1, "their runs")
    backend: str = assumed("cores", "where the readings are run; a GPU computes in single precision")


def readings(settings: AtlasSettings, method: str, data: str) -> list[Reading]:
    """The readings of one method, in the order of `AXES`; what a method or a way of sampling does not have is fixed.

    A share of them is taken with all values of γ and η each, so that methods with and without η share theirs.
    """
    known = {axis: getattr(settings, axis) for axis in AXES}
    if method not in ("RO-TD", "TDC"):
        known["eta"] = (1.0,)
    if data == "online":
        known |= {"passes": (1,), "warm": (False,)}
    if method in ("LARS-TD", "l2-LSTD"):
        known |= {"passes": (1,), "warm": (False,), "average": ("none",)}
    every = settings.every_on_cores if _on_cores(method, data) else settings.every
    block = len(known["gamma"]) * len(known["eta"])
    found = [dict(zip(known, values, strict=True)) for values in product(*known.values())]
    return [reading for i, reading in enumerate(found) if (i // block) % every == 0]


def _on_cores(method: str, data: str) -> bool:
    return data == "fresh" or method in ("LARS-TD", "l2-LSTD")


def units(settings: AtlasSettings) -> Iterator[Unit]:
    """On a GPU all readings and seeds of a method are one unit; on cores every seed is."""
    for method, data in product(METHODS, settings.data):
        if method in ("LARS-TD", "l2-LSTD") and data != "fixed":
            continue
        slug = f"{method.lower()}-{data}"
        gpu_unit = settings.backend == "cuda" and not _on_cores(method, data)
        seeds = settings.seeds_on_cores if _on_cores(method, data) else settings.n_seeds
        for seed in range(1 if gpu_unit else seeds):
            yield Unit(slug, seed, {"method": method, "data": data, "gpu": gpu_unit})


def run(settings: AtlasSettings, unit: Unit) -> list[Row]:
    method, data = unit.params["method"], unit.params["data"]
    chosen = readings(settings, method, data)
    common = {"method": method, "data": data}
    if unit.params["gpu"]:
        play = _fixed_on_gpu if data == "fixed" else _online_on_gpu
        return [{**common, **row} for row in play(settings, method, chosen)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a diverged or broken fit fails its test, and is counted there
        steps = [_play(settings, method, data, reading, unit.seed) for reading in chosen]
    return [{**common, **r, **_outcome(settings, s, unit.seed)} for r, s in zip(chosen, steps, strict=True)]


def _outcome(settings: AtlasSettings, steps: list[int], seed: int) -> Row:
    """The last policy decides; `ever` says whether any policy on the way would have succeeded."""
    return {
        "run": seed,
        "steps": steps[-1],
        "success": steps[-1] <= settings.max_steps,
        "ever": min(steps) <= settings.max_steps,
    }


# --- on cores, through the public estimators ------------------------------------------------------------------------


def estimator(settings: AtlasSettings, method: str, reading: Reading) -> Any:
    """The method under a reading."""
    gamma, hand = (
        reading["gamma"],
        {"step_size": settings.alpha, "average": reading["average"], "n_passes": reading["passes"]},
    )
    if method == "RO-TD":
        rho_theta, rho_w = settings.rho
        return ROTD(gamma=gamma, eta=reading["eta"], rho_theta=rho_theta, rho_w=rho_w, **hand)
    if method == "TDC":
        return TDC(gamma=gamma, eta=reading["eta"], **hand)
    if method == "TD":
        return TD(gamma=gamma, **hand)
    return (
        LARSTD(gamma=gamma, rho_theta=1e-4, max_steps=400) if method == "LARS-TD" else LSTD(gamma=gamma, rho_theta=1e-3)
    )


def features_of(settings: AtlasSettings, reading: Reading) -> Any:
    corners = np.array([car.LOW, car.HIGH])
    rbf = RBFGrid(settings.grids, width=reading["width"], low=car.LOW.tolist(), high=car.HIGH.tolist())
    return (make_pipeline(rbf, Normalizer()) if reading["normed"] else rbf).fit(corners)


def _play(settings: AtlasSettings, method: str, data: str, reading: Reading, seed: int) -> list[int]:
    """Steps to the goal of every policy on the way."""
    features = features_of(settings, reading)
    if data == "online":
        return [_test(settings, _online(settings, method, reading, features, seed))]
    samples: Any = log_of(settings, reading, seed)
    if data == "fresh":
        rng = settings.rng(seed, 3)
        samples = lambda _, policy: _with_reward(_behave(settings, policy, reading, rng), reading)  # noqa: E731
    result = policy_iteration(
        estimator(settings, method, reading), samples, features, reading["gamma"], n_actions=car.N_ACTIONS,
        n_iter=settings.n_iter, warm_start=reading["warm"], tol=0.0,
    )  # fmt: skip
    return [_test(settings, iteration.values) for iteration in result.iterations]


def log_of(settings: AtlasSettings, reading: Reading, seed: int) -> Transitions:
    """The samples of a seed, the same for all readings with these starts and this reward."""
    return _with_reward(car.collect(settings.rng(seed), *settings.n_samples, start=reading["start"]), reading)


def _with_reward(log: Transitions, reading: Reading) -> Transitions:
    reward = log.terminated.astype(float) if reading["reward"] == "goal" else log.reward
    return Transitions.from_arrays(
        log.observation, reward, log.next_observation, action=log.action, terminated=log.terminated,
        truncated=log.truncated,
    )  # fmt: skip


def _behave(settings: AtlasSettings, policy: Policy, reading: Reading, rng: np.random.Generator) -> Transitions:
    """Fresh samples of the policy, ε-greedy; every episode goes on from a new start after the goal."""
    n_episodes, n_steps = settings.n_samples
    state = car.starts(rng, n_episodes, reading["start"])
    rows = []
    for t in range(n_steps):
        likely = (1.0 - EPSILON) * np.asarray(policy(state)) + EPSILON / car.N_ACTIONS
        action = (rng.random((n_episodes, 1)) > likely.cumsum(axis=1)[:, :-1]).sum(axis=1)
        following, _, goal = car.step(state, action)
        rows.append((state, following, action, goal, np.full(n_episodes, t == n_steps - 1) & ~goal))
        state = np.where(goal[:, None], car.starts(rng, n_episodes, reading["start"]), following)
    columns = [np.stack(column, axis=1).reshape(n_episodes * n_steps, -1) for column in zip(*rows, strict=True)]
    states, successors, actions, goals, cuts = columns
    return Transitions.from_arrays(
        states, np.full(len(states), -1.0), successors, action=actions[:, 0], terminated=goals[:, 0].astype(bool),
        truncated=cuts[:, 0].astype(bool),
    )  # fmt: skip


def _online(settings: AtlasSettings, method: str, reading: Reading, features: Any, seed: int) -> LinearValues:
    d = features.transform(car.BOTTOM[None]).shape[1]
    constants = (car.N_ACTIONS, d, reading["gamma"], 0.0, settings.alpha)
    learner: Any = GreedyGQ(*constants, reading["eta"] if method == "TDC" else 0.0)  # without its correction GQ is TD
    if method == "RO-TD":
        acting: Any = "average" if reading["average"] == "all" else "last"
        learner = GreedyROGQ(*constants, reading["eta"], *settings.rho, acting=acting)
    env, (n_episodes, n_steps) = Valley(reading["start"], reading["reward"] == "goal"), settings.n_samples
    phi = lambda s: np.ascontiguousarray(features.transform(s[None])[0])  # noqa: E731
    how: dict[str, Any] = {"behavior": Rule(epsilon=EPSILON), "n_episodes": n_episodes, "max_steps": n_steps}
    online(env, learner, phi, settings.rng(seed, 2), **how)
    return LinearValues(features, learner.theta)


def _test(settings: AtlasSettings, values: LinearValues) -> int:
    return int(car.rollout(ValuePolicy(values, Rule()).best, max_steps=settings.max_steps)[0])


# --- on a GPU, all readings at once ---------------------------------------------------------------------------------


def job(settings: AtlasSettings, method: str, reading: Reading) -> Job:
    """The same method for the kernel."""
    how: dict[str, Any] = {
        "step": (settings.alpha, 1.0, 0.0),
        "average": reading["average"],
        "passes": reading["passes"],
    }
    if method == "RO-TD":
        return Job(operators.gq(reading["eta"]), dual="l2", l1=np.array(settings.rho[::-1]), **how)
    return Job(operators.gq(reading["eta"]) if method == "TDC" else operators.td(), **how)


def _fixed_on_gpu(settings: AtlasSettings, method: str, chosen: list[Reading]) -> Iterator[Row]:
    """One launch for every (passes, average, warm): readings that share samples and features lie side by side."""
    cp, seeds = cupy(), range(settings.n_seeds)
    at_first: Any = settings.start
    logs = {(s, at): car.collect(settings.rng(s), *settings.n_samples, start=at) for s in seeds for at in at_first}
    made: Any = None
    for passes, average, warm in product(settings.passes, settings.average, settings.warm):
        group = [r for r in chosen if (r["passes"], r["average"], r["warm"]) == (passes, average, warm)]
        if not group:
            continue
        runs = [(r, s) for s in seeds for r in group]
        runs.sort(key=lambda run: (run[1], *(str(run[0][axis]) for axis in ("start", "reward", "width", "normed"))))
        sets = runs[:: len({(r["eta"], r["gamma"]) for r in group})]
        key = [(s, *(r[axis] for axis in AXES[:4])) for r, s in sets]
        if key != made:  # the samples of the last launch serve this one too, if all of it shares them
            made, starts, rewards, widths, norms = key, *zip(*(k[1:] for k in key), strict=True)
            taken = [logs[k[0], at] for k, at in zip(key, starts, strict=True)]
            data = gpu.samples(cp, taken, widths, norms, [r == "goal" for r in rewards], settings.grids)
        index, jobs = _jobs(settings, method, [r for r, _ in runs])
        gamma = np.array([r["gamma"] for r, _ in runs])
        found = gpu.policy_iteration(jobs, index, data, gamma, n_iter=settings.n_iter, warm=warm)
        yield from _tested(settings, cp, found, runs)


def _online_on_gpu(settings: AtlasSettings, method: str, chosen: list[Reading]) -> Iterator[Row]:
    cp, (n_episodes, n_steps) = cupy(), settings.n_samples
    for average in settings.average:
        runs = [(r, s) for s in range(settings.n_seeds) for r in chosen if r["average"] == average]
        if not runs:
            continue
        rngs = [settings.rng(s, 2) for _, s in runs]
        start = np.stack([car.starts(rng, n_episodes, r["start"]) for rng, (r, _) in zip(rngs, runs, strict=True)])
        uniforms = np.stack([rng.random((n_episodes * n_steps, 2)) for rng in rngs])
        index, jobs = _jobs(settings, method, [r for r, _ in runs])
        width, unit, gamma = (np.array([r[axis] for r, _ in runs]) for axis in ("width", "normed", "gamma"))
        goal = np.array([r["reward"] == "goal" for r, _ in runs])
        theta = gpu.online(
            jobs, index, start, goal, width, unit, gamma, uniforms, epsilon=EPSILON, n_steps=n_steps,
            grids=settings.grids,
        )  # fmt: skip
        yield from _tested(settings, cp, [theta], runs)


def _jobs(settings: AtlasSettings, method: str, chosen: list[Reading]) -> tuple[Array, list[Job]]:
    """One job for every η, and which of them each run has."""
    etas = sorted({r["eta"] for r in chosen})
    jobs = [job(settings, method, {**chosen[0], "eta": eta}) for eta in etas]
    return np.array([etas.index(r["eta"]) for r in chosen]), jobs


def _tested(settings: AtlasSettings, cp: Any, found: list[Any], runs: list[tuple[Reading, int]]) -> Iterator[Row]:
    """Every policy on the way is tested in one go."""
    width, unit = (np.tile([r[axis] for r, _ in runs], len(found)) for axis in ("width", "normed"))
    steps = gpu.steps_to_goal(cp, cp.concatenate(found), width, unit, settings.max_steps, settings.grids)
    tests = cp.asnumpy(steps).reshape(len(found), len(runs))
    for k, (reading, seed) in enumerate(runs):
        yield {**reading, **_outcome(settings, [int(t[k]) for t in tests], seed)}


ATLAS = Experiment(
    "mountain-car-atlas",
    "Mountain car under every reading (Table 1)",
    "What Table 1 leaves open is crossed: every combination is a reading, run with the printed α, ρ₁ and ρ₂. The share "
    "of readings under which a printed row holds says more than any single one of them.",
    AtlasSettings(),
    AtlasSettings(
        every=61,
        every_on_cores=61,
        n_seeds=1,
        seeds_on_cores=1,
        n_iter=3,
        passes=(1, 3),
        gamma=(0.95,),
        grids=(2, 4, 8),
    ),
    units,
    run,
    summarize,
    plot,
)
