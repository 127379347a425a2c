"""A made-up evaluation with every part a report can show."""

from __future__ import annotations

import numpy as np

NAMES = [
    "SOFA",
    "age",
    "Arterial_lactate",
    "GCS",
    "BUN",
    "mechvent",
    "output_4hourly",
    "Shock_Index",
    "<b>odd & name</b>",
]


def example_payload() -> dict:
    rng = np.random.default_rng(0)
    weights = np.array([-0.031, -0.022, -0.017, 0.015, -0.011, -0.0081, 0.0062, -0.0041, 0.0012])
    penalty = np.geomspace(0.2, 0.0005, 40)
    grow = [np.clip(1 - penalty / (0.2 * 0.75**i), 0, None) for i in range(9)]
    noise = {f"noise_{i}": (rng.normal() * 0.002 * np.clip(1 - penalty / 0.003, 0, None)).tolist() for i in range(15)}
    edges = np.geomspace(0.02, 40, 30)
    counts = (900 * np.exp(-(np.log(edges[:-1]) ** 2))).round()
    lines = {n: (w * g).tolist() for n, w, g in zip(NAMES, weights, grow, strict=True)}
    observed = np.linspace(0.55, 0.85, 10) + rng.normal(size=10) * 0.02
    return {
        "value": 0.7312,
        "interval": [0.7064, 0.756],
        "level": 0.95,
        "standard_error": 0.0126,
        "target": "target_prob",
        "gamma": 0.99,
        "severity": None,
        "behavior_value": {"name": "observed mean return", "value": 0.7221, "interval": [0.7045, 0.7397]},
        "observed_return": {"name": "observed mean return", "value": 0.7221, "interval": [0.7045, 0.7397]},
        "behavior_modelled": {"name": "logged behaviour, modelled", "value": 0.7238, "interval": [0.705, 0.7426]},
        "difference": {"value": 0.0091, "interval": [-0.0112, 0.0294]},
        "effective_episodes": 812.0,
        "effective_rows": 6904.0,
        "negative_share": 0.012,
        "ess": 69.4,
        "ess_rows": 9012.0,
        "max_ratio": 24.7,
        "coverage": 0.997,
        "n_episodes": 2000,
        "n_rows": 18471,
        "bellman_error": {"value": 0.0012, "noise": 0.0009, "constant": 0.0069},
        "features": [
            {"name": n, "weight": float(w), "interval": [float(w - 0.006), float(w + 0.006)], "frequency": float(f)}
            for n, w, f in zip(NAMES, weights, [1, 1, 1, 0.98, 0.94, 0.88, 0.71, 0.55, 0.31], strict=True)
        ],
        "n_candidates": 1047,
        "n_used": 1047,
        "comparisons": [
            {"name": "LSTD, features that matter", "value": 0.7301, "interval": [0.705, 0.755], "ess": 9012},
            {"name": "WIS", "value": 0.653, "interval": [0.51, 0.796], "ess": 69.4},
            {"name": "PDIS", "value": 0.801, "interval": [0.31, 1.29], "ess": 69.4},
            {"name": "WPDIS", "value": 0.688, "interval": [0.55, 0.82], "ess": 69.4},
            {"name": "DR", "value": 0.744, "interval": [0.61, 0.88], "ess": 69.4},
            {"name": "IS", "value": None, "interval": None, "ess": 0.0},
        ],
        "warnings": [],
        "ratio_histogram": {"edges": edges.tolist(), "counts": counts.tolist(), "zero": 4021},
        "calibration": [
            {"predicted": float(v), "observed": float(o), "interval": [float(o - 0.04), float(o + 0.04)], "count": 1847}
            for v, o in zip(np.linspace(0.55, 0.85, 10), observed, strict=True)
        ],
        "path": {"penalty": penalty.tolist(), "weights": {**lines, **noise}, "chosen": 0.004},
        "convergence": {"iteration": list(range(0, 2000, 20)), "gap": (0.5 * 0.985 ** np.arange(0, 2000, 20)).tolist()},
        "fit": "The value is computed from all 1,047 features. Those that are kept were chosen by elimination.",
        "behavior_policy": None,
        "settings": {"source": "icu.parquet", "discount": 0.99, "seed": 0, "sparsetd": "0.1.0"},
    }  # fmt: skip
