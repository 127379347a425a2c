"""The settings of `sparsetd demo`, unchanged, on seeds that were not looked at when they were picked.

    python -m benchmarks demo [--seeds 20] [--first 1000]

Prints the table of docs/quickstart.md. Two rows of the random MDP give the baselines what the demo's methods do not
get: the best of a grid, chosen for each seed by its exact error.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from typing import Any

import numpy as np

from sparsetd import LSTD, TDC
from sparsetd.cli.demo import Problem, try_methods
from sparsetd.metrics import value_error

RIDGES = (1e-3, 1e-2, 3e-2, 0.1, 0.3, 1.0)
STEPS = (1e-4, 3e-4, 1e-3, 3e-3)


def best_of(problem: Problem, models: list[Any]) -> float:
    """The least exact error over the grid."""
    log, errors = problem.log, []
    for model in models:
        model.fit(log.phi, log.reward, log.phi_next, ratio=log.ratio, discount=log.discount, start=log.start)
        errors.append(value_error(problem.mdp, model.coef_))
    return min(errors)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--first", type=int, default=1000)
    arguments = parser.parse_args()
    errors: dict[tuple[str, str], list[float]] = defaultdict(list)
    for seed in range(arguments.first, arguments.first + arguments.seeds):
        problems, *_ = try_methods(samples=2000, seed=seed)
        for row in (row for problem in problems for row in problem.rows):
            quantity = "rmspbe" if row["problem"] == "star" else "value_error"
            errors[row["problem"], row["method"]].append(row[quantity])
        problem = next(p for p in problems if p.name == "random MDP")
        gamma = problem.mdp.gamma
        ridge = best_of(problem, [LSTD(gamma=gamma, alpha=rho) for rho in RIDGES])
        steps = best_of(problem, [TDC(gamma=gamma, step_size=step, n_passes=10) for step in STEPS])
        errors["random MDP", f"LSTD, best of {len(RIDGES)} ridges"].append(ridge)
        errors["random MDP", f"TDC, best of {len(STEPS)} steps"].append(steps)
    print(f"{arguments.seeds} seeds from {arguments.first}; star: RMSPBE, random MDP: value error")
    print("| problem | method | mean | median | least | largest |\n|---|---|---|---|---|---|")
    for (name, method), values in sorted(errors.items()):
        if method != "exact":
            numbers = (np.mean(values), np.median(values), np.min(values), np.max(values))
            print(f"| {name} | {method} | " + " | ".join(f"{v:.3g}" for v in numbers) + " |")


if __name__ == "__main__":
    main()
