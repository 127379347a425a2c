"""`sparsetd select`: the regularization path and the features that matter."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import Any

import numpy as np

from sparsetd.cli.command import Command, Outcome
from sparsetd.cli.console import Console
from sparsetd.cli.log_options import add_gamma, add_log, read_log
from sparsetd.cli.policies import TARGET_HELP, target_of
from sparsetd.report.table import Column, text_table

SUMMARY = "which features carry the value: the path of penalties and the choice"
DETAILS = """
Solves the sparse problem for a range of penalties, drops what chance would explain, and prints
the path with the features that are left.

examples:
  sparsetd select log.parquet
  sparsetd select log.parquet --target target_prob --gamma 0.95 --json
"""
COLUMNS = (Column("penalty", "penalty", ".3g"), Column("n_features", "features", "d"), Column("chosen", ""))


def arguments(parser: ArgumentParser) -> None:
    add_log(parser)
    parser.add_argument("--target", metavar="POLICY", help=TARGET_HELP)
    add_gamma(parser)


def run(args: Namespace, console: Console) -> Outcome:
    from sparsetd.evaluation.target import pose

    target, columns = target_of(args.target)
    log = pose(read_log(args, **columns), target).log
    choice, names = _chosen(args, log, console)
    rows, coef = _rows(choice), choice.model.coef_
    kept = [(str(names[j]), float(coef[j])) for j in np.argsort(-np.abs(coef), kind="stable") if coef[j] != 0]
    head = f"{len(kept)} of {len(names)} features chosen (weight per standard deviation):"
    lines = [
        text_table(rows, COLUMNS, console.bold),
        "",
        head,
        *(f"  {name:<28s} {weight:+.4g}" for name, weight in kept),
    ]
    features = [{"name": name, "weight": weight} for name, weight in kept]
    return Outcome("\n".join(lines), {"path": rows, "features": features, "n_candidates": len(names)})


def _chosen(args: Namespace, log: Any, console: Console) -> tuple[Any, Any]:
    from sklearn.preprocessing import StandardScaler

    from sparsetd.evaluation.choice import choose
    from sparsetd.features.featurize import feature_names, featurize, fit_features
    from sparsetd.selection import SparseTDCV

    phi = fit_features(log, StandardScaler())
    batch, names = featurize(log, phi, args.gamma), feature_names(phi, log)
    console.progress(f"choosing among {batch.n_features} features of {log.n_episodes:,} episodes")
    return choose(batch, SparseTDCV(gamma=args.gamma, fit_intercept=True)), names


def _rows(choice: Any) -> list[dict[str, Any]]:
    """One row per penalty of the path: how many features it lets in."""
    model, path = choice.model, choice.path
    return [
        {"penalty": float(rho), "n_features": int(n), "chosen": "lets in all" if rho == model.rho_theta_ else ""}
        for rho, n in zip(path.rhos, path.n_active, strict=True)
    ]


SELECT = Command("select", SUMMARY, DETAILS, arguments, run)
