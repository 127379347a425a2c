"""The report of an evaluation: one HTML page a domain expert can read, print and mail; nothing comes from a network.

The order is the reader's: the answer, how sure we are, which features carry it, how the fit went, how to repeat it.
`page` takes what `Evaluation.to_dict` returns (and so what `sparsetd evaluate --json` prints) and nothing else. With
the bounds of `sensitivity` in it, they come first.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from html import escape

from sparsetd._tools.numbers import Numbers, count, number, percent
from sparsetd.report import charts, shell
from sparsetd.report.shell import SAY, Payload
from sparsetd.report.words import answers, verdicts
from sparsetd.storage.atomic import replace_file

SECTIONS = {"sure": "How sure?", "features": "Which columns?", "fit": "How the fit went", "method": "Words, settings"}
HIDDEN = "What if something unrecorded drove the actions?"
SHAPES = 6  # columns whose shapes are drawn
HEADS = ("Column", "Weight", "Size", "Interval", "Kept in resamples")


def write_page(payload: Payload, path: str | os.PathLike[str]) -> None:
    """Write the page to `path`, atomically."""
    replace_file(path, page(payload))


def page(payload: Payload) -> str:
    """The page as text; equal payloads give equal bytes."""
    body = "".join(part(payload) for part in (_answer, _hidden, _certainty, _features, _fit))
    return shell.shell(f"Value of {payload['target']}", body + shell.method("evaluation", payload["settings"]))


def _answer(p: Payload) -> str:
    """The question, the answer in words, and its cautions; they come first if the answer must not be used."""
    shown = [_figure_of_value(p), shell.alerts(p["warnings"])]
    links = {"hidden": "What if?", **SECTIONS} if p.get("confounding") else SECTIONS
    title = f"What would the policy “{p['target']}” have been worth?"
    return shell.header(title, shown[::-1] if p["severity"] == "red" else shown, in_words(p), links)


def _figure_of_value(p: Payload) -> str:
    """The value in large type with its interval; in grey where it must not be used."""
    written, kind = answers(p), " doubtful" if p["severity"] == "red" else ""
    unit = f"{escape(p['unit'])}, " if p.get("unit") else ""
    interval = f"{unit}{percent(p['level'])} interval {' to '.join(map(written, p['interval']))}"
    return f'<p class="answer{kind}">{written(p["value"])} <small>{interval}</small></p>'


def in_words(p: Payload) -> dict[str, str]:
    """The answer in five sentences, from what the policy does to what to do next."""
    return {
        "What it does": p["acts"]["sentence"] if p.get("acts") else "",
        "What it would have been worth": _comparison(p),
        "How sure that is": sureness(p),
        "What would have to be true": conditions(p.get("assumptions"), p.get("robustness")),
        "What to do next": remedy(p["warnings"]) or SAY["look_within" if p.get("confounding") else "look"],
    }


def conditions(assumptions: str | None, robustness: Payload | None = None) -> str:
    """The assumptions that no log can check, and how strong an unrecorded cause would have to be."""
    listed = (assumptions or "").replace("docs/assumptions.md", "see Assumptions at the end of this page")
    return f"{listed} {robustness['sentence']}" if robustness else listed


def sureness(p: Payload) -> str:
    """Two sentences: the meaning of the worst caution for the reader, and how many episodes carry the answer."""
    of, alike = count(p["n_episodes"]), count(p["effective_episodes"])
    carried = f"the {of} episodes say as much as {alike} that count alike"
    said = {
        "red": "Do not use this number: the boxes say why.",
        "amber": "Read it together with the cautions in the boxes.",
    }.get(p["severity"], "Nothing that was checked speaks against this number.")
    return f"{said} Episodes count more where people did what the policy does: {carried}."


def remedy(cautions: Sequence[Payload]) -> str:
    """The remedy of the worst caution; nothing where there are only notes."""
    worst = next((c for c in cautions if c["severity"] in ("red", "amber")), None)
    return "" if worst is None else worst.get("remedy") or "Follow the remedy in the first box, then ask again."


def _comparison(p: Payload) -> str:
    """The answer in a sentence, beside the mean return of the log."""
    later = "" if p["gamma"] == 1 else f"; later rewards count less, by {p['gamma']:g} a step"
    what, written = p.get("unit") or "the sum of its rewards", answers(p)
    observed, modelled = (written(p[key]["value"]) for key in ("observed_return", "behavior_modelled"))
    cut = p["behavior_value"]["name"] != p["observed_return"]["name"]
    first = f"The mean per episode would be {written(p['value'])} ({what}{later}). In the log it is {observed}"
    first += f"; had no episode been cut, it would have been about {modelled}." if cut else "."
    gain = p["difference"]
    if gain["value"] is None or not math.isfinite(gain["value"]) or p["severity"] == "red":
        return first
    low, high = gain["interval"]
    signed = Numbers.of([gain["value"], low, high]).signed
    change = f"difference of {signed(gain['value'])} ({percent(p['level'])} interval {signed(low)} to {signed(high)})"
    if p["max_ratio"] == 1 and p["ess_rows"] == p["n_rows"]:
        return f"{first} The policy acts as people did in every row, so the {change} is model error."
    if low <= 0 <= high:
        return f"{first} The {change} is within what chance alone explains."
    kind = "better" if low > 0 else "worse"
    return f"{first} The {change} is beyond chance: the policy is {kind} than what was done."


def _hidden(p: Payload) -> str:
    """The section on hidden confounding; empty if nobody asked about it."""
    found = p.get("confounding")
    if not found:
        return ""
    drawing = shell.figure(charts.fan(found, p.get("unit") or ""), "fan")
    return shell.section("hidden", HIDDEN, f"<p>{shell.prose(found['sentence'])}</p>{drawing}")


def _certainty(p: Payload) -> str:
    cards = "".join(
        f'<div class="card {v.level}"><span class="soft">{escape(v.name)}</span> '
        f'<span class="verdict">{escape(v.word)}</span> <b>{escape(v.figure)}</b> <p>{escape(v.meaning)}</p></div>'
        for v in verdicts(p)
    )
    body = f'<div class="cards">{cards}</div>{shell.figure(charts.forest(p), "forest")}{_weight_note(p)}'
    pair = shell.figure(charts.ratios(p), "ratios") + shell.figure(charts.agreement(p), "agreement")
    return shell.section("sure", "How sure are we?", f'{body}<div class="pair">{pair}</div>')


def _weight_note(p: Payload) -> str:
    """A warning beside the importance-sampling rows where the weights of whole episodes have lost track."""
    mean = p.get("mean_weight")
    if mean is None or 0.75 <= mean <= 1.33:  # a quarter off, up or down, is still chance in most logs
        return ""
    found = f"Whole episodes count {number(mean)} times on average, where 1 is expected"
    return f'<p class="alert">{found}: do not rely on the reweighted returns and rewards.</p>'


def _features(p: Payload) -> str:
    kept, of = len(p["features"]), p["n_candidates"]
    title = "Which columns matter?"
    if not kept:
        return shell.section("features", title, f"<p>{SAY['no_feature']}</p>")
    matter = "matters" if kept == 1 else "matter"
    share = f"{count(kept)} of {count(of)} columns {matter}. For the others the log does not show an effect"
    if kept == of:
        share = "The one column matters" if of == 1 else f"All {count(of)} columns matter"
    table = feature_table(p["features"], p["level"])
    return shell.section("features", title, f"<p>{share}. {SAY['weight']}</p>{table}{_shapes(p)}")


def feature_table(features: Sequence[Payload], level: float) -> str:
    """The features as HTML; those whose interval holds 0 are greyed, and folded away where others are left."""
    top = max((abs(f["weight"]) for f in features), default=1.0) or 1.0
    written = Numbers.of(v for f in features for v in (f["weight"], *(f["interval"] or ())))
    sure, unsure = ([f for f in features if _unsure(f) is kind] for kind in (False, True))
    if not sure or not unsure:
        return _table(features, level, top, written)
    more = "1 more column was" if len(unsure) == 1 else f"{len(unsure)} more columns were"
    words = f"{more} kept, but with an interval that holds 0: the effect may be nothing"
    return _table(sure, level, top, written) + shell.folded(words, _table(unsure, level, top, written))


def _unsure(f: Payload) -> bool:
    return f["interval"] is not None and f["interval"][0] <= 0 <= f["interval"][1]


def _table(features: Sequence[Payload], level: float, top: float, written: Numbers) -> str:
    """A cell sorts by its `data-sort` number, or by its text where it has none."""
    drawn = HEADS if any(f["frequency"] is not None for f in features) else HEADS[:-1]
    heads = (f'<button type="button">{name}</button>' for name in drawn)
    hint = '<span class="hint">Select a heading to sort.</span>'
    caption = f"<caption>Weights of the columns with {percent(level)} intervals. {hint}</caption>"
    rows = (_row(f, top, written, drawn) for f in features)
    return shell.framed("Columns", heads, rows, caption=caption, css="sortable")


def _row(f: Payload, top: float, written: Numbers, heads: Sequence[str]) -> str:
    """A row with a cell for each of the headings."""
    low, high = f["interval"] or (None, None)
    cells = (
        (f["weight"], written.signed(f["weight"])),
        (abs(f["weight"]), _meter(f["weight"], top)),
        (low, "–" if low is None else f"{written.signed(low)} to {written.signed(high)}"),
        (f["frequency"], percent(f["frequency"])),
    )
    named = zip(heads[1:], cells, strict=False)
    body = (shell.cell(text, head, f' data-sort="{"NaN" if key is None else key}"') for head, (key, text) in named)
    return shell.row(f["name"], body, ' class="unsure"' if _unsure(f) else "")


def _meter(weight: float, top: float) -> str:
    """A bar to the right for a positive weight, to the left for a negative one."""
    share = 50 * abs(weight) / top
    left, css = (50.0, "") if weight >= 0 else (50 - share, ' class="neg"')
    return f'<span class="meter" aria-hidden="true"><i{css} style="left:{left:.1f}%;width:{share:.1f}%"></i></span>'


def _shapes(p: Payload) -> str:
    """A small chart for each of the columns that matter most: the value against the column."""
    kept = {f["name"] for f in p["features"]}
    shown = [c for c in p.get("columns") or () if c["name"] in kept and len(c["shape"]["at"]) > 1][:SHAPES]
    drawn = "".join(shell.captioned(charts.shape(c, p.get("unit") or ""), _importance(c)) for c in shown)
    return f'<h3>How they change the value</h3><p>{SAY["shape"]}</p><div class="pair">{drawn}</div>' if shown else ""


def _importance(column: Payload) -> str:
    """The share of the explained value that is lost without a column, with its error."""
    lost, error = column["importance"], 2 * column["standard_error"]
    if lost <= error:
        return f"{column['name']}: the log does not show whether the model would be worse without it."
    share = f"about {percent(max(lost - error, 0.0))} to {percent(min(lost + error, 1.0))}"
    return f"{column['name']}: without it the model would explain {share} less of what happens in unseen episodes."


def _fit(p: Payload) -> str:
    words = "".join(f"<p>{shell.prose(p[key])}</p>" for key in ("fit", "behavior_policy") if p.get(key))
    pair = shell.figure(charts.path(p), "path") + shell.figure(charts.convergence(p), "convergence")
    return shell.section("fit", "How did the fit go?", f'{words}<div class="pair">{pair}</div>')
