"""Compare several policies on one log: values, all differences, which may be best.

The value of every policy and all their differences, with intervals that hold for all of them at
once; the set of policies that may be the best; where they act differently and what that is worth.
The first policy is the one the others are compared with.

A policy is anything that 'sparsetd evaluate --target' takes. One rule with a range of thresholds in
braces, without a name, stands for one policy per threshold.

examples:
  sparsetd compare log.parquet --target current=behavior --target new=target_prob
  sparsetd compare log.parquet --target current=behavior --target q=greedy:q.sparsetd --report page.html
  sparsetd compare log.parquet --target behavior --target 'B if lactate > 2' --by age
  sparsetd compare log.parquet --target 'B if lactate > {1..4}'
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import Any

import numpy as np

from sparsetd.cli.command import Command, Console, Outcome, WrongInput, words
from sparsetd.cli.evaluate import add_judging, judged_log, judging
from sparsetd.cli.options import (
    add_log,
    add_n_resamples,
    add_part,
    add_random_state,
    add_report,
    check_output,
    model_in,
    read_log,
    said,
    target_of,
)
from sparsetd.storage.atomic import replace_file


def arguments(parser: ArgumentParser) -> None:
    add = parser.add_argument
    add_log(parser)
    add_part(parser)
    add(
        "--target",
        action="append",
        default=[],
        metavar="[NAME=]POLICY",
        help="a policy, with a name if you like (repeat for each)",
    )
    add("--by", metavar="COLUMN", help="also compare within groups of this column, observed or not")
    add_report(parser)
    add_n_resamples(parser, "random halves of the log for the selection frequencies, where one policy is named")
    add_random_state(parser, "the halves")
    add_judging(parser)


def run(args: Namespace, console: Console) -> Outcome:
    from sparsetd.evaluation import compare

    pairs = _pairs(args.target)
    models = [model_in(policy) for _, policy in pairs]
    page = check_output(args.report, ".html", ".htm", inputs=[args.log, *models])
    targets, column = _targets(args, pairs)
    log = judged_log(args, console, ratio=None, target_prob=column)
    console.progress(f"comparing {len(targets)} policies" if isinstance(targets, dict) else "comparing the thresholds")
    how = {**judging(args, console), "n_resamples": args.n_resamples, "random_state": args.random_state}
    result = compare(log, targets, by=_groups(args, len(log)), **how)
    text = str(result)
    if page is not None:
        replace_file(page, result.page(**said(args, targets=", ".join(args.target), gamma=args.gamma)))
        text += f"\nreport: {page}"
    return Outcome(text, {**result.to_dict(), "report": args.report})


def _pairs(texts: list[str]) -> list[tuple[str, str]]:
    """Names and policies; a policy without a name is its own, and a single rule with thresholds has none."""
    if len(texts) == 1 and "{" in texts[0]:
        return [("", texts[0])]
    pairs = [_named(text) for text in texts]
    names = [name for name, _ in pairs]
    again = next((name for name in names if names.count(name) > 1), None)
    if again is not None:
        raise WrongInput(f"two policies are called '{again}'; give every policy its own name")
    if not names:
        raise WrongInput("name the policies, for instance --target current=behavior --target new=target_prob")
    return pairs


def _targets(args: Namespace, pairs: list[tuple[str, str]]) -> tuple[Any, str | None]:
    """The policies by name (or a family of rules), and the column of the log that one of them is."""
    from sparsetd.evaluation.target import taken

    if pairs[0][0] == "":
        return pairs[0][1], None
    found: dict[str, Any] = {}
    column: str | None = None
    for name, text in pairs:
        policy, columns = target_of(text, args.log)
        own = columns.get("target_prob")
        if policy is None and own is not None and column in (None, own):
            column = own
            found[name] = None
        elif policy is None:
            found[name] = taken(np.asarray(read_log(args, **columns).target_prob), text)
        else:
            found[name] = policy
    return found, column


def _groups(args: Namespace, n_parts: int) -> Any:
    """Return what --by names: an observed column, or one that is read for it."""
    if args.by is None:
        return None
    try:
        if n_parts > 1:
            return args.by
        log = read_log(args, ratio=None, target_prob=None)
        if args.by in (log.names or ()):
            return args.by
        return {args.by: read_log(args, ratio=None, target_prob=None, group=args.by).group}
    except ValueError as error:
        raise WrongInput(str(error).replace("`group` names", "--by names")) from None


def _named(text: str) -> tuple[str, str]:
    """The name and the policy of NAME=POLICY; a rule in words, which may hold an equals sign, names itself."""
    name, equals, policy = text.partition("=")
    if not equals or " if " in name:
        return text, text
    if not name.strip() or not policy:
        raise WrongInput(f"argument --target: must look like NAME=POLICY or POLICY, not '{text}'")
    return name, policy


COMPARE = Command("compare", *words(__doc__), arguments, run)
