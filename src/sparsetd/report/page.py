"""The document of an evaluation: what a domain expert can read, print and mail; nothing comes from a network.

The order is the reader's: the answer, how sure we are, which features carry it, how the fit went, how to repeat it.
`evaluation` takes what `Evaluation.to_dict` returns (and so what `sparsetd evaluate --json` prints) and nothing else.
If the answer holds the bounds of `sensitivity`, these come first.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from html import escape
from statistics import correlation

from sparsetd._tools.numbers import Numbers, at_level, between, count, number, percent
from sparsetd.plots import pictures
from sparsetd.report.document import Block, Document, Html, Payload, Table, estimates, figure, folded, pair
from sparsetd.report.shell import SAY, TEXTS

HIDDEN = "What if something unrecorded drove the actions?"
LEAP = 10.0  # a range this many times wider than the one before is not drawn
SHAPES = 6  # the most columns whose shapes are drawn
STRAIGHT = 0.95  # a shape is straight if its correlation with the column is at least this
SHAPELESS = ("misspecified", "unobserved_state")  # cautions that say that the model has the wrong shape
LEVELS = ("good", "warn", "bad")
SHOWN = 12  # features drawn with a name in the path plot
HEADS = ("Column", "Weight", "Size", "Interval", "Kept in resamples")


def page(payload: Payload) -> str:
    """The page as text; equal payloads give equal bytes."""
    return evaluation(payload).html()


def evaluation(p: Payload) -> Document:
    """The answer in five sentences, from what the policy does to what to do next, and what it rests on."""
    written, hidden = answers(p), p.get("confounding")
    unit = f"{p['unit']}, " if p.get("unit") else ""
    bounds = (
        {"hidden": (HIDDEN, [hidden["sentence"], *_bounds(hidden["bounds"], p.get("unit") or "")])} if hidden else {}
    )
    return Document(
        question=f"What would the policy “{p['target']}” have been worth?",
        kind="evaluation",
        number=(written(p["value"]), unit + at_level(p["level"], p["interval"], written)),
        doubtful=p["severity"] == "red",
        cautions=p["warnings"],
        words={
            "What it does": p["acts"]["sentence"] if p.get("acts") else "",
            "What it would have been worth": _comparison(p),
            "How sure that is": sureness(p),
            "What would have to be true": conditions(p),
            "What to do next": _next(p),
        },
        sections={
            **bounds,
            "sure": ("How sure are we?", certainty(p)),
            "features": ("Which columns are kept?", _features(p)),
            "fit": ("How did the fit go?", _fit(p)),
        },
        settings=p.get("settings", {}),
    )


def _next(p: Payload) -> str:
    """The remedy of the worst caution; if the page has bounds, the advice to look at them, unless a caution is red."""
    if p.get("confounding") and p["severity"] != "red":
        return SAY["look_within"]
    return remedy(p["warnings"]) or SAY["look"]


def conditions(p: Payload) -> str:
    """The assumptions that no log can check, and how strong an unrecorded cause would have to be."""
    robust = p["robustness"]["sentence"] if p.get("robustness") else ""
    return f"{p.get('assumptions') or ''} {robust}".strip()


def sureness(p: Payload) -> str:
    """Two sentences: the meaning of the worst caution for the reader, and how many episodes carry the answer."""
    of, alike = count(p["n_episodes"]), count(p["effective_episodes"])
    carried = f"the {of} episodes say as much as {alike} that count alike"
    said = SAY.get(f"sure_{p['severity']}", SAY["sure"])
    return f"{said} Episodes count more where people did what the policy does: {carried}."


def remedy(cautions: Sequence[Payload]) -> str:
    """The remedy of the worst caution; nothing where there are only notes."""
    worst = next((c for c in cautions if c["severity"] in ("red", "amber")), None)
    return "" if worst is None else worst.get("remedy") or "Follow the remedy of the first caution, then ask again."


def _comparison(p: Payload) -> str:
    """The answer in a sentence, beside the mean return of the log."""
    discounted = p["gamma"] < 1 and p["n_rows"] > p["n_episodes"]
    later = f"; later rewards count less, by a factor of {p['gamma']:g} per step" if discounted else ""
    what, written = p.get("unit") or "the sum of its rewards", answers(p)
    # A wild interval of the policy must not round the value of what was done.
    observed, modelled = (answers({**p, **p[key]})(p[key]["value"]) for key in ("observed_return", "behavior_modelled"))
    cut = p["behavior_value"]["name"] != p["observed_return"]["name"]
    first = f"The mean per episode would be {written(p['value'])} ({what}{later}). In the log it is {observed}"
    first += f"; had no episode been cut, it would have been about {modelled}." if cut else "."
    gain = p["difference"]
    if gain["value"] is None or not math.isfinite(gain["value"]) or p["severity"] == "red":
        return first
    low, high = gain["interval"]
    signed = Numbers.of([gain["value"], low, high]).signed
    change = f"difference of {signed(gain['value'])} ({at_level(p['level'], (low, high), signed)})"
    if p["max_ratio"] == 1 and p["ess_rows"] == p["n_rows"]:
        return f"{first} The policy acts as people did in every row, so the {change} is model error."
    if low <= 0 <= high:
        return f"{first} The {change} is within what chance alone explains."
    kind = "better" if low > 0 else "worse"
    return f"{first} The {change} is beyond chance: the policy is {kind} than what was done."


def _bounds(rows: Sequence[Payload], unit: str) -> list[Block]:
    """The least and the greatest difference for every strength of an unrecorded cause."""
    widths = [row["difference_interval"][1] - row["difference_interval"][0] for row in rows]
    signed, told = Numbers.of((v for row in rows for v in row["difference_interval"]), min(widths)).signed, []
    for row in rows:
        ends = (between(row[f"difference_{key}"], signed) for key in ("bounds", "interval"))
        told.append((f"Γ = {row['confounding']:g}", *ends))
    # A much wider range would set the scale and flatten the others to a line.
    n = next((i for i in range(2, len(rows)) if widths[i] > LEAP * widths[i - 1]), len(rows))
    wild = ", ".join(f"{row['confounding']:g}" for row in rows[n:])
    drawing = figure(pictures.fan(rows[:n], unit).svg(), "fan")
    table = Table(("Strength", "Difference to what was done", "With chance"), told, drawing=drawing)
    return [table, *([f"Not drawn, because the range is far wider: Γ = {wild}."] if wild else [])]


def answers(p: Payload) -> Numbers:
    """The format of the values of policies: as many digits as the interval of the answer supports."""
    ends = pictures.finite(p["interval"])
    return Numbers.of([p["value"], *ends, p["behavior_value"]["value"]], ends[-1] - ends[0] if ends else None)


@dataclass(frozen=True)
class Verdict:
    """One figure with its meaning; `level` is good, warn or bad, and `word` says so without colour."""

    name: str
    figure: str
    level: str
    word: str
    meaning: str


def verdicts(p: Payload) -> list[Verdict]:
    """The four questions that a careful reader asks about a log; the last needs folds with enough episodes.

    A grade is good or fair if it reaches the limits in `texts.toml`.
    """
    carried, n, top, found = p["effective_episodes"], p["n_episodes"], p["max_ratio"], p["bellman_error"]
    grades = {
        "coverage": (p["coverage"], percent(round(p["coverage"], 3))),
        "episodes": (min(carried / 100, 4 * carried / n), count(carried)),
        "ratio": (-top, f"{number(top)}×"),
    }
    named = {"n_episodes": count(n), "rows": count(p["effective_rows"]), "n_rows": count(p["n_rows"])}
    useless = set()
    if found and found["noise"] > 0:
        # The noise is an estimate; on a few episodes a model may happen to come out below it.
        times, flat = (max(found[key] / found["noise"], 1.0) for key in ("value", "constant"))
        named["flat"] = f"{flat:.2g}×"
        grades["bellman"] = (-times, f"{times:.2g}×")
        useless = {"bellman"} if flat <= times else set()
    cards = []
    for kind, (grade, shown) in grades.items():
        told = TEXTS["cards"][kind]
        place = sum(grade < limit for limit in told["limits"])
        # An answer that must not be used has no green card, and a model that is no better than none has none either.
        level = "plain" if place == 0 and (p["severity"] == "red" or kind in useless) else LEVELS[place]
        word = told["useless"] if place == 0 and kind in useless else told["words"][place]
        cards.append(Verdict(told["name"], shown, level, word, told["meaning"].format(**named)))
    return cards


def certainty(p: Payload) -> list[Block]:
    """The cards, the estimates of other methods, and two charts: how the rows count, how the predictions hold."""
    cards = verdicts(p)
    drawn = "".join(
        f'<div class="card {v.level}"><span class="soft">{escape(v.name)}</span> '
        f'<span class="verdict">{escape(v.word)}</span> <b>{escape(v.figure)}</b> <p>{escape(v.meaning)}</p></div>'
        for v in cards
    )
    rows, settled = opinions(p), not any(r["name"] == "boosted trees" and r["value"] is None for r in p["comparisons"])
    label, mean, agreed = p.get("unit") or "value per episode", p.get("mean_weight"), p["calibration"]
    # A quarter off, up or down, is still chance in most logs.
    off = mean is not None and not 0.75 <= mean <= 1.33
    return [
        Table(("", "", ""), [(v.name, v.figure, v.word) for v in cards], drawing=f'<div class="cards">{drawn}</div>'),
        estimates(rows, p["level"], label, rows[:3], "forest", p["value"]),
        *([] if settled else [SAY["unsettled"]]),
        *([SAY["weights"].format(number(mean))] if off else []),
        pair(_ratios(p), figure(agreed and pictures.agreement(agreed).svg(), "agreement")),
    ]


def opinions(p: Payload) -> list[pictures.Row]:
    """The value, that of what was done, and the value by other methods, each with its interval; in plain words."""
    named = [("This policy", p, "main"), ("What was done", p["behavior_value"], "warm")]
    named += [(TEXTS["estimates"].get(r["name"], r["name"]), r, "") for r in p["comparisons"]]
    known = [entry for entry in named if entry[1]["value"] is not None and math.isfinite(entry[1]["value"])]
    return [(name, r["value"], r["interval"], css) for name, r, css in known]


def _ratios(p: Payload) -> Html:
    """A chart of how often the rows count, with words for rows of weight 0."""
    h = p["ratio_histogram"]
    if not h or not sum(h["counts"]):
        return Html()
    more = f" {count(h['zero'])} more rows do not count at all." if h["zero"] else ""
    return figure(pictures.histogram(h["edges"], h["counts"]).svg(), TEXTS["captions"]["ratios"] + more)


def _features(p: Payload) -> list[Block]:
    kept, of = len(p["features"]), p["n_candidates"]
    if not kept:
        return [SAY["no_feature"]]
    share = f"{count(kept)} of {count(of)} columns. For the others the log does not show an effect"
    if kept == of:
        share = "the one column" if of == 1 else f"all {count(of)} columns"
    wrong = any(c["severity"] == "red" and c["code"] in SHAPELESS for c in p["warnings"])
    names = {f["name"] for f in p["features"]}
    shown = [c for c in p.get("columns") or () if c["name"] in names and len(c["shape"]["at"]) > 1][:SHAPES]
    shapes = pair(*(figure(shape(c, p.get("unit") or ""), _importance(c)) for c in shown))
    drawn = Html(f"<h3>How they change the value</h3><p>{SAY['shape']}</p>{shapes}" if shown else "")
    curved = {c["name"] for c in shown if _curved(c["shape"])}
    table = feature_table(p["features"], p["level"], curved)
    words = f"The selection keeps {share}. {_mattering(p, names)}{SAY['weight']}"
    return [*([SAY["misshapen"]] if wrong else []), words, table, drawn]


def _mattering(p: Payload, kept: set[str]) -> str:
    """A sentence about the kept columns whose importance is beyond chance; nothing where it was not tested."""
    tested = [c for c in p.get("columns") or () if c["name"] in kept]
    matter = [c["name"] for c in tested if c["matters"]]
    if not tested or matter:
        return SAY["matter"].format(", ".join(matter)) if matter else ""
    return SAY["none_matters"]


def _curved(shape: Payload) -> bool:
    """Whether a straight line describes the shape of a column badly."""
    at, value = shape["at"], shape["value"]
    return len(at) > 2 and len(set(value)) > 1 and abs(correlation(at, value)) < STRAIGHT


def feature_table(features: Sequence[Payload], level: float, curved: Collection[str] = ()) -> Table:
    """The features; on a page those whose interval contains 0 are greyed, and folded away if others are left.

    The `curved` ones have no weight: a picture shows them.
    """
    straight = [f for f in features if f["name"] not in curved]
    top = max((abs(f["weight"]) for f in straight), default=1.0) or 1.0
    written = Numbers.of(v for f in straight for v in (f["weight"], *(f["interval"] or ())))
    hint = '<span class="hint">Select a heading to sort.</span>'
    caption = f"Weights of the columns with {percent(level)} intervals. {hint}"
    n_heads = len(HEADS) if any(f["frequency"] is not None for f in features) else len(HEADS) - 1

    def table(some: Sequence[Payload], drawing: str = "") -> Table:
        rows = []
        for f in some:
            ends = between(f["interval"], written.signed) if f["interval"] else "–"
            weight = (written.signed(f["weight"]), _meter(f["weight"], top), ends)
            weight = ("curved, see the picture", Html(""), "–") if f["name"] in curved else weight
            rows.append((f["name"], *weight, percent(f["frequency"]))[:n_heads])
        return Table(HEADS[:n_heads], rows, ["unsure" if doubtful(f) else "" for f in some], caption, drawing)

    def doubtful(f: Payload) -> bool:
        return f["name"] not in curved and f["interval"] is not None and f["interval"][0] <= 0 <= f["interval"][1]

    sure, unsure = ([f for f in features if doubtful(f) is kind] for kind in (False, True))
    if not sure or not unsure:
        return table(features)
    more = "1 more column was" if len(unsure) == 1 else f"{len(unsure)} more columns were"
    words = f"{more} kept, but with an interval that contains 0: the effect may be zero"
    return table(features, table(sure).html() + folded(words, table(unsure).html()))


def _meter(weight: float, top: float) -> Html:
    """A bar to the right for a positive weight, to the left for a negative one."""
    share = 50 * abs(weight) / top
    left, css = (50.0, "") if weight >= 0 else (50 - share, ' class="neg"')
    bar = f'<i{css} style="left:{left:.1f}%;width:{share:.1f}%"></i>'
    return Html(f'<span class="meter" aria-hidden="true" data-sort="{abs(weight)}">{bar}</span>')


def shape(column: Payload, unit: str = "") -> str:
    """The value against a column, averaged over the other columns, with its band."""
    names = (column["name"], f"change in {unit or 'value'}", f"Value against {column['name']}")
    return pictures.band(**column["shape"], names=names, guide="the mean").svg()


def _importance(column: Payload) -> str:
    """The share of the explained value that is lost without a column, with its error."""
    lost, error = column["importance"], 2 * column["standard_error"]
    if not column["matters"]:
        return f"{column['name']}: the log does not show whether the model would be worse without it."
    share = f"about {percent(max(lost - error, 0.0))} to {percent(min(lost + error, 1.0))}"
    return f"{column['name']}: without it the model would explain {share} less of what happens in unseen episodes."


def _fit(p: Payload) -> list[Block]:
    words = [p[key] for key in ("fit", "behavior_policy") if p.get(key)]
    found = p["convergence"]
    gap = pictures.falling(found["iteration"], found["gap"], "iteration", "certified gap").svg() if found else ""
    return [*words, pair(figure(path(p), "path"), figure(gap, "convergence"))]


def path(p: Payload) -> str:
    """Weights against the penalty, and where all features that stand out have entered."""
    found = p["path"]
    if not found:
        return ""
    penalty, lines, kept = found["penalty"], found["weights"], {f["name"] for f in p["features"]}
    at = penalty.index(min(penalty))
    named = sorted((name for name in lines if name in kept), key=lambda name: -abs(lines[name][at]))
    chart = pictures.path(penalty, lines, named[:SHOWN])
    chosen = found["chosen"]
    chart.add("line", (chosen, chosen), chart.y_range, "line warm dash", f"chosen penalty {number(chosen)}")
    return chart.svg()
