"""How good are the steps that nobody set? Against the best of a 20-point grid, on problems that were not used to design them.

    python benchmarks/automatic_steps.py [--full] [--seed N]

The rule and its only constant were fixed on the star, the 5- and 11-state walks and nine random MDPs (docs/automatic-steps.md).
The problems here are others, and the random ones among them are drawn anew from the seed, which is printed.

A grid is 10 step sizes times {constant, α/√(1 + t/1000)}, each with the average of all iterates; its best point is chosen with
the exact objective in hand. It is given one more thing that a practitioner does not have: its centre is scaled by the distance
to the solution. Every run of a problem, automatic or not, sees the same rows.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from sparsetd import operators, penalties, problems, solvers
from sparsetd.metrics import exact_mspbe
from sparsetd.problems import FiniteMDP
from sparsetd.solvers import PowerDecay
from sparsetd.system import Array, Batch, Table

GRID = [(a, kind) for a in np.geomspace(1e-4, 0.5, 10) for kind in ("constant", "decaying")]
GEO, WORST = 1.5, 2.5


@dataclass(eq=False)
class Problem:
    """Rows, the exact system and the minimum of ‖Ax − b‖₂ + ρ_θ‖θ‖₁ + ρ_w‖w‖₁."""

    name: str
    mdp: FiniteMDP
    table: Table
    rho: tuple[float, float] = (0.0, 0.0)
    on_policy: bool = False
    theta0: Array | None = None
    independent: bool = False
    rows: list[Batch] = field(default_factory=list)

    @property
    def penalty(self) -> penalties.L1:
        return penalties.L1(*self.rho)

    @cached_property
    def system(self) -> tuple[Array, Array]:
        return self.mdp.expected_system(self.table, importance_sampled=not self.independent)

    @cached_property
    def minimum(self) -> float:
        if not any(self.rho):
            A, b = self.system
            return float(np.linalg.norm(A @ np.linalg.lstsq(A, b, rcond=None)[0] - b))
        return self.objective(_minimise(*self.system, self.penalty, self.table.n_blocks))

    @cached_property
    def scale(self) -> float:
        """The distance to LSTD's solution, at least 1: what the centre of the grid is multiplied by."""
        solution = np.linalg.lstsq(self.mdp.A, self.mdp.b, rcond=None)[0]
        return max(1.0, float(np.linalg.norm(solution - self.start[-1])))

    @property
    def start(self) -> Array:
        x = np.zeros((self.table.n_blocks, self.mdp.n_features))
        if self.theta0 is not None:
            x[-1] = self.theta0
        return x

    def draw(self, n: int, rng: np.random.Generator) -> None:
        self.rows.append(self.mdp.sample(n, rng) if self.independent else self.mdp.trajectory(n, rng))

    def objective(self, x: Array) -> float:
        A, b = self.system
        return float(np.linalg.norm(A @ x.ravel() - b)) + self.penalty.value(x)

    def suboptimality(self, x: Array) -> float:
        """(P(x) − P*)/(P(x_0) − P*)."""
        if not np.isfinite(x).all():
            return np.inf
        return (self.objective(x) - self.minimum) / (self.objective(self.start) - self.minimum)

    def mspbe(self, x: Array) -> float:
        return exact_mspbe(self.mdp, x[-1]) if np.isfinite(x).all() else np.inf

    def error(self, solver: Any, metric: Callable[[Array], float]) -> float:
        """The metric of the reported point, mean over the samples."""
        return float(np.mean([metric(solve(solver, self, batch)) for batch in self.rows]))

    def grid(self, kind: Any, metric: Callable[[Array], float], scale: float = 1.0, **options: Any) -> float:
        """The best of the 20 points."""
        return min(self.error(kind(step_size=_schedule(scale * a, k), **options), metric) for a, k in GRID)


def _schedule(alpha: float, kind: str) -> Any:
    return float(alpha) if kind == "constant" else PowerDecay(float(alpha))


def solve(solver: Any, problem: Problem, batch: Batch) -> Array:
    """The reported x = [w; θ] of one pass over the rows."""
    d = problem.mdp.n_features
    state = solver.init(problem.table, d, np.float64, problem.theta0)
    solver.update(state, batch, problem.table, problem.penalty)
    solution = solver.result(state, problem.table, problem.penalty)
    if solution.status == "diverged":
        return np.full_like(problem.start, np.nan)
    return np.atleast_2d(solution.coef) if solution.aux is None else np.stack([solution.aux, solution.coef])


def _minimise(A: Array, b: Array, penalty: penalties.L1, n_blocks: int) -> Array:
    try:
        import cvxpy as cp
    except ImportError as error:
        raise SystemExit('the exact minimum needs CVXPY: pip install "sparsetd[test]"') from error
    x = cp.Variable(len(b))
    weight = np.repeat(penalty.shrinkage(n_blocks)[0], len(b) // n_blocks)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cp.Problem(cp.Minimize(cp.norm2(A @ x - b) + weight @ cp.abs(x))).solve(solver="CLARABEL")
    return np.asarray(x.value).reshape(n_blocks, -1)


# --- the problems ---------------------------------------------------------------------------------------------------


def gym_problem(name: str, rng: np.random.Generator, gamma: float, n_features: int | None, **options: Any) -> FiniteMDP:
    """A table of Gymnasium under the uniform policy, with one-hot or Gaussian features of about unit norm."""
    plain = problems.gym_mdp(name, gamma, **options)
    if n_features is None:
        return plain
    size = int(plain.labels.max()) + 1
    features = rng.normal(size=(size, n_features)) / np.sqrt(n_features)
    return problems.gym_mdp(name, gamma, features=features, **options)


def unseen(rng: np.random.Generator) -> Iterator[tuple[str, FiniteMDP, tuple[float, float], bool]]:
    """(name, problem, ρ, whether it is on-policy)."""
    off = {"target_right": 0.6, "left_reward": -1.0, "gamma": 0.99}
    yield "Boyan chain, 13 states", problems.boyan_chain(), (0.0, 0.0), True
    yield "Boyan chain, 25 states, l1", problems.boyan_chain(25, 7), (0.02, 0.5), True
    yield "walk, 19 states, tabular", problems.random_walk(19, "tabular"), (0.0, 0.0), True
    yield "walk, 19 states, dependent", problems.random_walk(19, "dependent"), (0.0, 0.0), True
    yield "walk, 9 states, inverted", problems.random_walk(9, "inverted"), (0.0, 0.0), True
    yield "walk, 19 states, off-policy, l1", problems.random_walk(19, "tabular", **off), (0.005, 0.1), False
    yield "FrozenLake, one-hot", gym_problem("FrozenLake-v1", rng, 0.95, None), (0.0, 0.0), True
    yield "CliffWalking, 20 features", gym_problem("CliffWalking-v1", rng, 0.9, 20), (0.0, 0.0), True
    yield "CliffWalking, 60 features, l1", gym_problem("CliffWalking-v1", rng, 0.9, 60), (0.02, 0.5), True
    sizes = [(20, 30, 5), (40, 25, 5), (60, 80, 10), (30, 12, 4), (100, 50, 10)]
    rhos = [(0.02, 0.4), (0.2, 1.0), (0.1, 0.5), (0.0, 0.0), (0.05, 1.0)]
    for (n_states, d, relevant), rho in zip(sizes, rhos, strict=True):
        options = {
            "gamma": float(rng.uniform(0.8, 0.97)),
            "off_policy": float(rng.uniform(0.2, 0.8)),
            "misfit": float(rng.choice([0.0, 0.3])),
            "reward_noise": float(rng.choice([0.0, 1.0])),
        }
        yield f"random MDP {n_states}×{d}, ρ={rho}", problems.random_mdp(rng, n_states, d, relevant, **options), rho, False


def walk_start(mdp: FiniteMDP, basis: str) -> Array:
    """θ with V = ½ everywhere, where the basis can say so; 0 otherwise."""
    rows = mdp.features[~mdp.terminal]
    return np.zeros(mdp.n_features) if basis == "dependent" else np.linalg.lstsq(rows, np.full(len(rows), 0.5), rcond=None)[0]


# --- the tables -----------------------------------------------------------------------------------------------------


def verdict(name: str, value: float, bound: float) -> bool:
    passed = bool(value <= bound)
    print(f"  {'pass' if passed else 'FAIL'}  {name}: {value:.3g} (at most {bound:g})")
    return passed


def geometric_mean(values: list[float]) -> float:
    return float(np.exp(np.mean(np.log(values))))


def saddle_table(cases: list[tuple[Any, ...]], sizes: Any, rng: np.random.Generator) -> list[bool]:
    """RO-TD's objective, automatic against the better of the paper's algorithm and Mirror-Prox, both at their best."""
    print(f"\nSaddle point (ROTD): (P(x̄) − P*)/(P(x_0) − P*) after {sizes.rows:,} rows, mean of {sizes.samples} samples")
    print(f"{'':34s}{'auto':>9s}{'grid':>9s}{'grid MP':>9s}{'ratio':>7s}{'DA':>9s}")
    ratios, to_paper = [], []
    for name, mdp, rho, on_policy in cases:
        problem = Problem(name, mdp, operators.tdc(), rho, on_policy)
        for child in rng.spawn(sizes.samples):
            problem.draw(sizes.rows, child)
        metric = problem.suboptimality
        auto = problem.error(solvers.SaddleDistanceOverGradients(), metric)
        paper = problem.grid(solvers.PrimalDual, metric, problem.scale)
        prox = problem.grid(solvers.SaddleMirrorProx, metric, problem.scale)
        averaging = problem.error(solvers.DualAveraging(average="all"), metric)
        ratios.append(auto / min(paper, prox))
        to_paper.append(auto / paper)
        print(f"{name:34s}{auto:9.4f}{paper:9.4f}{prox:9.4f}{ratios[-1]:7.2f}{averaging:9.4f}", flush=True)
    print(f"  against the paper's algorithm alone: geometric mean {geometric_mean(to_paper):.2f}, worst {max(to_paper):.2f}")
    return [
        verdict(f"saddle point, geometric mean of {len(ratios)} problems", geometric_mean(ratios), GEO),
        verdict("saddle point, worst", max(ratios), WORST),
    ]


def stochastic_table(name: str, table: Table, cases: list[tuple[Any, ...]], sizes: Any, rng: np.random.Generator) -> list[bool]:
    """MSPBE of x ← x − α(A_t x − b_t): automatic against the best last iterate, and the best suffix average, of the grid."""
    print(f"\n{name}: MSPBE after {sizes.rows:,} rows, mean of {sizes.samples} samples")
    print(f"{'':34s}{'auto':>10s}{'grid':>10s}{'ratio':>7s}{'averaged grid':>15s}{'ratio':>7s}")
    ratios, averaged = [], []
    for label, mdp, _, on_policy in cases:
        if name == "TD" and not on_policy:
            continue
        problem = Problem(label, mdp, table, on_policy=on_policy)
        for child in rng.spawn(sizes.samples):
            problem.draw(sizes.rows, child)
        floor = exact_mspbe(mdp, np.linalg.lstsq(mdp.A, mdp.b, rcond=None)[0])
        auto = problem.error(solvers.DistanceOverGradients(), problem.mspbe) - floor
        last = problem.grid(solvers.Stochastic, problem.mspbe, average="none") - floor
        suffix = problem.grid(solvers.Stochastic, problem.mspbe, average="suffix") - floor
        ratios.append(auto / last)
        averaged.append(auto / suffix)
        print(f"{label:34s}{auto:10.2e}{last:10.2e}{ratios[-1]:7.2f}{suffix:15.2e}{averaged[-1]:7.2f}", flush=True)
    print(f"  against the averaged grid: geometric mean {geometric_mean(averaged):.2f}, worst {max(averaged):.2f}")
    return [
        verdict(f"{name}, geometric mean of {len(ratios)} problems", geometric_mean(ratios), GEO),
        verdict(f"{name}, worst", max(ratios), WORST),
    ]


def classic_table(sizes: Any, rng: np.random.Generator) -> list[bool]:
    """The paper's own two problems with η = 1, 20,000 rows."""
    print(f"\nMSPBE after 20,000 rows, mean of {sizes.runs} runs")
    print(f"{'':24s}{'ROTD':>10s}{'TDC':>10s}{'GTD2':>10s}{'PFGTD':>10s}{'RDATD':>10s}")
    cases = [("star", problems.star(), problems.star().theta0, True, 2e-4)]
    for basis in ("tabular", "inverted", "dependent"):
        mdp = problems.random_walk(5, basis)
        cases.append((f"walk, {basis}", mdp, walk_start(mdp, basis), False, 5e-5))
    verdicts = []
    for name, mdp, theta0, independent, bound in cases:
        kinds = [
            (operators.tdc(), solvers.SaddleDistanceOverGradients()),
            (operators.tdc(), solvers.DistanceOverGradients()),
            (operators.gtd2(), solvers.DistanceOverGradients()),
            (operators.gtd2(), solvers.CoinBetting()),
            (operators.td(), solvers.DualAveraging()),
        ]
        seeds = rng.spawn(sizes.runs)
        batches = [mdp.sample(20_000, s) if independent else mdp.trajectory(20_000, s) for s in seeds]
        errors = []
        for table, solver in kinds:
            problem = Problem(name, mdp, table, theta0=theta0, independent=independent, rows=batches)
            errors.append(problem.error(solver, problem.mspbe))
        print(f"{name:24s}" + "".join(f"{e:10.2e}" for e in errors), flush=True)
        verdicts.append((f"{name}, MSPBE of ROTD", errors[0], bound))
    return [verdict(*v) for v in verdicts]


@dataclass(frozen=True)
class Sizes:
    rows: int
    samples: int
    runs: int


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--full", action="store_true", help="50,000 rows, 5 samples, 50 runs (about 20 minutes)")
    parser.add_argument("--seed", type=int, default=None, help="default: a fresh one")
    options = parser.parse_args(arguments)
    sizes = Sizes(50_000, 5, 50) if options.full else Sizes(20_000, 2, 10)
    seed = int(np.random.SeedSequence().entropy % 2**32) if options.seed is None else options.seed
    print(f"seed {seed}")
    rng = np.random.default_rng(seed)
    verdicts = classic_table(sizes, rng)
    cases = list(unseen(rng))
    verdicts += saddle_table(cases, sizes, rng)
    for name, table in (("TD", operators.td()), ("TDC", operators.tdc()), ("GTD2", operators.gtd2())):
        verdicts += stochastic_table(name, table, cases, sizes, rng)
    print(f"\n{sum(verdicts)} of {len(verdicts)} passed")
    return 0 if all(verdicts) else 1


if __name__ == "__main__":
    sys.exit(main())
