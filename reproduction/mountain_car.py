"""Table 1: feature selection on mountain car, by policy iteration and online."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from reproduction import mountain_car_world as car
from reproduction.cuda.mountain_car import rewards
from reproduction.experiment import Experiment, Row, Unit
from reproduction.mountain_car_verdicts import plot, summarize
from reproduction.online_learners import GreedyGQ, GreedyROGQ
from reproduction.settings import Settings, assumed, cited, paper
from sparsetd.control import LinearValues, Rule, online, policy_iteration
from sparsetd.control.policies import ValuePolicy
from sparsetd.estimators import LARSTD, LSTD, ROTD, TD, TDC
from sparsetd.features import RBFGrid
from sparsetd.logs import Transitions
from sparsetd.system import Array

SMALL, LARGE, SPREAD = "500", "3000", "3000, random starts"


@dataclass(frozen=True)
class Variant:
    """One line of the table: an estimator, its data, and what the paper leaves open."""

    name: str
    estimator: Callable[..., Any]
    data: str = LARGE
    width: float = 1.0
    gamma: float = 0.99
    warm: bool = False


def _rotd(rho_theta: float, alpha: float, n_passes: int, eta: float) -> Any:
    return ROTD(step_size=alpha, rho_theta=rho_theta, rho_w=0.2, n_passes=n_passes, eta=eta)


# Widths, discounts, passes and penalties without a printed value come from searches on other seeds.
VARIANTS = (
    Variant("LARS-TD, 500", partial(LARSTD, rho_theta=0.006, max_steps=400), SMALL, 1.25),
    Variant("l2-LSTD, 500", partial(LSTD, alpha=1e-3), SMALL, 2.0),
    Variant("l2-LSTD, 500, small ridge", partial(LSTD, alpha=1e-5), SMALL, 2.0),
    Variant("RO-TD, printed", partial(_rotd, 0.01, 0.001, 30, 1.0), LARGE, 1.25, 0.95, True),
    Variant("RO-TD, one pass", partial(_rotd, 0.01, 0.001, 1, 1.0), LARGE, 1.25, 0.95, True),
    Variant("RO-TD, smaller ρ₁", partial(_rotd, 1.444e-5, 0.001, 30, 1.07), LARGE, 1.25, 0.95, True),
    Variant("TDC", partial(TDC, step_size=0.001, n_passes=50, eta=1.0), LARGE, 1.0, 0.95),
    Variant("TD", partial(TD, step_size=0.001, n_passes=5), LARGE, 1.0, 0.99),
    Variant("LARS-TD", partial(LARSTD, rho_theta=1e-4, max_steps=400), LARGE, 1.25, 0.99),
    Variant("l2-LSTD", partial(LSTD, alpha=1e-3), LARGE, 0.5, 0.99),
    Variant("RO-TD, random starts", partial(_rotd, 1e-3, 0.001, 50, 1.0), SPREAD, 1.0, 0.95),
    Variant("TD, random starts", partial(TD, step_size=0.001, n_passes=10), SPREAD, 2.0, 0.99),
    Variant("LARS-TD, random starts", partial(LARSTD, rho_theta=2e-3, max_steps=400), SPREAD, 1.25, 0.99),
    Variant("l2-LSTD, random starts", partial(LSTD, alpha=1e-3), SPREAD, 1.0, 0.99),
)
NAMES = tuple(v.name for v in VARIANTS)
ONLINE = ("GQ, online", "RO-GQ, online")


@dataclass(frozen=True)
class MountainCarSettings(Settings):
    n_seeds: int = paper(20, "“Success (20/20)”")
    alpha: float = paper(0.001, "RO-TD and TDC")
    rho: tuple[float, float] = paper((0.01, 0.2), "ρ₁ and ρ₂ of RO-TD")
    grids: tuple[int, ...] = paper((2, 4, 8, 16, 32), "RBFs per dimension, 1365 with the constant")
    n_small: tuple[int, int] = assumed((50, 10), "500 samples for LARS-TD (paper): 50 random starts of 10 steps")
    n_large: tuple[int, int] = paper((15, 200), "episodes and steps of the 3000 samples")
    start: str = assumed("bottom", "episodes of the 3000 samples start at rest in the valley, random actions")
    dynamics: str = cited("classic", "v += 0.001a − 0.0025 cos 3x, goal x ≥ 0.5, reward −1")
    n_iter: int = assumed(10, "policy iterations; the last policy is tested, not the best")
    max_steps: int = assumed(500, "success: the goal within so many steps from (−0.5, 0)")
    variants: tuple[str, ...] = assumed(NAMES, "widths, γ and passes: searches on other seeds")
    sweep_alpha: tuple[float, ...] = assumed((1e-4, 3e-4, 1e-3, 3e-3, 1e-2), "sensitivity of RO-TD to α")
    sweep_rho: tuple[float, ...] = assumed((1e-5, 1e-4, 1e-3, 1e-2, 1e-1), "sensitivity of RO-TD to ρ₁")
    n_sweep: int = assumed(5, "runs of each cell of the sensitivity figure")
    sweep_passes: int = assumed(30, "passes per policy in the sensitivity figure")


def units(settings: MountainCarSettings) -> Iterator[Unit]:
    for seed in range(settings.n_seeds):
        for name in settings.variants:
            yield Unit(_slug(name), seed, {"kind": "variant", "name": name})
        for name in ONLINE:
            yield Unit(_slug(name), seed, {"kind": "online", "name": name})
    for seed in range(settings.n_sweep):
        for alpha in settings.sweep_alpha:
            for rho in settings.sweep_rho:
                yield Unit(f"sweep-{alpha:g}-{rho:g}", seed, {"kind": "sweep", "alpha": alpha, "rho": rho})


def _slug(name: str) -> str:
    return "".join(c if c.isalnum() else "-" for c in name.lower().replace("ρ₁", "rho1"))


def run(settings: MountainCarSettings, unit: Unit) -> list[Row]:
    kind = unit.params["kind"]
    if kind == "online":
        return [{"kind": kind, "method": unit.params["name"], **_online(settings, unit)}]
    if kind == "variant":
        variant = VARIANTS[NAMES.index(unit.params["name"])]
    else:
        alpha, rho = unit.params["alpha"], unit.params["rho"]
        estimator = partial(_rotd, rho, alpha, settings.sweep_passes, 1.0)
        variant = Variant("RO-TD", estimator, LARGE, 1.25, 0.95, True)
    common = {"kind": kind, "method": variant.name, **{k: v for k, v in unit.params.items() if k in ("alpha", "rho")}}
    return [{**common, **row} for row in iterate(settings, variant, unit.seed)]


def features_of(settings: MountainCarSettings, width: float) -> RBFGrid:
    corners = np.array([car.LOW, car.HIGH])
    return RBFGrid(settings.grids, width=width, low=car.LOW.tolist(), high=car.HIGH.tolist()).fit(corners)


def data_of(settings: MountainCarSettings, size: str, seed: int) -> Transitions:
    """The samples of a run: every method that uses 3000 sees the same ones."""
    if size == SMALL:
        return car.collect(settings.rng(seed, 1), *settings.n_small, start="uniform")
    start = "uniform" if size == SPREAD else settings.start
    return car.collect(settings.rng(seed, 0), *settings.n_large, start=start)  # type: ignore[arg-type]


def iterate(settings: MountainCarSettings, variant: Variant, seed: int) -> Iterator[Row]:
    """Policy iteration on a fixed sample; one row per policy, the last one marked."""
    estimator = variant.estimator()
    estimator.set_params(gamma=variant.gamma)
    features, data = features_of(settings, variant.width), data_of(settings, variant.data, seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a diverged or broken path is counted in the rows
        result = policy_iteration(
            estimator,
            data,
            features,
            variant.gamma,
            n_actions=car.N_ACTIONS,
            n_iter=settings.n_iter,
            warm_start=variant.warm,
        )
    for k, iteration in enumerate(result.iterations):
        steps = _test(settings, ValuePolicy(iteration.values, Rule()).best)
        yield {
            "iteration": k,
            "last": k == len(result.iterations) - 1,
            "steps": steps,
            "success": steps <= settings.max_steps,
            "nonzero": iteration.n_nonzero,
            "estimator_status": iteration.status,
            "ending": result.status,
            "goals": int(data.terminated.sum()),
            "seconds": iteration.seconds,
        }


def rollout(choose: Callable[[Array], Array], state: Array | None = None, max_steps: int = 500) -> Array:
    """Steps each car needs to reach the goal under `choose` (states → actions); `max_steps` + 1 where it does not."""
    state = np.atleast_2d(car.BOTTOM if state is None else state).astype(float)
    steps = np.full(len(state), max_steps + 1)
    running = np.arange(len(state))
    for t in range(1, max_steps + 1):
        state, _, goal = car.step(state, choose(state))
        steps[running[goal]] = t
        state, running = state[~goal], running[~goal]
        if not len(running):
            break
    return steps


def _test(settings: MountainCarSettings, choose: Callable[[Array], Array]) -> int:
    return int(rollout(choose, max_steps=settings.max_steps)[0])


def learn_online(
    settings: Any, n_samples: tuple[int, int], method: str, reading: Row, features: Any, rng: Any, epsilon: float
) -> Array:
    """θ of the online reading: this many ε-greedy episodes and steps are all there is, and each row is used once."""
    d = features.transform(car.BOTTOM[None]).shape[1]
    constants = (car.N_ACTIONS, d, reading["gamma"], 0.0, settings.alpha)
    learner: Any = GreedyGQ(*constants, reading["eta"] if method == "TDC" else 0.0)  # without its correction GQ is TD
    if method == "RO-TD":
        acting: Any = "average" if reading["average"] == "all" else "last"
        learner = GreedyROGQ(*constants, reading["eta"], settings.rho[0], settings.rho[1], acting)
    phi = lambda s: features.transform(s[None])[0]  # noqa: E731
    env = car.MountainCar(reading["start"], reward=lambda goal: float(rewards(np, reading["reward"], goal)))
    how: Any = dict(zip(("n_episodes", "max_steps"), n_samples, strict=True))
    online(env, learner, phi, rng, behavior=Rule(epsilon=epsilon), **how)
    return np.asarray(learner.theta)


def _online(settings: MountainCarSettings, unit: Unit) -> Row:
    features, began = features_of(settings, 1.0), time.perf_counter()
    method = "TDC" if unit.params["name"] == ONLINE[0] else "RO-TD"
    reading = {"gamma": 0.99, "eta": 1.0, "average": "all", "start": "bottom", "reward": "step"}
    theta = learn_online(settings, settings.n_large, method, reading, features, settings.rng(unit.seed, 2), 0.1)
    steps = _test(settings, ValuePolicy(LinearValues(features, theta), Rule()).best)
    found = {"iteration": 0, "last": True, "steps": steps, "success": steps <= settings.max_steps}
    nonzero = int(np.count_nonzero(theta))
    return {**found, "nonzero": nonzero, "ending": "finished", "seconds": time.perf_counter() - began}


QUICK = ("LARS-TD, 500", "l2-LSTD, 500", "RO-TD, printed", "RO-TD, smaller ρ₁", "TDC", "TD")
MOUNTAIN_CAR = Experiment(
    "mountain-car",
    "Mountain car (Table 1)",
    "1365 radial basis functions per action (4095 weights), policy iteration on a fixed sample, the last policy "
    "tested from the bottom of the valley. The paper copies LARS-TD and l2-LSTD from Kolter & Ng (2009); here all "
    "methods are run. γ, the width of the basis functions, the starts of the episodes and the number of passes are "
    "not printed.",
    MountainCarSettings(),
    MountainCarSettings(
        n_seeds=2,
        variants=QUICK,
        n_iter=5,
        sweep_alpha=(3e-4, 1e-3, 3e-3),
        sweep_rho=(1e-5, 1e-3, 1e-2),
        n_sweep=1,
        sweep_passes=20,
    ),
    units,
    run,
    summarize,
    plot,
)
