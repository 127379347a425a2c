"""How good are the steps that nobody set? Against the best of a 20-point grid, on problems drawn anew.

    python -m benchmarks steps [--full] [--seed N]

The rules were fixed on other problems (docs/automatic-steps.md says which). Those here come from the seed, which is
printed: chains, walks, Gymnasium tables and random MDPs of random sizes, features, policies and penalties. A log from
which LSTD itself learns next to nothing tells steps apart by luck; such problems are named and left out.

A grid is 10 step sizes times {constant, α/√(1 + t/1000)}; its best point is chosen with the exact error in hand. For
the saddle point it gets one more thing that nobody has: its centre is scaled by the distance to the solution. Every run
of a problem, automatic or not, sees the same rows.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from benchmarks.gym_mdp import gym_mdp
from reproduction import walk_bases
from reproduction.expected_system import expected_system
from sparsetd import GTD2, ROTD, TD, TDC, TDRC, LinearTD, operators, penalties, problems, solvers
from sparsetd.metrics import exact_mspbe
from sparsetd.problems import FiniteMDP
from sparsetd.solvers import PowerDecay
from sparsetd.system import Array, Batch, Table, mean_system

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
        return expected_system(self.mdp, self.table, importance_sampled=not self.independent)

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

    @cached_property
    def judge(self) -> FiniteMDP:
        """The problem with the weights that the method minimises under: ETD counts states by f = (I − γPᵀ)⁻¹ξ."""
        if self.table.trace != "emphatic":
            return self.mdp
        emphasis = np.linalg.solve(np.eye(self.mdp.n_states) - self.mdp.gamma * self.mdp.transition.T, self.mdp.xi)
        return replace(self.mdp, weights=emphasis / emphasis.sum())

    def mspbe(self, x: Array) -> float:
        return exact_mspbe(self.judge, x[-1]) if np.isfinite(x).all() else np.inf

    def rmspbe(self, x: Array) -> float:
        """√(MSPBE(θ) − its minimum): the root, since the saddle's objective is a norm too."""
        return float(np.sqrt(max(self.mspbe(x) - self.floor, 0.0)))

    @cached_property
    def floor(self) -> float:
        return exact_mspbe(self.judge, np.linalg.lstsq(self.judge.A, self.judge.b, rcond=None)[0])

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


def frozen_lake(rng: np.random.Generator) -> FiniteMDP:
    """A random slippery 4×4 lake under a policy that prefers to go right and down, so that the goal is met at all."""
    from gymnasium.envs.toy_text.frozen_lake import generate_random_map

    lake = generate_random_map(size=4, p=0.85, seed=int(rng.integers(2**31)))
    target = np.tile([0.1, 0.4, 0.4, 0.1], (16, 1))
    return gym_mdp("FrozenLake-v1", 0.95, desc=lake, target=target, behavior=np.full((16, 4), 0.25))


def cliff(rng: np.random.Generator) -> FiniteMDP:
    """CliffWalking under the uniform policy, with Gaussian features of about unit norm."""
    d = int(rng.integers(15, 60))
    return gym_mdp("CliffWalking-v1", 0.9, features=rng.normal(size=(48, d)) / np.sqrt(d))


def boyan(rng: np.random.Generator) -> FiniteMDP:
    d = int(rng.integers(4, 11))
    return problems.boyan_chain(int(rng.integers(2, 5)) * (d - 1) + 1, d)


def walk(rng: np.random.Generator, basis: Any, **options: Any) -> FiniteMDP:
    return walk_bases.walk(int(rng.integers(6, 26)), basis, **options)


def random_problem(rng: np.random.Generator) -> FiniteMDP:
    d = int(rng.integers(10, 80))
    return problems.random_mdp(
        rng,
        int(rng.integers(20, 150)),
        d,
        max(3, d // 8),
        gamma=float(rng.uniform(0.8, 0.97)),
        off_policy=float(rng.uniform(0.2, 0.8)),
        misfit=float(rng.choice([0.0, 0.3])),
        reward_noise=float(rng.choice([0.0, 1.0])),
    )


def unseen(rng: np.random.Generator) -> Iterator[tuple[str, FiniteMDP, bool, bool]]:
    """(name, problem, whether it gets an l1 penalty, whether it is on-policy)."""
    off = {"target_right": float(rng.choice([0.35, 0.65])), "left_reward": -1.0, "gamma": 0.97}
    yield "Boyan chain", boyan(rng), False, True
    yield "Boyan chain", boyan(rng), True, True
    yield "walk, tabular", walk(rng, "tabular"), False, True
    yield "walk, inverted", walk(rng, "inverted"), False, True
    yield "walk, dependent", walk(rng, "dependent"), False, True
    yield "walk, off-policy", walk(rng, "tabular", **off), False, False
    yield "walk, off-policy", walk(rng, "dependent", **off), True, False
    yield "FrozenLake", frozen_lake(rng), False, False
    yield "CliffWalking", cliff(rng), False, True
    yield "CliffWalking", cliff(rng), True, True
    for number in range(6):
        yield "random MDP", random_problem(rng), number % 2 == 0, False


def penalty_of(mdp: FiniteMDP, table: Table, rng: np.random.Generator) -> tuple[float, float]:
    """(ρ_θ, 10ρ_θ) with ρ_θ between 5 and 30 % of the one at which θ = 0 solves the problem without w."""
    A, b = expected_system(mdp, table, importance_sampled=True)
    largest = np.abs(A[:, -mdp.n_features :].T @ b).max() / np.linalg.norm(b)
    rho = float(rng.uniform(0.05, 0.3) * largest)
    return rho, 10.0 * rho


def informative(problem: Problem) -> bool:
    """Whether LSTD on the same rows at least halves the MSPBE of the start."""
    errors = []
    for batch in problem.rows:
        A, b = mean_system(operators.td(), batch)
        errors.append(exact_mspbe(problem.mdp, np.linalg.lstsq(A, b, rcond=1e-8)[0]))
    return float(np.mean(errors)) <= 0.5 * exact_mspbe(problem.mdp, problem.start[-1])


def walk_start(mdp: FiniteMDP, basis: str) -> Array:
    """θ with V = ½ everywhere, where the basis can say so; 0 otherwise."""
    rows = mdp.features[~mdp.terminal]
    half = np.linalg.lstsq(rows, np.full(len(rows), 0.5), rcond=None)[0]
    return np.zeros(mdp.n_features) if basis == "dependent" else half


# --- the tables -----------------------------------------------------------------------------------------------------


def verdict(name: str, value: float, bound: float) -> bool:
    passed = bool(value <= bound)
    print(f"  {'pass' if passed else 'FAIL'}  {name}: {value:.3g} (at most {bound:g})")
    return passed


def geometric_mean(values: list[float]) -> float:
    return float(np.exp(np.mean(np.log(values))))


def summary(values: list[float]) -> str:
    return f"geometric mean {geometric_mean(values):.2f}, worst {max(values):.2f}"


def drawn(cases: list[tuple[Any, ...]], table: Table, sizes: Any, rng: np.random.Generator) -> Iterator[Problem]:
    """The problems with their rows; those whose rows say too little are named and left out."""
    for name, mdp, penalised, on_policy in cases:
        rho = penalty_of(mdp, operators.tdc(), rng) if penalised else (0.0, 0.0)
        label = f"{name}, {mdp.n_states}×{mdp.n_features}" + (f", ρ={rho[0]:.2g}" if penalised else "")
        problem = Problem(label, mdp, table, rho, on_policy)
        for child in rng.spawn(sizes.samples):
            problem.draw(sizes.rows, child)
        if informative(problem):
            yield problem
        else:
            print(f"{label:34s}  left out: LSTD learns next to nothing from these rows")


def automatic_saddle(problem: Problem) -> Any:
    """What ROTD(step_size="auto") uses: dual averaging where there is a penalty, distance over gradients elsewhere."""
    if any(problem.rho):
        return solvers.DualAveraging(average="all", sparse=False)
    return solvers.SaddleDistanceOverGradients(rescale=True)


def saddle_table(cases: list[tuple[Any, ...]], sizes: Any, rng: np.random.Generator) -> list[bool]:
    """RO-TD's objective, automatic against the better of the paper's algorithm and Mirror-Prox, both at their best."""
    print("\nSaddle point (ROTD): (P(x̄) − P*)/(P(x_0) − P*)")
    print(f"{'':34s}{'auto':>9s}{'grid':>9s}{'grid MP':>9s}{'ratio':>7s}{'sparse':>9s}")
    ratios, to_paper, penalised = [], [], []
    for problem in drawn(cases, operators.tdc(), sizes, rng):
        metric = problem.suboptimality
        auto = problem.error(automatic_saddle(problem), metric)
        paper = problem.grid(solvers.PrimalDual, metric, problem.scale)
        prox = problem.grid(solvers.SaddleMirrorProx, metric, problem.scale)
        averaging = problem.error(solvers.DualAveraging(), metric)  # as RDATD reports it, with exact zeros
        ratios.append(auto / min(paper, prox))
        to_paper.append(auto / paper)
        penalised.append(any(problem.rho))
        print(f"{problem.name:34s}{auto:9.4f}{paper:9.4f}{prox:9.4f}{ratios[-1]:7.2f}{averaging:9.4f}", flush=True)
    print(f"  against the paper's algorithm alone: {summary(to_paper)}")
    print(f"  against the better of the two: {summary(ratios)}")
    for words, kind in (("without a penalty", False), ("with one", True)):
        print(f"  {words}: {summary([r for r, own in zip(ratios, penalised, strict=True) if own is kind])}")
    return [
        verdict(f"saddle point, geometric mean of {len(ratios)} problems", geometric_mean(ratios), GEO),
        verdict("saddle point, worst", max(ratios), WORST),
    ]


def stochastic_table(
    name: str, table: Table, cases: list[tuple[Any, ...]], sizes: Any, rng: np.random.Generator
) -> list[bool]:
    """RMSPBE of x ← x − α(A_t x − b_t): automatic against the best last iterate of the grid, and its best average."""
    print(f"\n{name}: RMSPBE")
    print(f"{'':34s}{'auto':>10s}{'grid':>10s}{'ratio':>7s}{'averaged grid':>15s}{'ratio':>7s}")
    ratios, averaged = [], []
    plain = [(label, mdp, False, on_policy) for label, mdp, _, on_policy in cases if on_policy or name != "TD"]
    for problem in drawn(plain, table, sizes, rng):
        auto = problem.error(solvers.DistanceOverGradients(rescale=True), problem.rmspbe)
        last = problem.grid(solvers.Stochastic, problem.rmspbe, average="none")
        suffix = problem.grid(solvers.Stochastic, problem.rmspbe, average="suffix")
        ratios.append(auto / last)
        averaged.append(auto / suffix)
        print(
            f"{problem.name:34s}{auto:10.2e}{last:10.2e}{ratios[-1]:7.2f}{suffix:15.2e}{averaged[-1]:7.2f}", flush=True
        )
    print(f"  against the averaged grid: {summary(averaged)}")
    return [
        verdict(f"{name}, geometric mean of {len(ratios)} problems", geometric_mean(ratios), GEO),
        verdict(f"{name}, worst", max(ratios), WORST),
    ]


def units_table(sizes: Any, rng: np.random.Generator) -> list[bool]:
    """Columns of sizes 10^±3, and of means ten times their standard deviation, against standardised ones."""
    print("\nUnits: RMSPBE over that of V = 0, with an intercept; in brackets the worst ratio to standardised columns")
    print(f"{'':12s}{'standardised':>14s}{'10^±3':>18s}{'mean 10':>18s}{'both':>18s}{'left alone':>14s}")
    cases = [random_problem(rng) for _ in range(12)]
    logs = [mdp.trajectory(sizes.rows, child) for mdp, child in zip(cases, rng.spawn(12), strict=True)]
    spread = [10.0 ** rng.uniform(-3, 3, mdp.n_features) for mdp in cases]
    verdicts = []
    for kind in (TD, TDC, TDRC, GTD2, ROTD):
        errors = np.sqrt([_unit_errors(kind, *case) for case in zip(cases, logs, spread, strict=True)])
        ratios, levels = errors / errors[:, :1], np.exp(np.log(errors).mean(axis=0))
        shown = "".join(
            f"{level:10.4f} ({worst:5.2f})" for level, worst in zip(levels[1:4], ratios.max(axis=0)[1:4], strict=True)
        )
        print(f"{kind.__name__:12s}{levels[0]:14.4f}{shown}{levels[4]:14.4f}", flush=True)
        verdicts.append(verdict(f"{kind.__name__}, worst ratio in bad units", float(ratios[:, 1:4].max()), 1.5))
    return verdicts


def _unit_errors(kind: Any, mdp: FiniteMDP, log: Batch, spread: Array) -> list[float]:
    """1 − score in standardised units, three bad ones, and the last of these for the rule that leaves them alone."""
    mean, deviation = log.phi.mean(axis=0), np.maximum(log.phi.std(axis=0), 1e-12)
    bad = [(mean, spread / deviation), (mean - 10.0 * deviation, 1.0 / deviation), (mean - 10.0 * deviation, spread)]
    errors = []
    for shift, scale in [(mean, 1.0 / deviation), *bad]:
        X, X_next = (log.phi - shift) * scale, (log.phi_next - shift) * scale
        model = kind(gamma=mdp.gamma, fit_intercept=True)
        rows = {"ratio": log.ratio, "discount": log.discount, "start": log.start}
        errors.append(1.0 - model.fit(X, log.reward, X_next, **rows).score(X, log.reward, X_next, **rows))
    table, penalty, solver = model.triple()
    plain = LinearTD(operator=table, penalty=penalty, solver=replace(solver, rescale=False), **model_settings(model))
    return [*errors, 1.0 - plain.fit(X, log.reward, X_next, **rows).score(X, log.reward, X_next, **rows)]


def model_settings(model: Any) -> dict[str, Any]:
    return {"gamma": model.gamma, "fit_intercept": model.fit_intercept}


def classic_table(sizes: Any, rng: np.random.Generator) -> list[bool]:
    """The paper's own two problems with η = 1, 20,000 rows."""
    print("\nMSPBE after 20,000 rows")
    print(f"{'':24s}{'ROTD':>10s}{'TDC':>10s}{'GTD2':>10s}{'PFGTD':>10s}{'RDATD':>10s}")
    cases = [("star", problems.star(), problems.star().theta0, True, 2e-4)]
    for basis in ("tabular", "inverted", "dependent"):
        mdp = walk_bases.walk(5, basis)
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
    print(
        f"seed {seed}; {sizes.rows:,} rows and {sizes.samples} samples per problem, {sizes.runs} runs of the classics"
    )
    rng = np.random.default_rng(seed)
    verdicts = classic_table(sizes, rng)
    cases = list(unseen(rng))
    verdicts += saddle_table(cases, sizes, rng)
    tables = {"TD": operators.td(), "TDC": operators.tdc(), "GTD2": operators.gtd2(), "TDRC": operators.tdrc()}
    for name, table in {**tables, "ETD": operators.etd()}.items():
        verdicts += stochastic_table(name, table, cases, sizes, rng)
    verdicts += units_table(sizes, rng)
    print(f"\n{sum(verdicts)} of {len(verdicts)} passed")
    return 0 if all(verdicts) else 1


if __name__ == "__main__":
    sys.exit(main())
