"""What would another treatment policy achieve? Intensive-care patients, 47 clinical numbers, a known truth.

The log is of clinicians treating septic patients (the ICU-Sepsis benchmark). The question: how many would survive if
every choice were the clinicians' most frequent one? Columns of pure noise are added to see whether they are found
out. Since the benchmark is an MDP, the true answer is known and printed beside ours.

    pip install icu-sepsis
    python examples/icu_sepsis_evaluation.py --noise 100
"""

from __future__ import annotations

import argparse

import numpy as np

from sparsetd.evaluation import evaluate
from sparsetd.problems.icu_sepsis import ICUSepsis
from sparsetd.report.page import write_page


def main(episodes: int = 2000, noise: int = 0, report: str | None = "icu-sepsis.html") -> None:
    problem = ICUSepsis.load(gamma=0.99)
    policy = problem.policy("greedy")
    log = problem.log(episodes, policy, np.random.default_rng(0), n_noise=noise)
    print(log)

    # The log holds behavior_prob and target_prob of every action; a callable policy would do as well.
    result = evaluate(log, gamma=0.99, n_resamples=10)
    print(result)

    low, high = result.interval
    truth = problem.exact_value(policy)
    print(
        f"\ntruth by dynamic programming: {truth:.4f} ({'inside' if low <= truth <= high else 'outside'} the interval)"
    )
    kept = [f.name for f in result.features if f.name.startswith("noise_")]
    print(f"noise columns kept: {len(kept)} of {noise}")

    if report:
        write_page(result.to_dict(), report)
        print(f"report: {report}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--episodes", type=int, default=2000)
    parser.add_argument("--noise", type=int, default=0)
    parser.add_argument("--report", default="icu-sepsis.html")
    main(**vars(parser.parse_args()))
