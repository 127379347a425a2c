"""Table 1 under every reading: what the paper leaves open on mountain car, crossed and counted.

A reading fixes what is not printed: the starts of the episodes, the reward, the width and the length of the features,
the passes over the samples, which iterate is used, whether an evaluation starts from the last one, γ, η, and whether
the 3,000 samples are collected once, anew for every policy, or online. The printed α, ρ₁ and ρ₂ are kept. A second set
of readings takes the conventions of the code that the authors' own group published.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any, ClassVar

import numpy as np

from reproduction import mountain_car_world as car
from reproduction.cuda import mountain_car as gpu
from reproduction.experiment import Experiment, Row, Unit
from reproduction.mountain_car import learn_online, rollout
from reproduction.mountain_car_verdicts import AXES, METHODS, plot_atlas, summarize_atlas
from reproduction.settings import Settings, assumed, cited, paper
from sparsetd import operators
from sparsetd.control import LinearValues, Rule, ValuePolicy, policy_iteration
from sparsetd.estimators import LARSTD, ROTD, TD, TDC
from sparsetd.logs import Policy, Transitions
from sparsetd.sweeps.cuda import Job
from sparsetd.sweeps.cuda.launch import cupy
from sparsetd.system import Array

Reading = dict[str, Any]
Runs = list[tuple[Reading, int]]
OPEN = "not printed: every value is tried"
GROUP = "amarack/python-rl, the public code of the authors' group (2013)"
EPSILON = {"step": 0.1, "goal": 0.1, "group": 0.01}
EXACT = ("LARS-TD", "l2-LSTD")
FRESH = 768  # runs whose own samples the GPU holds at once: 50 MB each
PARTS = 6  # of a seed of LARS-TD, whose readings take up to half a minute each


@dataclass(frozen=True)
class AtlasSettings(Settings):
    carried: ClassVar[tuple[str, ...]] = ("n_seeds", "every", "every_lars", "seeds_lars", "seeds_lstd", "seeds_fresh")
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
    group_start: tuple[str, ...] = assumed(("bottom", "uniform"), f"the default and `random_start` of {GROUP}")
    group_reward: tuple[str, ...] = assumed(("group",), f"−1 per step and 0 at the goal in {GROUP}")
    group_width: tuple[float, ...] = assumed(
        (0.0, 0.5, 1.0, 2.0), f"0 stands for exp(−0.9‖s − c‖²), the default of {GROUP}, whose centres are random"
    )
    group_gamma: tuple[float, ...] = assumed(
        (0.99, 1.0), f"of mirror-descent Q-learning, and of LSPI and Sarsa, in {GROUP}"
    )
    n_iter: int = assumed(10, "policy iterations; the last policy is tested")
    max_steps: int = assumed(500, "success: the goal within so many steps from (−0.5, 0)")
    ridge: float = assumed(1e-3, "of l2-LSTD, on the scale of means")
    rho_lars: float = assumed(1e-4, "of LARS-TD, on the scale of means")
    every: int = assumed(1, "readings taken: one in so many, each with every γ and η")
    every_lars: int = assumed(1, "the same for LARS-TD, which runs on cores")
    seeds_lars: int = assumed(6, "its runs of each reading")
    seeds_lstd: int = assumed(6, "runs of each reading of l2-LSTD")
    seeds_fresh: int = assumed(3, "runs of each reading with fresh samples")
    backend: str = assumed("cores", "where the readings are run; a GPU computes in single precision")


def readings(settings: AtlasSettings, method: str, data: str, group: bool = False) -> list[Reading]:
    """The readings of one method, in the order of `AXES`; choices that a method or a way of sampling lacks are fixed.

    If only a share is taken, each reading in it keeps all values of γ and η, so that methods with and without η share
    theirs.
    """
    known = {axis: getattr(settings, axis) for axis in AXES}
    if group:
        known |= {axis: getattr(settings, f"group_{axis}") for axis in ("start", "reward", "width", "gamma")}
    if method not in ("RO-TD", "TDC"):
        known["eta"] = (1.0,)
    if data == "online" or method in EXACT:
        known |= {"passes": (1,), "warm": (False,)}
    if method in EXACT:
        known["average"] = ("none",)
    every = settings.every * (settings.every_lars if method == "LARS-TD" else 1)
    block = len(known["gamma"]) * len(known["eta"])
    found = [dict(zip(known, values, strict=True)) for values in product(*known.values())]
    return [reading for i, reading in enumerate(found) if (i // block) % every == 0]


def units(settings: AtlasSettings) -> Iterator[Unit]:
    """On a GPU all readings and seeds of a method are one unit; on cores every seed is, and LARS-TD's are split."""
    for method, data, group in product(METHODS, settings.data, (False, True)):
        if (method in EXACT and data != "fixed") or (group and method == "LARS-TD"):
            continue
        several = settings.seeds_fresh if data == "fresh" else settings.n_seeds
        seeds = {"LARS-TD": settings.seeds_lars, "l2-LSTD": settings.seeds_lstd}.get(method, several)
        on_gpu, every = settings.backend == "cuda" and method != "LARS-TD", len(readings(settings, method, data, group))
        params = {"method": method, "data": data, "group": group, "gpu": on_gpu, "readings": every}
        slug = f"{method.lower()}-{data}{'-group' * group}"
        if on_gpu:
            yield Unit(slug, 0, {**params, "runs": seeds})
        elif method == "LARS-TD":
            parts = product(range(seeds), range(min(PARTS, every)))
            yield from (Unit(f"{slug}-{part:02d}", seed, {**params, "part": part}) for seed, part in parts)
        else:
            yield from (Unit(slug, seed, params) for seed in range(seeds))


def run(settings: AtlasSettings, unit: Unit) -> list[Row]:
    method, data = unit.params["method"], unit.params["data"]
    chosen, common = readings(settings, method, data, unit.params["group"]), {"method": method, "data": data}
    if "part" in unit.params:
        chosen = chosen[unit.params["part"] :: PARTS]
    if unit.params["gpu"]:
        run_all = (
            _lstd_on_gpu if method == "l2-LSTD" else {"fixed": _fixed, "fresh": _fresh, "online": _online_on_gpu}[data]
        )
        return [{**common, **row} for row in run_all(settings, method, chosen, unit.params["runs"])]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a diverged or broken fit fails its test, and is counted there
        steps = [_play(settings, method, data, reading, unit.seed) for reading in chosen]
    return [{**common, **r, **_outcome(settings, s, unit.seed)} for r, s in zip(chosen, steps, strict=True)]


def _outcome(settings: AtlasSettings, steps: list[int], seed: int) -> Row:
    """The last policy decides; `ever` says whether any policy on the way would have succeeded."""
    last, best = steps[-1], min(steps)
    return {"run": seed, "steps": last, "success": last <= settings.max_steps, "ever": best <= settings.max_steps}


# --- on cores, through the public estimators ------------------------------------------------------------------------


def estimator(settings: AtlasSettings, method: str, reading: Reading) -> Any:
    """The method under a reading."""
    gamma, eta, (rho_theta, rho_w) = reading["gamma"], reading["eta"], settings.rho
    hand = {"step_size": settings.alpha, "average": reading["average"], "n_passes": reading["passes"]}
    if method == "LARS-TD":
        return LARSTD(gamma=gamma, rho_theta=settings.rho_lars, max_steps=400)
    if method == "RO-TD":
        return ROTD(gamma=gamma, eta=eta, rho_theta=rho_theta, rho_w=rho_w, **hand)
    return TDC(gamma=gamma, eta=eta, **hand) if method == "TDC" else TD(gamma=gamma, **hand)


@dataclass
class Bumps:
    """The features of a reading, as a transformer."""

    width: float
    normed: bool
    grids: tuple[int, ...]

    def transform(self, states: Array) -> Array:
        return np.asarray(gpu.bumps(np, np.asarray(states), self.width, self.normed, self.grids), dtype=float)


def _play(settings: AtlasSettings, method: str, data: str, reading: Reading, seed: int) -> list[int]:
    """Steps to the goal of every policy on the way."""
    features = Bumps(reading["width"], reading["normed"], settings.grids)
    test = partial(_test, settings, features)
    if data == "online":
        given = (settings, settings.n_samples, method, reading, features, settings.rng(seed, 2))
        return [test(learn_online(*given, EPSILON[reading["reward"]]))]
    samples: Any = log_of(settings, reading, seed)
    if method == "l2-LSTD":
        rows = gpu.samples(np, [samples], [features.width], [features.normed], [reading["reward"]], settings.grids)
        return [test(t) for t in gpu.lstd_iteration(np, rows, reading["gamma"], settings.ridge, n_iter=settings.n_iter)]
    if data == "fresh":
        samples = partial(_behave, settings, reading, draws(settings, reading["start"], seed))
    result = policy_iteration(
        estimator(settings, method, reading), samples, features, reading["gamma"], n_actions=car.N_ACTIONS,
        n_iter=settings.n_iter, warm_start=reading["warm"], tol=0.0,
    )  # fmt: skip
    return [test(iteration.values.coef) for iteration in result.iterations]


def log_of(settings: AtlasSettings, reading: Reading, seed: int) -> Transitions:
    """The samples of a seed, the same for all readings with these starts and this reward."""
    log = car.collect(settings.rng(seed), *settings.n_samples, start=reading["start"])
    return _transitions(log.observation, log.next_observation, log.action, log.terminated, log.truncated, reading)


def _transitions(
    states: Array, following: Array, action: Any, goal: Array, cut: Array, reading: Reading
) -> Transitions:
    reward = gpu.rewards(np, reading["reward"], goal)
    return Transitions.from_arrays(states, reward, following, action=action, terminated=goal, truncated=cut)


def draws(settings: AtlasSettings, start: Any, seed: int) -> tuple[Array, Array, Array]:
    """First states, those after a goal, and random numbers of fresh samples: (iterations, steps, episodes, …)."""
    (n_episodes, n_steps), n, rng = settings.n_samples, settings.n_iter, settings.rng(seed, 3)
    first = car.starts(rng, n * n_episodes, start).reshape(n, n_episodes, 2)
    again = car.starts(rng, n * n_steps * n_episodes, start).reshape(n, n_steps, n_episodes, 2)
    return first, again, rng.random((n, n_steps, n_episodes))


def _behave(settings: AtlasSettings, reading: Reading, drawn: Any, k: int, policy: Policy) -> Transitions:
    """Fresh samples of the policy, ε-greedy; every episode goes on from a new start after the goal."""
    epsilon, first = EPSILON[reading["reward"]], [part[k] for part in drawn]
    likely = lambda s: (1.0 - epsilon) * np.asarray(policy(s)) + epsilon / car.N_ACTIONS  # noqa: E731
    columns = [np.moveaxis(c, 0, 1) for c in gpu.play(np, likely, *first)]
    states, following, action, goal = (c.reshape(-1, *c.shape[2:]) for c in columns)
    cut = (np.arange(len(goal)) % settings.n_samples[1] == settings.n_samples[1] - 1) & ~goal
    return _transitions(states, following, action, goal, cut, reading)


def _test(settings: AtlasSettings, features: Bumps, theta: Array) -> int:
    values = LinearValues(features, theta)
    return int(rollout(ValuePolicy(values, Rule()).best, max_steps=settings.max_steps)[0])


# --- on a GPU, all readings at once ---------------------------------------------------------------------------------


def job(settings: AtlasSettings, method: str, reading: Reading) -> Job:
    """The same method for the kernel."""
    how: Any = {"step": (settings.alpha, 1.0, 0.0), "average": reading["average"], "passes": reading["passes"]}
    if method == "RO-TD":
        return Job(operators.gq(reading["eta"]), dual="l2", l1=np.array(settings.rho[::-1]), **how)
    return Job(operators.gq(reading["eta"]) if method == "TDC" else operators.td(), **how)


def _alike(chosen: list[Reading], seeds: int) -> Iterator[Runs]:
    """Runs of one launch share their passes, average and warm start; those with the same samples lie side by side."""
    for kind in sorted({tuple(r[axis] for axis in AXES[4:7]) for r in chosen}):
        group = [r for r in chosen if tuple(r[axis] for axis in AXES[4:7]) == kind]
        yield sorted(
            ((r, s) for s in range(seeds) for r in group), key=lambda run: (run[1], *(str(run[0][a]) for a in AXES[:4]))
        )


def _column(runs: Runs, axis: str) -> Array:
    return np.array([r[axis] for r, _ in runs])


def _fixed(settings: AtlasSettings, method: str, chosen: list[Reading], seeds: int) -> Iterator[Row]:
    cp, made = cupy(), None
    for runs in _alike(chosen, seeds):
        sets = runs[:: len({(r["eta"], r["gamma"]) for r, _ in runs})]
        key = [(s, *(r[axis] for axis in AXES[:4])) for r, s in sets]
        if key != made:  # the samples of the last launch serve this one too, if all of it shares them
            made, data = key, _samples(settings, cp, sets)
        yield from _iterated(settings, cp, method, runs, data)


def _iterated(settings: AtlasSettings, cp: Any, method: str, runs: Runs, data: Any) -> Iterator[Row]:
    index, jobs = _jobs(settings, method, runs)
    how: Any = {"n_iter": settings.n_iter, "warm": runs[0][0]["warm"]}
    yield from _tested(settings, cp, gpu.policy_iteration(jobs, index, data, _column(runs, "gamma"), **how), runs)


def _samples(settings: AtlasSettings, cp: Any, runs: Runs) -> gpu.Samples:
    kinds = {(s, r["start"]) for r, s in runs}
    logs = {(s, at): car.collect(settings.rng(s), *settings.n_samples, start=at) for s, at in kinds}
    width, unit, kind = (_column(runs, axis) for axis in ("width", "normed", "reward"))
    return gpu.samples(cp, [logs[s, r["start"]] for r, s in runs], width, unit, kind, settings.grids)


def _fresh(settings: AtlasSettings, method: str, chosen: list[Reading], seeds: int) -> Iterator[Row]:
    cp = cupy()
    drawn = {(s, at): draws(settings, at, s) for s in range(seeds) for at in settings.start}
    for alike in _alike(chosen, seeds):
        for runs in (alike[i : i + FRESH] for i in range(0, len(alike), FRESH)):
            width, unit, kind = (_column(runs, axis) for axis in ("width", "normed", "reward"))
            epsilon = EPSILON[str(kind[0])]  # readings of the group's code are never mixed with others

            def collected(
                k: int, theta: Any, runs: Runs = runs, given: Any = (width, unit, kind), epsilon: float = epsilon
            ) -> gpu.Samples:
                parts = zip(*((v[k] for v in drawn[s, r["start"]]) for r, s in runs), strict=True)
                first, again, uniforms = (np.stack(part, axis=bool(i)) for i, part in enumerate(parts))
                return gpu.fresh(cp, theta, given, (first, again, uniforms), epsilon, settings.grids)

            yield from _iterated(settings, cp, method, runs, collected)


def _online_on_gpu(settings: AtlasSettings, method: str, chosen: list[Reading], seeds: int) -> Iterator[Row]:
    cp, (n_episodes, n_steps) = cupy(), settings.n_samples
    for runs in _alike(chosen, seeds):
        rngs = [settings.rng(s, 2) for _, s in runs]
        start = np.stack([car.starts(rng, n_episodes, r["start"]) for rng, (r, _) in zip(rngs, runs, strict=True)])
        uniforms = np.stack([rng.random((n_episodes * n_steps, 2)) for rng in rngs])
        columns = [_column(runs, axis) for axis in ("reward", "width", "normed", "gamma")]
        index, jobs = _jobs(settings, method, runs)
        how: Any = {"epsilon": EPSILON[runs[0][0]["reward"]], "n_steps": n_steps, "grids": settings.grids}
        yield from _tested(settings, cp, [gpu.online(jobs, index, start, columns, uniforms, **how)], runs)


def _lstd_on_gpu(settings: AtlasSettings, _method: str, chosen: list[Reading], seeds: int) -> Iterator[Row]:
    cp, runs, found = cupy(), [(r, s) for s in range(seeds) for r in chosen], []
    for reading, seed in runs:
        data = _samples(settings, cp, [(reading, seed)])
        thetas = gpu.lstd_iteration(cp, data, reading["gamma"], settings.ridge, n_iter=settings.n_iter)
        found.append([*thetas, *[thetas[-1]] * (settings.n_iter - len(thetas))])  # a policy that repeats stays
    yield from _tested(settings, cp, [cp.stack(column) for column in zip(*found, strict=True)], runs)


def _jobs(settings: AtlasSettings, method: str, runs: Runs) -> tuple[Array, list[Job]]:
    """One job for every η, and which of them each run has."""
    etas = sorted(set(_column(runs, "eta")))
    jobs = [job(settings, method, {**runs[0][0], "eta": eta}) for eta in etas]
    return np.searchsorted(etas, _column(runs, "eta")), jobs


def _tested(settings: AtlasSettings, cp: Any, found: list[Any], runs: Runs) -> Iterator[Row]:
    """Every policy on the way is tested in one go."""
    width, unit = (np.tile(_column(runs, axis), len(found)) for axis in ("width", "normed"))
    steps = gpu.steps_to_goal(cp, cp.concatenate(found), width, unit, settings.max_steps, settings.grids)
    tests = cp.asnumpy(steps).reshape(len(found), len(runs))
    for k, (reading, seed) in enumerate(runs):
        yield {**reading, **_outcome(settings, [int(t[k]) for t in tests], seed)}


ATLAS = Experiment(
    "mountain-car-atlas",
    "Mountain car under every reading (Table 1)",
    "What Table 1 leaves open is crossed: every combination is a reading, run with the printed α, ρ₁ and ρ₂. The share "
    "of readings under which a printed row holds says more than any single one of them. The readings with the reward "
    f"“group” follow {GROUP}.",
    AtlasSettings(),
    AtlasSettings(
        every=61, every_lars=1, n_seeds=1, seeds_lars=1, seeds_lstd=1, seeds_fresh=1, n_iter=3, passes=(1, 3),
        gamma=(0.95,), grids=(2, 4, 8),
    ),
    units,
    run,
    summarize_atlas,
    plot_atlas,
)  # fmt: skip
