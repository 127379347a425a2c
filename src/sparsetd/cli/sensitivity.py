"""Bound the value of a policy if an unrecorded cause drove the logged actions.

The lowest and the highest value, and difference to what was done, that a cause could hide which
nobody recorded and which changes the odds of the logged action by up to a factor of G (the marginal
sensitivity model). G = 1 is the answer of 'sparsetd evaluate'.

examples:
  sparsetd sensitivity log.parquet --target policies:mine
  sparsetd sensitivity log.parquet --target policies:mine --confounding 1.1,1.5,2 --report page.html
  sparsetd sensitivity log.parquet --target policies:mine --kind persistent
"""

from __future__ import annotations

from argparse import ArgumentParser, ArgumentTypeError, Namespace

from sparsetd.cli.command import Command, Console, Outcome, words
from sparsetd.cli.evaluate import add_judging, judged_log, judging
from sparsetd.cli.options import TARGET_HELP, add_log, add_part, add_report, check_output, model_in, said, target_of


def arguments(parser: ArgumentParser) -> None:
    add = parser.add_argument
    add_log(parser)
    add_part(parser)
    add("--target", metavar="POLICY", help=TARGET_HELP)
    add(
        "--confounding",
        type=strengths,
        default=[1.25, 1.5, 2.0, 3.0, 5.0],
        metavar="G,…",
        help="the factors, each at least 1 (default: 1.25 to 5)",
    )
    add(
        "--kind",
        choices=("every", "first", "persistent"),
        default="every",
        help="the cause is new at every decision, touches the first one alone, or lasts (default: %(default)s)",
    )
    add_report(parser)
    add_judging(parser)


def run(args: Namespace, console: Console) -> Outcome:
    from sparsetd.evaluation import sensitivity
    from sparsetd.storage.atomic import replace_file

    page = check_output(args.report, ".html", ".htm", inputs=[args.log, model_in(args.target)])
    target, columns = target_of(args.target, args.log)
    log = judged_log(args, console, **columns)
    result = sensitivity(log, target, confounding=args.confounding, kind=args.kind, **judging(args, console))
    text = str(result)
    if page is not None:
        replace_file(page, result.page(**said(args, target=args.target or "as logged")))
        text += f"\nreport: {page}"
    return Outcome(text, {**result.to_dict(), "report": None if page is None else str(page)})


def strengths(text: str) -> list[float]:
    """Factors of at least 1, separated by commas."""
    try:
        found = [float(part) for part in text.split(",")]
    except ValueError:
        found = [0.0]
    if not all(1 <= g < float("inf") for g in found):
        raise ArgumentTypeError(f"must be numbers of at least 1, separated by commas, not '{text}'")
    return found


SENSITIVITY = Command("sensitivity", *words(__doc__), arguments, run)
