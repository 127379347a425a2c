"""How good are the answers of `evaluate`? ICU-Sepsis logs, many seeds, exact truth by dynamic programming.

    python benchmarks/evaluation.py --seeds 100                      accuracy, coverage of the intervals, time
    python benchmarks/evaluation.py --seeds 20 --noise 1000          the same with 1,000 columns of noise added

For every target policy: bias and root mean square error of the value, next to the least standard deviation that any
estimator without structural knowledge can have at this size (`bound`); coverage and mean width of the 95 % interval;
the errors of importance sampling and doubly robust estimates on the same logs; seconds of CPU per evaluation. With
noise: the share of noise columns that were dropped. Needs: pip install icu-sepsis
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from typing import Any

import numpy as np

from sparsetd.evaluation import evaluate
from sparsetd.problems.icu_sepsis import ICUSepsis

GAMMA = 0.99


def one(problem: ICUSepsis, target: str, seed: int, episodes: int, noise: int) -> dict[str, Any]:
    policy = problem.policy(target)
    log = problem.log(episodes, policy, np.random.default_rng(seed), n_noise=noise)
    begun, cpu = time.perf_counter(), time.process_time()
    result = evaluate(log, gamma=GAMMA, n_resamples=0, seed=seed)
    low, high = result.interval
    truth = problem.exact_value(policy)
    kept = [f.name for f in result.features]
    row = {
        "target": target,
        "seed": seed,
        "error": result.value - truth,
        "covered": low <= truth <= high,
        "width": high - low,
        "kept": len(kept),
        "noise_kept": sum(name.startswith("noise_") for name in kept),
        "seconds": time.perf_counter() - begun,
        "cpu": time.process_time() - cpu,
    }
    for e in result.comparisons:
        bounds = e.interval()
        row |= {f"error {e.name}": e.value - truth, f"covered {e.name}": bounds[0] <= truth <= bounds[1]}
    return row


def rmse(values: list[float]) -> float:
    return float(np.sqrt(np.nanmean(np.square(values))))


def summary(rows: list[dict[str, Any]], bound: float, noise: int) -> dict[str, Any]:
    errors = [row["error"] for row in rows]
    names = [key.removeprefix("error ") for key in rows[0] if key.startswith("error ")]
    out = {
        "seeds": len(rows),
        "rmse": rmse(errors),
        "bias": float(np.mean(errors)),
        "worst": float(np.abs(errors).max()),
        "bound": bound,
        "coverage": float(np.mean([row["covered"] for row in rows])),
        "width": float(np.mean([row["width"] for row in rows])),
        "features": float(np.mean([row["kept"] for row in rows])),
        "cpu_seconds": float(np.median([row["cpu"] for row in rows])),
        "rmse_others": {name: rmse([row[f"error {name}"] for row in rows]) for name in names},
        "coverage_others": {name: float(np.mean([row[f"covered {name}"] for row in rows])) for name in names},
    }
    if noise:
        out["noise_dropped"] = 1 - float(np.mean([row["noise_kept"] for row in rows])) / noise
    return out


def text(target: str, s: dict[str, Any]) -> str:
    lines = [
        f"{target}: RMSE {s['rmse']:.4f} (bound {s['bound']:.4f}), bias {s['bias']:+.4f}, worst {s['worst']:.4f} over "
        f"{s['seeds']} seeds",
        f"  95 % interval covers {s['coverage']:.1%}, mean width {s['width']:.4f}; {s['features']:.1f} features kept; "
        f"{s['cpu_seconds']:.1f} CPU s",
        "  others: " + ", ".join(f"{k} {v:.3f} ({s['coverage_others'][k]:.0%})" for k, v in s["rmse_others"].items()),
    ]
    return "\n".join(lines + ([f"  noise columns dropped: {s['noise_dropped']:.2%}"] if "noise_dropped" in s else []))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--episodes", type=int, default=2000)
    parser.add_argument("--noise", type=int, default=0)
    parser.add_argument("--targets", nargs="+", default=["greedy", "half", "expert"])
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    problem = ICUSepsis.load(GAMMA)
    found = {}
    for target in args.targets:
        seeds = range(args.first_seed, args.first_seed + args.seeds)
        rows = []
        for seed in seeds:
            rows.append(one(problem, target, seed, args.episodes, args.noise))
            print(f"\r{target} {len(rows)}/{args.seeds}", end="", file=sys.stderr, flush=True)
        print(file=sys.stderr)
        found[target] = summary(rows, problem.error_bound(problem.policy(target), args.episodes), args.noise)
        if not args.json:
            print(text(target, found[target]), flush=True)
    if args.json:
        print(json.dumps(found, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
