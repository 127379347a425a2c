"""The report of an evaluation: one HTML page a domain expert can read, print and mail; nothing comes from a network.

The order is the reader's: the answer, how sure we are, which features carry it, how the fit went, how to repeat it.
`page` takes what `Evaluation.to_dict` returns (and so what `sparsetd evaluate --json` prints) and nothing else.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from sparsetd._tools.numbers import Numbers, count, number, percent
from sparsetd.report import charts
from sparsetd.report.shell import feature_table, prose, shell
from sparsetd.report.words import Verdict, answers, verdicts
from sparsetd.storage.atomic import replace_file

Payload = Mapping[str, Any]

SECTIONS = {"sure": "How sure?", "features": "Which features?", "fit": "How the fit went", "method": "Words, settings"}
CAPTIONS = {
    "forest": "Whiskers are intervals. The rows below the logged behaviour estimate the same number as this report in "
    "other ways. They are a check, not a vote: an estimate that rests on few episodes can be far off by chance.",
    "ratios": "How much each logged transition counts for the target policy: 1 where it acts as the log does. A long "
    "tail means that few rows decide.",
    "agreement": "Episodes the model has not seen: the value it predicts, in groups of states, against the weighted "
    "return that followed. Points near the diagonal are good.",
    "fan": "The range of the difference to the logged behaviour at each strength Γ of an unrecorded cause. Dark: the "
    "cause alone; light: the cause and chance together. Γ multiplies the odds of the logged action.",
    "path": "Weights as the penalty falls from left to right; dashed: where all features that stand out have entered.",
    "convergence": "The certified gap: the most by which more iterations could still lower the objective, as a share "
    "of it.",
}
ALERTS = {"red": "Do not use this answer.", "amber": "Caution.", "note": "Note."}
SHAPES = 6  # columns whose shapes are drawn
SHAPE = (
    "Each line shows the value as one column changes and the others stay as they are in the log, against its mean; the "
    "band says how sure that is."
)
WEIGHT = (
    "A weight is the change in value when the feature rises by one standard deviation, the others unchanged. The "
    "intervals of weights do not account for the choice of the features."
)
GLOSSARY = {
    "Value": "Expected (discounted) sum of rewards per episode if the target policy were in charge from the start.",
    "Interval": "Covers what this model converges to, at the stated rate over logs like this one; that is the policy's "
    "value if the assumptions hold. It accounts for the sampling of whole episodes, not for actions missing from the "
    "log nor for a cause that was not recorded.",
    "Coverage": "Share of the target policy's choices that the logged policy also makes.",
    "Ratio": "Probability of the logged action under the target policy over that under the logged policy.",
    "Bellman error": "How inconsistent the value function is from one step to the next, on episodes it has not seen.",
    "Kept in resamples": "Share of resampled logs in which the feature is kept: near 100 % is stable, near 0 % luck.",
    "WIS, PDIS, WPDIS": "Importance sampling: logged returns reweighted, without a model. Unreliable on long episodes.",
    "DR": "Doubly robust: the value from other episodes plus the weighted errors it makes on these.",
    "LSTD-Q": "The value without any behaviour probabilities, from a model of every action. If it agrees, that is "
    "not proof: both may miss the same unrecorded cause.",
    "LSTD, features that matter": "The same linear model, with the features that stand out alone.",
    "Effective episodes": "How evenly the weight is spread over the episodes: as over this many that count alike.",
    "Γ*": "How strongly an unrecorded cause would have to change the odds of the logged action, at every decision, to "
    "explain the difference away (the marginal sensitivity model, Tan 2006).",
}


def write_page(payload: Payload, path: str | os.PathLike[str]) -> None:
    """Write the page to `path`, atomically."""
    replace_file(path, page(payload))


def page(payload: Payload) -> str:
    """The page as text; equal payloads give equal bytes."""
    body = "".join(part(payload) for part in (_answer, _certainty, _hidden, _features, _fit, _method))
    return shell(f"Value of {payload['target']}", body)


def _answer(p: Payload) -> str:
    """The question, the answer in words, and what speaks against it, which comes first where it must not be used."""
    red = p["severity"] == "red"
    body = alerts(p["warnings"]) + _figure_of_value(p) if red else _figure_of_value(p) + alerts(p["warnings"])
    links = [f'<a href="#{key}">{words}</a>' for key, words in SECTIONS.items()]
    title = f"What would {escape(str(p['target']))} have been worth?"
    return (
        f'<header id="answer" tabindex="-1"><h1>{title}</h1>{body}{entries(in_words(p), "words")}</header>'
        f'<nav aria-label="Sections">{"".join(links)}</nav>'
    )


def _figure_of_value(p: Payload) -> str:
    """The value in large type with its interval; in grey where it must not be used."""
    written, kind = answers(p), " doubtful" if p["severity"] == "red" else ""
    unit = f"{escape(p['unit'])}, " if p.get("unit") else ""
    interval = f"{unit}{percent(p['level'])} interval {' to '.join(map(written, p['interval']))}"
    return f'<p class="answer{kind}">{written(p["value"])} <small>{interval}</small></p>'


def in_words(p: Payload) -> dict[str, str]:
    """The answer in five sentences, from what the policy does to what to do next."""
    found = {}
    if p.get("acts"):
        found["What it does"] = p["acts"]["sentence"]
    found["What it would have been worth"] = _comparison(p)
    found["How sure that is"] = _sureness(p)
    robust = p.get("robustness")
    found["What would have to be true"] = " ".join(filter(None, [p.get("assumptions"), robust and robust["sentence"]]))
    found["What to do next"] = _next(p)
    return {name: text for name, text in found.items() if text}


def _sureness(p: Payload) -> str:
    """Return what the worst caution means for the reader, and how many episodes carry the answer."""
    carried = f"{count(p['effective_episodes'])} of {count(p['n_episodes'])} episodes"
    said = {
        "red": "Do not use this number: the boxes say why.",
        "amber": "Read it together with the cautions in the boxes.",
    }.get(p["severity"], "Nothing that was checked speaks against it.")
    return f"{said} Its weight is spread as over {carried} that count alike."


def _next(p: Payload) -> str:
    """The remedy of the worst caution; otherwise where to look next."""
    worst = next((c for c in p["warnings"] if c["severity"] in ("red", "amber")), None)
    if worst is not None and worst.get("remedy"):
        return str(worst["remedy"])
    if worst is not None:
        return "Follow the remedy in the first box, then ask again."
    return "Look at the columns that matter below, and discuss with people who know the field whether they make sense."


def alerts(cautions: Sequence[Mapping[str, str]], red: str = ALERTS["red"]) -> str:
    """Each caution as a box that says in words how bad it is; notes are folded away together."""
    words = {**ALERTS, "red": red}
    boxes = [
        (
            c["severity"],
            f'<p class="alert {c["severity"]}"><strong>{words[c["severity"]]}</strong> {prose(c["text"])}</p>',
        )
        for c in cautions
    ]
    notes = "".join(box for severity, box in boxes if severity == "note")
    n = sum(severity == "note" for severity, _ in boxes)
    folded = f"<details><summary>{n} {'note' if n == 1 else 'notes'}</summary>{notes}</details>" if n else ""
    return "".join(box for severity, box in boxes if severity != "note") + folded


def _comparison(p: Payload) -> str:
    """The answer in a sentence, beside the mean return of the log."""
    what = "return" if p["gamma"] == 1 else f"return (discounted by {p['gamma']:g} a step)"
    written = answers(p)
    observed, modelled = (written(p[key]["value"]) for key in ("observed_return", "behavior_modelled"))
    cut = p["behavior_value"]["name"] != p["observed_return"]["name"]
    first = f"{written(p['value'])} is the expected {what} per episode. The mean over the logged episodes is {observed}"
    first += f"; had none been cut, it would have been about {modelled}." if cut else "."
    gain = p["difference"]
    if gain["value"] is None or not math.isfinite(gain["value"]) or p["severity"] == "red":
        return first
    low, high = gain["interval"]
    signed = Numbers.of([gain["value"], low, high]).signed
    change = f"The difference of {signed(gain['value'])} "
    change += f"({percent(p['level'])} interval {signed(low)} to {signed(high)})"
    if p["max_ratio"] == 1 and p["ess_rows"] == p["n_rows"]:
        return (
            f"{first} The target acts as the log does in every row, so {change[0].lower()}{change[1:]} is model error."
        )
    if low <= 0 <= high:
        return f"{first} {change} is within what chance alone explains."
    return f"{first} {change} is beyond chance: the target is {'better' if low > 0 else 'worse'}."


def _certainty(p: Payload) -> str:
    cards = f'<div class="cards">{"".join(map(_card, verdicts(p)))}</div>'
    pair = f'<div class="pair">{_figure("ratios", p)}{_figure("agreement", p)}</div>'
    return section("sure", "How sure are we?", cards + _figure("forest", p) + _weight_note(p) + pair)


def _hidden(p: Payload) -> str:
    """Return what hidden confounding could do to the answer, where that was asked."""
    found = p.get("confounding")
    if not found:
        return ""
    drawing = f"<figure>{charts.fan(found)}<figcaption>{escape(CAPTIONS['fan'])}</figcaption></figure>"
    return section(
        "hidden", "What if something unrecorded drove the actions?", f"<p>{prose(found['sentence'])}</p>{drawing}"
    )


def _weight_note(p: Payload) -> str:
    """A warning beside the importance-sampling rows where the weights of whole episodes have lost track."""
    mean = p.get("mean_weight")
    if mean is None or 0.75 <= mean <= 1.33:
        return ""
    found = f"The weights of whole episodes average {number(mean)} where 1 is expected"
    return f'<p class="alert">{found}: WIS and PDIS are unreliable here.</p>'


def _card(v: Verdict) -> str:
    return (
        f'<div class="card {v.level}"><span class="soft">{escape(v.name)}</span> '
        f'<span class="verdict">{escape(v.word)}</span> <b>{escape(v.figure)}</b> <p>{escape(v.meaning)}</p></div>'
    )


def _features(p: Payload) -> str:
    kept, of = len(p["features"]), p["n_candidates"]
    title = "Which features matter?"
    if not kept:
        return section("features", title, "<p>The log does not show that any candidate feature changes the value.</p>")
    share = f"{count(kept)} of {count(of)} candidate features matter. For the others the log does not show an effect"
    if kept == of:
        share = "The one candidate feature matters" if of == 1 else f"All {count(of)} candidate features matter"
    table = feature_table(p["features"], p["level"])
    return section("features", title, f"<p>{share}. {WEIGHT}</p>{table}{_shapes(p)}")


def _shapes(p: Payload) -> str:
    """How the columns that matter most change the value, a small chart each."""
    kept = {f["name"] for f in p["features"]}
    shown = [c for c in p.get("columns") or () if c["name"] in kept and len(c["shape"]["at"]) > 1][:SHAPES]
    if not shown:
        return ""
    drawn = "".join(
        f"<figure>{charts.shape(c, p.get('unit') or '')}<figcaption>{escape(_importance(c))}</figcaption></figure>"
        for c in shown
    )
    return f'<h3>How they change the value</h3><p>{SHAPE}</p><div class="pair">{drawn}</div>'


def _importance(column: Payload) -> str:
    share = f"{percent(column['importance'])} ± {percent(2 * column['standard_error'])}"
    return f"{column['name']}: without it, {share} of what the model explains on episodes it has not seen is lost."


def _fit(p: Payload) -> str:
    words = [f"<p>{prose(p[key])}</p>" for key in ("fit", "behavior_policy") if p.get(key)]
    pair = f'<div class="pair">{_figure("path", p)}{_figure("convergence", p)}</div>'
    return section("fit", "How did the fit go?", "".join(words) + pair)


def _method(p: Payload) -> str:
    return section("method", "Words and settings", entries(GLOSSARY) + to_repeat(p["settings"]))


def to_repeat(settings: Payload) -> str:
    """The command that made the page, where there was one, and the settings."""
    command = settings.get("command")
    line = f'<p class="command"><code>{escape(str(command))}</code></p>' if command else ""
    others = {name: value for name, value in settings.items() if name != "command"}
    return f"<h3>To repeat this</h3>{line}{entries(others)}"


def entries(found: Mapping[str, Any], css: str = "") -> str:
    """A list of names with their words."""
    kind = f' class="{css}"' if css else ""
    return f"<dl{kind}>{''.join(f'<dt>{escape(k)}</dt><dd>{prose(str(v))}</dd>' for k, v in found.items())}</dl>"


def section(name: str, title: str, body: str) -> str:
    return f'<section id="{name}" aria-labelledby="h-{name}"><h2 id="h-{name}">{title}</h2>{body}</section>'


def _figure(name: str, p: Payload) -> str:
    """A chart with its words, or nothing where there is nothing to draw."""
    drawing = getattr(charts, name)(p)
    return f"<figure>{drawing}<figcaption>{escape(CAPTIONS[name])}</figcaption></figure>" if drawing else ""
