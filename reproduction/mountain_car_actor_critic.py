"""Off-policy actor-critic on mountain car (Degris, White & Sutton 2012, which the paper cites), beside its rivals.

A uniformly random car is watched for 100 episodes of at most 5,000 steps, and the policy that was learnt from it drives
the test. The protocol and all parameters are those of `MountainCarOffPolicyLearning` and `OffPolicyControlTests` in
RLPark, the public library of that work's first author, whose tests also state the steps that each method may need.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from reproduction import mountain_car_world as car
from reproduction.actor_critic import SoftmaxActor, actor_critic
from reproduction.document import Grid
from reproduction.experiment import Experiment, Figure, Row, Summary, Unit
from reproduction.online_learners import GreedyGQ
from reproduction.settings import Settings, assumed, cited
from reproduction.triple_link_verdicts import permutation_test
from sparsetd.control import LinearValues, Rule, ValuePolicy, online, rollout
from sparsetd.estimators import TDC
from sparsetd.features import TileCoding
from sparsetd.logs import Policy
from sparsetd.system import Array

RLPARK = "rlpark/rlpark"
UNIFORM = Rule(epsilon=1.0)
# Steps of one test episode after 100 episodes that RLPark's own tests allow.
ALLOWED = {"Off-PAC": 120, "Q(λ)": 165, "Greedy-GQ": 270, "Softmax-GQ": 190}
COLOURS = dict(zip(ALLOWED, ("#D55E00", "#0072B2", "#009E73", "#E69F00"), strict=True))


@dataclass(frozen=True)
class ActorCriticSettings(Settings):
    n_seeds: int = assumed(10, "runs of each method")
    methods: tuple[str, ...] = cited(tuple(ALLOWED), RLPARK)
    n_episodes: int = cited(100, f"of learning; {RLPARK}")
    max_steps: int = cited(5_000, f"of an episode; {RLPARK}")
    every: int = assumed(20, "episodes between tests; the last test is the result")
    goal: float = cited(0.6, f"every step costs 1, from (−0.5, 0) until x ≥ 0.6; {RLPARK}")
    gamma: float = cited(0.99, RLPARK)
    tiles: tuple[int, int] = cited((10, 10), f"tilings, and tiles in each direction; a constant beside them; {RLPARK}")
    off_pac: tuple[float, float, float] = cited((1.0, 0.05, 0.0001), f"α_u, α_v and α_w over 11, λ = 0; {RLPARK}")
    q: tuple[float, float] = cited((0.1, 0.6), f"α over 11, and λ; {RLPARK}")
    gq: tuple[float, float, float] = cited((0.1, 0.0001, 0.4), f"α_v and α_w over 11, and λ, of Greedy-GQ; {RLPARK}")
    softmax_gq: tuple[float, float, float, float] = cited(
        (0.1, 0.0005, 0.4, 0.1), f"the same and the temperature of Softmax-GQ; {RLPARK}"
    )


@cache
def tile_rows(n_tilings: int, n_tiles: int) -> Array:
    """The features of every cell of a fine grid, on which tilings shifted by tenths of a tile are constant."""
    tiles = TileCoding(n_tilings, n_tiles, low=[0.0, 0.0], high=[1.0, 1.0]).fit(np.eye(2))
    n = n_tilings * n_tiles
    middle = np.minimum((np.arange(n + 1) + 0.5) / n, 1.0)
    cells = np.stack(np.meshgrid(middle, middle, indexing="ij"), axis=-1).reshape(-1, 2)
    return np.hstack([tiles.transform(cells).toarray(), np.ones((len(cells), 1))]).reshape(n + 1, n + 1, -1)


@dataclass
class Tiles:
    """Tile coding of one state or of several, by looking them up."""

    settings: ActorCriticSettings

    def __call__(self, state: Array) -> Array:
        n = self.settings.tiles[0] * self.settings.tiles[1]
        inside = (state - car.LOW) / (car.HIGH - car.LOW)
        cell = (inside * n).astype(int)
        return np.asarray(tile_rows(*self.settings.tiles)[cell[..., 0], cell[..., 1]])

    transform = __call__


def units(settings: ActorCriticSettings) -> Iterator[Unit]:
    for seed in range(settings.n_seeds):
        for method in settings.methods:
            yield Unit(method.lower().replace("(λ)", "-lambda"), seed, {"method": method})


def run(settings: ActorCriticSettings, unit: Unit) -> list[Row]:
    """The policy is tested every few episodes, from the same start; a test that fails takes all steps."""
    rng, env = settings.rng(unit.seed), car.MountainCar(goal=settings.goal)
    learn, policy, rows = *_learner(settings, unit.params["method"], env, rng), list[Row]()
    for done in range(settings.every, settings.n_episodes + 1, settings.every):
        learn()
        (test,) = rollout(env, policy, settings.rng(unit.seed, done), max_steps=settings.max_steps)
        found = {"steps": test.steps, "success": test.terminated, "last": done == settings.n_episodes}
        rows.append({"method": unit.params["method"], "episode": done, **found})
    return rows


def _learner(settings: ActorCriticSettings, method: str, env: Any, rng: Any) -> tuple[Callable[[], Any], Policy]:
    """A function that learns from the next few episodes, and the policy that it improves."""
    features, count = Tiles(settings), settings.tiles[0] + 1  # features that are not zero
    d, gamma = tile_rows(*settings.tiles).shape[-1], settings.gamma
    how: Any = {"n_episodes": settings.every, "max_steps": settings.max_steps}
    if method == "Off-PAC":
        alpha_u, alpha_v, alpha_w = settings.off_pac
        actor = SoftmaxActor(features, car.N_ACTIONS, d, step_size=alpha_u / count)
        critic = TDC(gamma=gamma, step_size=alpha_v / count, eta=alpha_w / alpha_v, average="none")
        return lambda: actor_critic(env, critic, actor, rng, gamma=gamma, **how), actor
    alpha, eta, lam, temperature = _rival(settings, method)
    learner = GreedyGQ(car.N_ACTIONS, d, gamma, lam, alpha / count, eta)
    target = Rule(temperature=temperature)
    return (
        lambda: online(env, learner, features, rng, behavior=UNIFORM, target=target, **how),
        ValuePolicy(LinearValues(features, learner.theta), target),
    )


def _rival(settings: ActorCriticSettings, method: str) -> tuple[float, float, float, float]:
    """(α, η, λ, temperature). Without w, GQ(λ/3) is Q(λ): a greedy action has the ratio 3, any other cuts the trace."""
    if method == "Q(λ)":
        return settings.q[0], 0.0, settings.q[1] / car.N_ACTIONS, 0.0
    alpha, alpha_w, lam, *rest = settings.gq if method == "Greedy-GQ" else settings.softmax_gq
    return alpha, alpha_w / alpha, lam, rest[0] if rest else 0.0


def summarize(settings: ActorCriticSettings, rows: Any) -> Summary:
    """The paper claims nothing here, so there is no verdict: steps, the bounds of RLPark's tests, and ranks."""
    steps = {m: rows[rows["last"] & (rows["method"] == m)]["steps"].to_numpy() for m in settings.methods}
    lines = [_line(settings, steps, method) for method in steps]
    header = ("method", "reached the goal", "mean ± std", "median", "within RLPark's bound", "p against Off-PAC")
    note = (
        f"A test that fails counts {settings.max_steps:,} steps. The bound is that of RLPark's own test, which runs "
        "each method once. p: one-sided permutation test of the ranks, that the method needs fewer steps than Off-PAC. "
        "The rows that the cited work itself prints could not be checked here."
    )
    return Summary(_conclusion(settings, steps), [], [Grid("Steps of the last policy", header, lines, note)])


def _conclusion(settings: ActorCriticSettings, steps: dict[str, Array]) -> str:
    told = ", ".join(f"{m} {v.mean():.1f} ± {v.std():.1f}" for m, v in steps.items())
    return (
        f"After {settings.n_episodes} episodes of a random car the learnt policies take these steps to the goal: "
        f"{told}. Nothing was tuned here."
    )


def _line(settings: ActorCriticSettings, steps: dict[str, Array], method: str) -> tuple[str, ...]:
    own, bound = steps[method], ALLOWED[method]
    won, within = (f"{int((own < most).sum())}/{len(own)}" for most in (settings.max_steps, bound))
    p = "–" if method == "Off-PAC" else f"{permutation_test(own, steps['Off-PAC']):.2g}"
    return method, won, f"{own.mean():.1f} ± {own.std():.1f}", f"{np.median(own):.0f}", f"{within} below {bound}", p


def plot(settings: ActorCriticSettings, rows: Any) -> list[Figure]:
    caption = (
        "Steps to the goal of the policy learnt so far: median and quartiles over the runs. The car that is watched "
        "acts at random throughout."
    )
    title = "Mountain car: policies learnt from a random car"
    return [Figure("learning", title, caption, lambda axes: _draw(settings, rows, axes[0]))]


def _draw(settings: ActorCriticSettings, rows: Any, ax: Any) -> None:
    for method in settings.methods:
        cells = rows[rows["method"] == method].groupby("episode")["steps"]
        low, middle, high = (cells.quantile(q) for q in (0.25, 0.5, 0.75))
        ax.plot(middle.index, middle, marker="o", ms=3, color=COLOURS[method], label=method)
        ax.fill_between(middle.index, low, high, color=COLOURS[method], alpha=0.15, lw=0)
    ax.set(xlabel="episodes watched", ylabel="steps to the goal")
    ax.legend(fontsize=8)


ACTOR_CRITIC = Experiment(
    "mountain-car-actor-critic",
    "Mountain car: off-policy actor-critic (Degris, White & Sutton 2012)",
    "The paper cites the off-policy actor-critic without comparing with it. Here it learns from a random car, with TDC "
    "as its critic, beside Q(λ), Greedy-GQ and Softmax-GQ. Protocol and parameters are those of "
    f"{RLPARK}, the public library of that work's first author; nothing was tuned here.",
    ActorCriticSettings(),
    ActorCriticSettings(n_seeds=1, n_episodes=4, every=2, max_steps=400),
    units,
    run,
    summarize,
    plot,
)
