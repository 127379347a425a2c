"""`sparsetd compare`: which of several policies is best, from one log."""

from __future__ import annotations

from argparse import ArgumentParser, ArgumentTypeError, Namespace
from typing import Any

import numpy as np

from sparsetd.cli.command import Command, Outcome, WrongInput
from sparsetd.cli.console import Console
from sparsetd.cli.evaluate import CLASSIFIERS, classifier_of
from sparsetd.cli.log_options import add_gamma, add_log, add_part, check_output, read_log
from sparsetd.cli.options import inside
from sparsetd.cli.policies import model_in, target_of
from sparsetd.storage.atomic import replace_file

SUMMARY = "compare several policies on one log: values, all differences, which may be best"
DETAILS = """
The value of every policy and all their differences, with intervals that hold for all of them at
once; the set of policies that may be the best; where they act differently and what that is worth.
The first policy is the one the others are compared with.

A policy is anything that 'sparsetd evaluate --target' takes.

examples:
  sparsetd compare log.parquet --target current=behavior --target new=target_prob
  sparsetd compare log.parquet --target current=behavior --target q=greedy:q.sparsetd --report page.html
  sparsetd compare log.parquet --target current=behavior --target new=policy.sparsetd --by age
"""


def arguments(parser: ArgumentParser) -> None:
    add = parser.add_argument
    add_log(parser)
    add_part(parser)
    add("--target", action="append", default=[], type=_named, metavar="NAME=POLICY", help="a policy (repeat for each)")
    add_gamma(parser)
    add("--by", metavar="COLUMN", help="also compare within groups of this column, observed or not")
    add("--report", metavar="FILE", help="also write a page for a browser (.html)")
    add("--level", type=inside, default=0.95, metavar="P", help="level of all intervals at once (default: %(default)s)")
    add("--classifier", choices=CLASSIFIERS, help="estimate the behaviour policy with this classifier")


def run(args: Namespace, console: Console) -> Outcome:
    from sparsetd.decisions import compare

    models = [model_in(policy) for _, policy in args.target]
    page = check_output(args.report, ".html", ".htm", inputs=[args.log, *models])
    policies, log = _policies(args)
    by = args.by if args.by is None or args.by in (log.names or ()) else _unobserved(args)
    console.progress(f"comparing {len(policies)} policies on {log.n_episodes:,} episodes")
    classifier = classifier_of(args.classifier)
    result = compare(log, policies, gamma=args.gamma, level=args.level, by=by, classifier=classifier)
    text = str(result)
    if page is not None:
        replace_file(page, result.page(log=args.log, targets=", ".join(f"{k}={v}" for k, v in args.target)))
        text += f"\nreport: {page}"
    return Outcome(text, {**result.to_dict(), "report": args.report})


def _policies(args: Namespace) -> tuple[dict[str, Any], Any]:
    """Policies by name, and the log; a policy that is a column of the log is read from there."""
    from sparsetd.evaluation.target import taken

    names = [name for name, _ in args.target]
    again = next((name for name in names if names.count(name) > 1), None)
    if again is not None:
        raise WrongInput(f"two policies are called '{again}'; give every policy its own name")
    if len(names) < 2:
        raise WrongInput("name at least two policies, for instance --target current=behavior --target new=target_prob")
    log = read_log(args, ratio=None, target_prob=None)
    policies = {}
    for name, text in args.target:
        policy, columns = target_of(text, args.log)
        policies[name] = taken(np.asarray(read_log(args, **columns).target_prob), text) if policy is None else policy
    return policies, log


def _unobserved(args: Namespace) -> dict[str, Any]:
    """The column that --by names, row by row of the log."""
    try:
        return {args.by: read_log(args, ratio=None, target_prob=None, group=args.by).group}
    except ValueError as error:
        raise WrongInput(str(error).replace("`group` names", "--by names")) from None


def _named(text: str) -> tuple[str, str]:
    name, equals, policy = text.partition("=")
    if not equals or not name.strip() or not policy:
        raise ArgumentTypeError(f"must look like NAME=POLICY, not '{text}'")
    return name, policy


COMPARE = Command("compare", SUMMARY, DETAILS, arguments, run)
