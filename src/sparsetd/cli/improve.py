"""Learn a better policy on one part of a log and test it once on the other.

The episodes are split. On one part several policies near the logged behaviour are learnt and one
is chosen; on the other it is tested once. That is done for several splits, and the median decides:
it is recommended only if it does better there than what was done, beyond chance. "No policy is
recommended" is an answer, not an error.

The policy is a small table of scores that can be read, saved, applied to new rows with 'sparsetd
predict', and named as a --target.

examples:
  sparsetd improve log.parquet --out policy.sparsetd --report page.html
  sparsetd predict policy.sparsetd new.parquet
  sparsetd compare other.parquet --target current=behavior --target new=policy.sparsetd
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from sparsetd.cli.command import Command, Console, Outcome, words
from sparsetd.cli.evaluate import add_judging, judged_log, judging
from sparsetd.cli.options import add_log, add_n_resamples, add_random_state, add_report, check_output, inside, said
from sparsetd.storage.atomic import replace_file


def arguments(parser: ArgumentParser) -> None:
    add = parser.add_argument
    add_log(parser)
    add("--out", metavar="FILE", help="policy file to write (.sparsetd), recommended or not")
    add_report(parser)
    add("--learn", type=inside, default=0.5, metavar="P", help="share of episodes to learn on (default: %(default)s)")
    add_n_resamples(parser, "random splits, an odd number; their median decides", 5)
    add_random_state(parser, "the splits")
    add_judging(parser)


def run(args: Namespace, console: Console) -> Outcome:
    from sparsetd.estimators import model_file
    from sparsetd.evaluation import improve

    out, page = (
        check_output(args.out, ".sparsetd", inputs=[args.log]),
        check_output(args.report, ".html", ".htm", inputs=[args.log]),
    )
    how = judging(args, console)
    del how["n_folds"]
    splits = {"learn": args.learn, "n_resamples": args.n_resamples, "random_state": args.random_state}
    result = improve(judged_log(args, console, ratio=None, target_prob=None), **splits, **how)
    text = str(result)
    if out is not None:
        model_file.save(result.policy, out, notes={"log": args.log, "recommended": result.recommended})
        text += f"\npolicy: {out}"
    if page is not None:
        replace_file(page, result.page(**said(args, gamma=args.gamma, **splits)))
        text += f"\nreport: {page}"
    return Outcome(text, {**result.to_dict(), "out": args.out, "report": args.report})


IMPROVE = Command("improve", *words(__doc__), arguments, run)
