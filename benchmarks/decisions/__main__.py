"""Do the decisions hold? `compare`, `improve` and `sensitivity` on logs of problems whose truth is known exactly.

    python -m benchmarks decisions --n-jobs 16               everything; every log is another random problem
    python -m benchmarks decisions --only compare --logs 40
    python -m benchmarks decisions --out rows.jsonl        keeps every log's row: a run that was stopped goes on
    python -m benchmarks decisions --quick                 a few logs of each, to see that it runs

The parts:

    compare      five policies: familywise coverage of values and of all differences, whether the best policy is in the
                 best set, and the width of the intervals against Bonferroni's
    improve      logs on which no policy is better (how often one is recommended all the same), and logs on which some
                 are (how often one is recommended, and its true gain against the best possible)
    seeds        logs on which no policy is better, asked again and again with other seeds: whether any of 15 is lucky
    confounding  logs whose actions an unrecorded cause drove with strength Γ*: whether the bounds at Γ hold the truth
    clusters     60 patients with 10 stays each: coverage with the patient as the cluster, and without
    robustness   logs whose gain is all an unrecorded cause of strength Γ: how often Γ* is at most Γ
    cost         CPU time of `compare` with five policies against one `evaluate`, and of `improve`, on two logs

Seeds start at 10,000 (`--first-seed`); while this was built, seeds below 2,000 were used.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import joblib
import numpy as np
from scipy.special import softmax
from scipy.stats import norm

from benchmarks.decisions.dependence import GAMMA, memoryless, mostly_one, stays
from benchmarks.decisions.problems import Clinic, blended, confounded, tabular
from sparsetd.evaluation import compare, evaluate, improve, sensitivity

Work = Callable[..., dict[str, Any]]
# A cell: how its problem is made, and how many episodes its logs have.
COMPARED: dict[str, tuple[Callable[[Any], Clinic], int]] = {
    "tabular, 200": (tabular, 200),
    "tabular, 1000": (tabular, 1000),
    "tabular, strong shift, 1000": (lambda rng: tabular(rng, shift=2.0), 1000),
    "Q linear, 400": (blended, 400),
    "Q linear, 2000": (blended, 2000),
    "hidden column, 1000": (lambda rng: blended(rng, hidden=True), 1000),
}
NULL = {
    "no effect, 400": (lambda rng: blended(rng, effect=0.0), 400),
    "no effect, hidden column, 400": (lambda rng: blended(rng, effect=0.0, hidden=True), 400),
}
EFFECT = {"effect .3, 400": (blended, 400), "effect .3, 2000": (blended, 2000)}
ASKED_AGAIN = 15  # seeds of `improve` on one log
STRENGTHS = (1.0, 1.5, 2.0, 3.0)
GAMMAS = (1.5, 2.0, 3.0, 5.0)


def five(problem: Clinic, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """The behaviour, and half and all of the way to two other policies."""
    n, k = problem.behavior.shape
    others = [softmax(np.log(problem.behavior) + rng.normal(size=(n, k)), axis=1) for _ in range(2)]
    mixed = {
        f"{share:g} of {i}": (1 - share) * problem.behavior + share * p
        for i, p in enumerate(others)
        for share in (0.5, 1)
    }
    return {"behavior": problem.behavior, **mixed}


def compared(cell: str, seed: int) -> dict[str, float]:
    rng = np.random.default_rng(seed)
    make, episodes = COMPARED[cell]
    problem = make(rng)
    tables = five(problem, rng)
    policies = {name: "behavior" if name == "behavior" else problem.policy(t) for name, t in tables.items()}
    found = compare(problem.log(episodes, rng), policies, gamma=problem.gamma)
    truth = {name: problem.value(t) for name, t in tables.items()}
    holds = {"values": found.values, "differences": found.differences}
    exact = {"values": truth, "differences": {(a, b): truth[a] - truth[b] for a, b in found.differences}}
    out = {}
    for kind, together in holds.items():
        ends = {key: together.interval(key) for key in together}
        alone = {key: together[key].interval(0.95) for key in together}
        out[kind] = all(low <= exact[kind][key] <= high for key, (low, high) in ends.items())
        out[f"naive {kind}"] = all(low <= exact[kind][key] <= high for key, (low, high) in alone.items())
        out[f"width {kind}"] = norm.ppf(0.5 + together.each / 2) / norm.ppf(1 - 0.025 / len(together))
    return {**out, "best": max(truth, key=lambda name: truth[name]) in found.best_set}


def improved(cell: str, seed: int) -> dict[str, float]:
    rng = np.random.default_rng(seed)
    make, episodes = {**NULL, **EFFECT}[cell]
    problem = make(rng)
    found = improve(problem.log(episodes, rng), gamma=problem.gamma, random_state=seed)
    before = problem.value(problem.behavior)
    gain = problem.value(found.policy(problem.seen)) - before
    low, high = found.interval
    return {
        "recommended": found.recommended,
        "gain": gain,
        "possible": problem.best() - before,
        "covered": low <= gain <= high,
    }


def asked_again(cell: str, seed: int) -> dict[str, float]:
    """The seeds that recommend a policy on a log where none is better, and the greatest lower end of all."""
    rng = np.random.default_rng(seed)
    make, episodes = NULL[cell]
    problem = make(rng)
    log = problem.log(episodes, rng)
    found = [improve(log, gamma=problem.gamma, random_state=k) for k in range(ASKED_AGAIN)]
    return {"recommended": sum(f.recommended for f in found), "low": max(f.interval[0] for f in found)}


def hidden(strength: float, seed: int) -> dict[str, float]:
    rng = np.random.default_rng(seed)
    problem = confounded(rng, strength)
    table = softmax(rng.normal(size=problem.behavior.shape), axis=1)
    truth = problem.value(table)
    log = problem.log(400, rng)
    found = sensitivity(log, problem.policy(table), gamma=problem.gamma, confounding=GAMMAS)
    out = {f"Γ {b.confounding:g}": b.interval(0.95)[0] <= truth <= b.interval(0.95)[1] for b in found.bounds}
    widths = np.diff([b.high.value - b.low.value for b in found.bounds])
    return {**out, "monotone": bool((widths >= -1e-9).all())}


def clustered(_: str, seed: int) -> dict[str, float]:
    log, patient, truth = stays(np.random.default_rng(seed))
    plain: dict[str, Any] = {"gamma": GAMMA, "features": None, "n_resamples": 0}
    ends = {"cluster": evaluate(log, cluster=patient, **plain).interval, "plain": evaluate(log, **plain).interval}
    return {name: low <= truth <= high for name, (low, high) in ends.items()}


def explained(strength: float, seed: int) -> dict[str, float]:
    log = memoryless(np.random.default_rng(seed), strength)
    found = evaluate(log, mostly_one, gamma=GAMMA, features=None, n_resamples=0)
    star = found.robustness.gamma if found.robustness is not None else None
    return {"below": star is not None and star <= strength, "better": found.difference.interval(0.95)[0] > 0}


def cost() -> dict[str, dict[str, float]]:
    """CPU seconds of one `evaluate`, of `compare` with five policies and of `improve` on two logs, taken in turns."""
    from sparsetd.problems.icu_sepsis import ICUSepsis

    rng = np.random.default_rng(0)
    icu, problem = ICUSepsis.load(0.99), blended(rng)
    small = problem.log(2000, rng)
    small = small.with_target(problem.policy(five(problem, rng)["1 of 0"]))
    logs = {"ICU-Sepsis, 2,000 patients": icu.log(2000, icu.policy("greedy"), rng), "Q linear, 2000": small}
    return {name: _timed(log) for name, log in logs.items()}


def towards(log: Any) -> dict[str, Any]:
    """The behaviour, and a quarter, half, three quarters and all of the way to the target of a log."""
    shares = (0.25, 0.5, 0.75)
    mixed = {f"{share:g}": (1 - share) * log.behavior_prob + share * log.target_prob for share in shares}
    # The target itself by what the log says: an array of 0.0 and 1.0 might be actions.
    return {"current": "behavior", **mixed, "1": None}


def _timed(log: Any) -> dict[str, float]:
    tasks = {
        "evaluate": lambda: evaluate(log, gamma=0.99),
        "compare": lambda: compare(log, towards(log), gamma=0.99),
    }
    evaluate(log, gamma=0.99)  # compiled and cached before anything is timed
    rounds = [{name: _cpu(task) for name, task in tasks.items()} for _ in range(5)]
    least = {name: min(spent[name] for spent in rounds) for name in tasks}
    return {**least, "improve": _cpu(lambda: improve(log, gamma=0.99))}


def _cpu(task: Callable[[], Any]) -> float:
    begun = time.process_time()
    task()
    return time.process_time() - begun


def rows_of(work: Work, cell: Any, options: argparse.Namespace, logs: int) -> dict[str, np.ndarray]:
    """One entry per log for every figure of a cell; what the file `--out` holds is not run again."""
    begun, part = time.perf_counter(), f"{work.__name__} {cell}"
    kept = {key[1]: row for key, row in read(options.out).items() if key[0] == part}
    seeds = range(options.first_seed, options.first_seed + logs)
    left = [seed for seed in seeds if seed not in kept]
    results = joblib.Parallel(options.n_jobs, return_as="generator")(
        joblib.delayed(quietly)(work, cell, s) for s in left
    )
    for seed, row in zip(left, results, strict=True):
        kept[seed] = row
        keep(options.out, part, seed, row)
    print(f"{part}: {len(left)} logs in {time.perf_counter() - begun:.0f} s", file=sys.stderr, flush=True)
    return {name: np.array([kept[seed][name] for seed in seeds], dtype=float) for name in kept[seeds[0]]}


def quietly(work: Work, *arguments: Any) -> dict[str, float]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {name: float(value) for name, value in work(*arguments).items()}


def read(path: Path | None) -> dict[tuple[str, int], dict[str, float]]:
    """The rows of a file by cell and seed; a last line that was cut off does not count."""
    lines = path.read_text().splitlines(keepends=True) if path is not None and path.exists() else []
    entries = [json.loads(line) for line in lines if line.endswith("\n")]
    return {(entry["part"], entry["seed"]): entry["row"] for entry in entries}


def keep(path: Path | None, part: str, seed: int, row: dict[str, float]) -> None:
    if path is not None:
        with path.open("a") as file:
            file.write(json.dumps({"part": part, "seed": seed, "row": row}) + "\n")


class Verdicts:
    """Figures beside their goals, printed at the end."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def add(self, sentence: str, reached: bool) -> None:
        self.lines.append(f"{'reached    ' if reached else 'NOT REACHED'}  {sentence}")


def run_compare(options: argparse.Namespace, verdicts: Verdicts) -> None:
    print(f"compare, {options.logs} logs a cell: share of logs in which all intervals hold (naive 95 % intervals)")
    for cell in COMPARED:
        found = rows_of(compared, cell, options, options.logs)
        mean = {name: float(column.mean()) for name, column in found.items()}
        print(
            f"  {cell:<28s} values {mean['values']:.1%} ({mean['naive values']:.1%}), differences "
            f"{mean['differences']:.1%} ({mean['naive differences']:.1%}); best in the set {mean['best']:.1%}; width "
            f"{mean['width values']:.2f} and {mean['width differences']:.2f} of Bonferroni's",
            flush=True,
        )
        for kind in ("values", "differences"):
            verdicts.add(
                f"{cell}: familywise {mean[kind]:.1%} for {kind} (goal 93 to 97 %)", 0.93 <= mean[kind] <= 0.97
            )
            width = mean[f"width {kind}"]
            verdicts.add(f"{cell}: width {width:.3f} of Bonferroni's for {kind} (goal ≤ .93)", width <= 0.93)


def run_improve(options: argparse.Namespace, verdicts: Verdicts) -> None:
    print(f"improve, {options.logs} logs a cell")
    false, total = 0, 0
    for cell in NULL:
        found = rows_of(improved, cell, options, options.logs)
        false, total = false + int(found["recommended"].sum()), total + options.logs
        print(f"  {cell:<28s} recommended in {int(found['recommended'].sum())} of {options.logs}", flush=True)
    verdicts.add(f"false recommendations {false} of {total} (goal ≤ 2.5 %)", false <= 0.025 * total)
    for cell in EFFECT:
        found = rows_of(improved, cell, options, max(options.logs // 4, 2))
        chosen = found["recommended"] > 0
        gain, possible = found["gain"][chosen].mean(), found["possible"][chosen].mean()
        print(
            f"  {cell:<28s} recommended in {chosen.mean():.0%}; true gain then {gain:.3f} of {possible:.3f} possible; "
            f"worse than the log in {int((found['gain'][chosen] < 0).sum())}; interval of the test covers "
            f"{found['covered'].mean():.0%}",
            flush=True,
        )
    verdicts.add(f"gain {gain / possible:.0%} of the possible at 2,000 episodes (goal ≥ 80 %)", gain >= 0.8 * possible)


def run_seeds(options: argparse.Namespace, verdicts: Verdicts) -> None:
    print(f"improve with {ASKED_AGAIN} seeds on every log, {options.logs} logs a cell")
    lucky = 0
    for cell in NULL:
        found = rows_of(asked_again, cell, options, options.logs)["recommended"]
        lucky += int((found > 0).sum())
        print(
            f"  {cell:<28s} recommended by any seed in {int((found > 0).sum())} of {options.logs} logs, by "
            f"{int(found.sum())} of {ASKED_AGAIN * options.logs} seeds",
            flush=True,
        )
    total = options.logs * len(NULL)
    verdicts.add(f"the best of {ASKED_AGAIN} seeds: {lucky} of {total} null logs (goal ≤ 5 %)", lucky <= 0.05 * total)


def run_confounding(options: argparse.Namespace, verdicts: Verdicts) -> None:
    print(f"confounding, {options.logs} logs for each Γ*: share in which bounds and interval hold the truth")
    for strength in STRENGTHS:
        found = rows_of(hidden, strength, options, options.logs)
        shares = ", ".join(f"{name} {column.mean():.0%}" for name, column in found.items())
        print(f"  Γ* {strength:<4g} {shares}", flush=True)
        held = [found[f"Γ {g:g}"].mean() for g in (1.0, *GAMMAS) if g >= strength]
        verdicts.add(
            f"Γ* {strength:g}: truth inside at every Γ ≥ Γ* in {min(held):.0%} (goal ≥ 94 %)", min(held) >= 0.94
        )
        verdicts.add(f"Γ* {strength:g}: bounds widen with Γ in {found['monotone'].mean():.0%}", found["monotone"].all())


def run_clusters(options: argparse.Namespace, verdicts: Verdicts) -> None:
    found = rows_of(clustered, "60 x 10", options, options.logs)
    share = {name: float(column.mean()) for name, column in found.items()}
    print(f"clusters, {options.logs} logs: covers in {share['cluster']:.1%}, without `cluster` in {share['plain']:.1%}")
    verdicts.add(f"60 patients with 10 stays: {share['cluster']:.1%} (goal ≥ 92 %)", share["cluster"] >= 0.92)


def run_robustness(options: argparse.Namespace, verdicts: Verdicts) -> None:
    for strength in STRENGTHS[1:]:
        found = rows_of(explained, strength, options, options.logs)
        below, better = float(found["below"].mean()), float(found["better"].mean())
        print(f"robustness, Γ {strength:g}: Γ* is at most Γ in {below:.1%}; called better in {better:.1%}", flush=True)
        verdicts.add(f"Γ {strength:g}: Γ* at most Γ in {below:.1%} (goal ≥ 95 %)", below >= 0.95)


def run_cost(_: argparse.Namespace, verdicts: Verdicts) -> None:
    print("cost in CPU seconds")
    for log, spent in cost().items():
        ratio = spent["compare"] / spent["evaluate"]
        print(f"  {log:<28s} " + ", ".join(f"{k} {v:.2f}" for k, v in spent.items()), flush=True)
        verdicts.add(f"{log}: compare of 5 policies costs {ratio:.2f} of one evaluate (goal ≤ 1.5)", ratio <= 1.5)
        verdicts.add(f"{log}: improve {spent['improve']:.1f} CPU s (goal < 60)", spent["improve"] < 60)


PARTS = {
    "compare": run_compare,
    "improve": run_improve,
    "seeds": run_seeds,
    "confounding": run_confounding,
    "clusters": run_clusters,
    "robustness": run_robustness,
    "cost": run_cost,
}


def main() -> None:
    layout = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser("python -m benchmarks decisions", description=__doc__, formatter_class=layout)
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS), metavar="PART", help="parts to run")
    parser.add_argument("--logs", type=int, default=400, metavar="N", help="logs of a cell (default: %(default)s)")
    parser.add_argument("--n-jobs", type=int, default=1, metavar="N", help="processes (default: %(default)s)")
    parser.add_argument("--first-seed", type=int, default=10_000, metavar="N", help="default: %(default)s")
    parser.add_argument("--out", type=Path, metavar="FILE", help="keep every log's row here, and go on from it")
    parser.add_argument("--quick", action="store_true", help="8 logs a cell")
    options = parser.parse_args()
    options.logs = 8 if options.quick else options.logs
    verdicts = Verdicts()
    for part in options.only:
        PARTS[part](options, verdicts)
    print("\n".join(verdicts.lines))


if __name__ == "__main__":
    main()
