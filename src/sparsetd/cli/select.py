"""Which features carry the value: the path of penalties and the choice.

Solves the sparse problem for a range of penalties, drops what chance would explain, and prints
the path with the features that are left.

examples:
  sparsetd select log.parquet
  sparsetd select log.parquet --target target_prob --gamma 0.95 --json
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import Any

import numpy as np

from sparsetd.cli.command import Command, Console, Outcome, words
from sparsetd.cli.options import TARGET_HELP, add_gamma, add_log, read_shards, target_of
from sparsetd.report.words import Column, text_table

COLUMNS = (Column("penalty", "penalty", ".3g"), Column("n_features", "features", "d"), Column("chosen", ""))


def arguments(parser: ArgumentParser) -> None:
    add_log(parser)
    parser.add_argument("--target", metavar="POLICY", help=TARGET_HELP)
    add_gamma(parser)


def run(args: Namespace, console: Console) -> Outcome:
    target, columns = target_of(args.target, args.log)
    parts = read_shards(args, **columns)
    path, coef, names = (_on_rows if len(parts) == 1 else _on_sums)(args, parts, target, console)
    rows = _rows(path, coef)
    kept = [(str(names[j]), float(coef[j])) for j in np.argsort(-np.abs(coef), kind="stable") if coef[j] != 0]
    head = f"{len(kept)} of {len(names)} features chosen (weight per standard deviation):"
    shown = [f"  {name:<28s} {weight:+.4g}" for name, weight in kept]
    features = [{"name": name, "weight": weight} for name, weight in kept]
    text = "\n".join([text_table(rows, COLUMNS, console.bold), "", head, *shown])
    return Outcome(text, {"path": rows, "features": features, "n_candidates": len(names)})


def _on_rows(args: Namespace, parts: Any, target: Any, console: Console) -> tuple[Any, Any, Any]:
    """The path, the weights and the names of the columns of a log in memory."""
    from sklearn.preprocessing import StandardScaler

    from sparsetd.evaluation.choice import choose
    from sparsetd.evaluation.target import pose
    from sparsetd.features.featurize import feature_names, featurize, fit_features
    from sparsetd.selection import SparseTDSelect

    log = pose(parts[0].read(), target).log
    phi = fit_features(log, StandardScaler())
    batch, names = featurize(log, phi, args.gamma), feature_names(phi, log)
    console.progress(f"choosing among {batch.n_features} features of {log.n_episodes:,} episodes")
    choice = choose(batch, SparseTDSelect(gamma=args.gamma, fit_intercept=True))
    return choice.path, choice.model.coef_, names


def _on_sums(args: Namespace, parts: Any, target: Any, console: Console) -> tuple[Any, Any, Any]:
    """The same of a log in shards, which are read three times."""
    from sparsetd.evaluation.choice import choose_on
    from sparsetd.evaluation.linear import LinearValue, sums
    from sparsetd.evaluation.reading import answer, open_log

    log = open_log(parts, {"target": target}, args.gamma)
    console.progress(f"choosing among {len(log.names)} features of {len(log.hashes):,} episodes")
    found = answer(log.rows, sums=sums().under(0)).sums
    units = found.units(log.units)
    moments, coef = found.in_units(log.units, units), np.zeros(len(log.names))
    choice, _ = choose_on(log.rows.in_units(units), moments)
    coef[choice.support] = LinearValue.solve(moments.on(np.append(choice.support, len(coef)))).theta[:-1]
    return choice.path, coef, log.names


def _rows(path: Any, coef: Any) -> list[dict[str, Any]]:
    """One row per penalty of the path: how many features it lets in, and where it first lets in all that are kept."""
    if path is None:
        return []
    lets_in = (path.coefs[np.flatnonzero(coef)] != 0).all(axis=0)
    said = ["lets in all" if k == np.argmax(lets_in) and lets_in.any() else "" for k in range(len(lets_in))]
    return [
        {"penalty": float(rho), "n_features": int(n), "chosen": words}
        for rho, n, words in zip(path.rhos, path.n_active, said, strict=True)
    ]


SELECT = Command("select", *words(__doc__), arguments, run)
