"""How good are the answers of `evaluate`? ICU-Sepsis logs, many seeds, exact truth by dynamic programming.

    python -m benchmarks evaluation                                  20 seeds, each without and with 1,000 noise columns
    python -m benchmarks evaluation --seeds 100 --noise 0            more seeds, no noise

For every target policy: bias and root mean square error of the value, next to the least standard deviation that any
estimator without structural knowledge can have at this size (`bound`); coverage and mean width of the 95 % interval;
the errors of importance sampling and doubly robust estimates on the same logs; seconds of CPU per evaluation. With
noise: by how much the error grows and the share of noise columns that were dropped. At the end the README's two
commands are timed from start to end, and each figure stands beside its goal. Needs: pip install icu-sepsis
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from sparsetd.evaluation import evaluate
from sparsetd.problems.icu_sepsis import N_PATIENT_STATES, ICUSepsis

GAMMA = 0.99
TARGETS = ["greedy", "half", "expert"]
RMSE, COVERAGE, GROWTH, DROPPED, SECONDS = 0.012, (0.92, 0.98), 0.20, 0.95, 5.0


def error_bound(problem: ICUSepsis, policy: Any, n_episodes: int) -> float:
    """Least standard deviation of any regular estimator that knows μ but no structure (Kallus & Uehara, 2020).

    √(Var[V(s₀)] + E Σ_t (w(s_t) ρ_t)² Var[r + γV(s') | s, a]) / √n, with w = discounted visits of π over those of μ.
    """
    mdp, k, expert = problem.mdp, N_PATIENT_STATES, problem.policy("expert")
    V = problem.under(policy).value
    P, outcome = mdp.P.swapaxes(0, 1)[:k], mdp.R.swapaxes(0, 1)[:k] + mdp.gamma * V
    mean = (P * outcome).sum(axis=2)
    noise = (P * outcome**2).sum(axis=2) - mean**2
    logged, wanted = visits(problem, expert, 1.0), visits(problem, policy, mdp.gamma)
    ratio = np.divide(policy, expert, out=np.zeros_like(policy), where=expert > 0)[:k]
    steps = (logged[:, None] * expert[:k] * ((wanted / logged)[:, None] * ratio) ** 2 * noise).sum()
    first = mdp.start[:k] @ (V[:k] - mdp.start[:k] @ V[:k]) ** 2
    return float(np.sqrt((first + steps) / n_episodes))


def visits(problem: ICUSepsis, policy: Any, gamma: float) -> Any:
    """Expected discounted visits of the patient states."""
    P = problem.under(policy).transition[:N_PATIENT_STATES, :N_PATIENT_STATES]
    return np.linalg.solve(np.eye(N_PATIENT_STATES) - gamma * P.T, problem.mdp.start[:N_PATIENT_STATES])


def one(problem: ICUSepsis, target: str, seed: int, episodes: int, noise: int) -> dict[str, Any]:
    policy = problem.policy(target)
    log = problem.log(episodes, policy, np.random.default_rng(seed), n_noise=noise)
    begun, cpu = time.perf_counter(), time.process_time()
    result = evaluate(log, gamma=GAMMA, n_resamples=0, random_state=seed)
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
    # An estimate that rests on the features that matter has another name where the value is curved.
    names = dict.fromkeys(key.removeprefix("error ") for row in rows for key in row if key.startswith("error "))
    having = {name: [row for row in rows if f"error {name}" in row] for name in names}
    out = {
        "seeds": len(rows),
        "noise": noise,
        "rmse": rmse(errors),
        "bias": float(np.mean(errors)),
        "worst": float(np.abs(errors).max()),
        "bound": bound,
        "coverage": float(np.mean([row["covered"] for row in rows])),
        "width": float(np.mean([row["width"] for row in rows])),
        "features": float(np.mean([row["kept"] for row in rows])),
        "cpu_seconds": float(np.median([row["cpu"] for row in rows])),
        "rmse_others": {name: rmse([row[f"error {name}"] for row in some]) for name, some in having.items()},
        "coverage_others": {
            name: float(np.mean([row[f"covered {name}"] for row in some])) for name, some in having.items()
        },
    }
    if noise:
        out["noise_dropped"] = 1 - float(np.mean([row["noise_kept"] for row in rows])) / noise
    return out


def text(target: str, s: dict[str, Any]) -> str:
    with_noise = f" with {s['noise']:,} noise columns" if s["noise"] else ""
    lines = [
        f"{target}{with_noise}: RMSE {s['rmse']:.4f} (bound {s['bound']:.4f}), bias {s['bias']:+.4f}, worst "
        f"{s['worst']:.4f} over {s['seeds']} seeds",
        f"  95 % interval covers {s['coverage']:.1%}, mean width {s['width']:.4f}; {s['features']:.1f} features kept; "
        f"{s['cpu_seconds']:.1f} CPU s",
        "  others: " + ", ".join(f"{k} {v:.3f} ({s['coverage_others'][k]:.0%})" for k, v in s["rmse_others"].items()),
    ]
    return "\n".join(lines + ([f"  noise columns dropped: {s['noise_dropped']:.2%}"] if "noise_dropped" in s else []))


def end_to_end(noise: int) -> dict[str, float]:
    """CPU seconds and time on the clock of `sparsetd evaluate` on the README's log, from start to written report."""
    with tempfile.TemporaryDirectory() as folder:
        log, page = Path(folder, "icu.parquet"), Path(folder, "icu.html")
        command = [sys.executable, "-m", "sparsetd"]
        write = [*command, "example", "icu-sepsis", "--noise", str(noise), "--out", str(log), "--quiet"]
        subprocess.run(write, check=True, stdout=subprocess.DEVNULL)
        before, begun = _cpu_of_children(), time.perf_counter()
        ask = [*command, "evaluate", str(log), "--target", "target_prob", "--report", str(page), "--quiet"]
        subprocess.run(ask, check=True, stdout=subprocess.DEVNULL)
        return {"cpu": _cpu_of_children() - before, "clock": time.perf_counter() - begun}


def _cpu_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def verdicts(found: dict[str, dict[str, Any]], timed: dict[int, dict[str, float]]) -> list[tuple[str, bool]]:
    """Every figure with its goal, and whether it was reached."""
    out = []
    for target, s in found.items():
        plain, noisy = s["plain"], s.get("noisy")
        low, high = COVERAGE
        out.append((f"{target}: RMSE {plain['rmse']:.4f} (goal ≤ {RMSE})", plain["rmse"] <= RMSE))
        covers = f"{target}: interval covers {plain['coverage']:.1%} (goal {low:.0%} to {high:.0%})"
        out.append((covers, low <= plain["coverage"] <= high))
        if noisy is not None:
            growth, dropped = noisy["rmse"] / plain["rmse"] - 1, noisy["noise_dropped"]
            out.append((f"{target}: noise makes the error {growth:+.0%} (goal ≤ {GROWTH:+.0%})", growth <= GROWTH))
            out.append((f"{target}: {dropped:.2%} of the noise dropped (goal ≥ {DROPPED:.0%})", dropped >= DROPPED))
    for noise, took in timed.items():
        what = f"end to end with {noise:,} noise columns" if noise else "end to end"
        took_text = f"{took['cpu']:.1f} CPU s, {took['clock']:.1f} s on the clock"
        out.append((f"{what}: {took_text} (goal < {SECONDS:g} CPU s)", took["cpu"] < SECONDS))
    return out


def measure(problem: ICUSepsis, target: str, args: argparse.Namespace, noise: int) -> dict[str, Any]:
    rows = []
    for seed in range(args.first_seed, args.first_seed + args.seeds):
        rows.append(one(problem, target, seed, args.episodes, noise))
        print(f"\r{target} {noise:,} noise columns {len(rows)}/{args.seeds}", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    found = summary(rows, error_bound(problem, problem.policy(target), args.episodes), noise)
    if not args.json:
        print(text(target, found), flush=True)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--episodes", type=int, default=2000)
    parser.add_argument("--noise", type=int, default=1000, help="columns of noise in the second half (0: no such half)")
    parser.add_argument("--targets", nargs="+", default=TARGETS)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    problem = ICUSepsis.load(GAMMA)
    kinds = {"plain": 0} | ({"noisy": args.noise} if args.noise else {})
    found = {
        target: {kind: measure(problem, target, args, noise) for kind, noise in kinds.items()}
        for target in args.targets
    }
    timed = {noise: end_to_end(noise) for noise in kinds.values()}
    if args.json:
        print(json.dumps({"targets": found, "end_to_end": timed}, indent=2))
        return 0
    for sentence, reached in verdicts(found, timed):
        print(f"{'reached    ' if reached else 'NOT REACHED'}  {sentence}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
