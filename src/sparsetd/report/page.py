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

from sparsetd.report import charts
from sparsetd.report.feature_table import feature_table
from sparsetd.report.shell import shell
from sparsetd.report.words import Numbers, Verdict, answers, count, number, percent, verdicts
from sparsetd.storage.atomic import replace_file

Payload = Mapping[str, Any]

SECTIONS = {"sure": "How sure?", "features": "Which features?", "fit": "How the fit went", "method": "Words, settings"}
CAPTIONS = {
    "forest": "Whiskers are intervals. The rows below the logged behaviour estimate the same number as this report in "
    "other ways. They are a check, not a vote: those that rest on few effective episodes can be far off by chance.",
    "ratios": "How much each logged transition counts for the target policy: 1 where it acts as the log does. A long "
    "tail means that few rows decide.",
    "agreement": "States grouped by predicted value, on episodes the model has not seen, against the weighted return "
    "that followed. Points near the diagonal are good.",
    "fan": "What the difference to the logged behaviour may be at each strength Γ: dark, what an unrecorded cause "
    "could do; light, that and chance together. Γ multiplies the odds of the logged action.",
    "path": "Weights as the penalty falls from left to right; dashed: where all features that stand out have entered.",
    "convergence": "The certified gap: the most by which more iterations could still lower the objective, as a share "
    "of it.",
}
ALERTS = {"red": "Do not use this answer.", "amber": "Caution.", "note": "Note."}
WEIGHT = "A weight is the change in value when the feature rises by one standard deviation, the others unchanged."
GLOSSARY = {
    "Value": "Expected (discounted) sum of rewards per episode if the target policy were in charge from the start.",
    "Interval": "Covers the truth at the stated rate over logs like this one. It accounts for the sampling of whole "
    "episodes, not for actions missing from the log nor for a cause that was not recorded.",
    "Effective sample size": "How many episodes (or rows) of the target policy itself carry the same information.",
    "Coverage": "Share of the target policy's choices that the logged policy also makes.",
    "Ratio": "Probability of the logged action under the target policy over that under the logged policy.",
    "Bellman error": "How inconsistent the value function is from one step to the next, on episodes it has not seen.",
    "Kept in resamples": "Share of resampled logs in which the feature is kept: near 100 % is stable, near 0 % luck.",
    "WIS, PDIS, WPDIS": "Importance sampling: logged returns reweighted, without a model. Unreliable on long episodes.",
    "DR": "Doubly robust: the value from other episodes plus the weighted errors it makes on these.",
    "LSTD-Q": "The value without any behaviour probabilities, from a model of every action. If it agrees, that is "
    "not proof: both may miss the same unrecorded cause.",
    "LSTD, features that matter": "The same linear model, with the features that stand out alone.",
    "Effective episodes": "How many episodes would carry the same information if each counted alike.",
}


def write_page(payload: Payload, path: str | os.PathLike[str]) -> None:
    """Write the page to `path`, atomically."""
    replace_file(path, page(payload))


def page(payload: Payload) -> str:
    """The page as text; equal payloads give equal bytes."""
    body = "".join(part(payload) for part in (_answer, _certainty, _hidden, _features, _fit, _method))
    return shell(f"Value of {payload['target']}", body)


def _answer(p: Payload) -> str:
    """The question, what speaks against the answer, the answer. Where it must not be used, that comes first."""
    target = f'<span class="soft">({escape(str(p["target"]))})</span>'
    written, red = answers(p), p["severity"] == "red"
    unit = f"{escape(p['unit'])}, " if p.get("unit") else ""
    interval = f"{unit}{percent(p['level'])} interval {' to '.join(map(written, p['interval']))}"
    figure = (
        f'<p class="answer{" doubtful" if red else ""}">{written(p["value"])} <small>{interval}</small></p>'
        f'<p class="lead">{escape(_comparison(p))}</p>'
    )
    links = [f'<a href="#{key}">{words}</a>' for key, words in SECTIONS.items()]
    body = alerts(p["warnings"]) + figure if red else figure + alerts(p["warnings"])
    return (
        f'<header id="answer" tabindex="-1"><h1>What is the target policy worth? {target}</h1>{body}</header>'
        f'<nav aria-label="Sections">{"".join(links)}</nav>'
    )


def alerts(cautions: Sequence[Mapping[str, str]], red: str = ALERTS["red"]) -> str:
    """Each caution as a box that says in words how bad it is."""
    words = {**ALERTS, "red": red}
    return "".join(
        f'<p class="alert {c["severity"]}"><strong>{words[c["severity"]]}</strong> {escape(c["text"])}</p>'
        for c in cautions
    )


def _comparison(p: Payload) -> str:
    """The answer in a sentence: against what the log itself earned, or would have earned."""
    what = "return" if p["gamma"] == 1 else f"return (discounted by {p['gamma']:g} a step)"
    written = answers(p)
    observed, modelled = (written(p[key]["value"]) for key in ("observed_return", "behavior_modelled"))
    cut = p["behavior_value"]["name"] != p["observed_return"]["name"]
    first = f"The expected {what} per episode. The episodes of the log earned {observed} on average"
    first += f"; had none been cut, the logged behaviour would have earned an estimated {modelled}." if cut else "."
    gain = p["difference"]
    if gain["value"] is None or not math.isfinite(gain["value"]) or p["severity"] == "red":
        return first
    low, high = gain["interval"]
    signed = Numbers.of([gain["value"], low, high]).signed
    change = f"The difference of {signed(gain['value'])} "
    change += f"({percent(p['level'])} interval {signed(low)} to {signed(high)})"
    if p["max_ratio"] == 1 and p["ess_rows"] == p["n_rows"]:
        return f"{first} {change} is the model's own error: the target acts as the log does in every row."
    if low <= 0 <= high:
        return f"{first} {change} is within what chance alone would explain."
    return f"{first} The target policy is {'better' if low > 0 else 'worse'}. {change} is beyond chance."


def _certainty(p: Payload) -> str:
    cards = f'<div class="cards">{"".join(map(_card, verdicts(p)))}</div>'
    pair = f'<div class="pair">{_figure("ratios", p)}{_figure("agreement", p)}</div>'
    return section("sure", "How sure are we?", cards + _figure("forest", p) + _weight_note(p) + pair)


def _hidden(p: Payload) -> str:
    """What hidden confounding could do to the answer, where that was asked."""
    found = p.get("confounding")
    if not found:
        return ""
    drawing = f"<figure>{charts.fan(found)}<figcaption>{escape(CAPTIONS['fan'])}</figcaption></figure>"
    return section(
        "hidden", "What if something unrecorded drove the actions?", f"<p>{escape(found['sentence'])}</p>{drawing}"
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
    return section("features", title, f"<p>{share}. {WEIGHT}</p>{table}")


def _fit(p: Payload) -> str:
    words = [f"<p>{escape(p[key])}</p>" for key in ("fit", "behavior_policy") if p.get(key)]
    pair = f'<div class="pair">{_figure("path", p)}{_figure("convergence", p)}</div>'
    return section("fit", "How did the fit go?", "".join(words) + pair)


def _method(p: Payload) -> str:
    return section(
        "method", "Words and settings", f"{entries(GLOSSARY)}<h3>To repeat this</h3>{entries(p['settings'])}"
    )


def entries(found: Mapping[str, Any]) -> str:
    return f"<dl>{''.join(f'<dt>{escape(k)}</dt><dd>{escape(str(v))}</dd>' for k, v in found.items())}</dl>"


def section(name: str, title: str, body: str) -> str:
    return f'<section id="{name}" aria-labelledby="h-{name}"><h2 id="h-{name}">{title}</h2>{body}</section>'


def _figure(name: str, p: Payload) -> str:
    """A chart with its words, or nothing where there is nothing to draw."""
    drawing = getattr(charts, name)(p)
    return f"<figure>{drawing}<figcaption>{escape(CAPTIONS[name])}</figcaption></figure>" if drawing else ""
