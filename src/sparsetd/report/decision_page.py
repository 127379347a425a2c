"""Pages for decisions: policies beside one another, and a policy that was proposed and tested.

As on the page of an evaluation the order is the reader's: the decision, what it rests on, where it comes from, words.
Each page takes what `to_dict` of its result returns, and nothing else.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from sparsetd._tools.numbers import Numbers, percent
from sparsetd.report import charts
from sparsetd.report.page import alerts, entries, section, to_repeat
from sparsetd.report.shell import prose, row, shell, table

Payload = Mapping[str, Any]

WORDS = {
    "Value": "Expected (discounted) sum of rewards per episode if the policy were in charge from the start.",
    "Intervals": "Hold for all rows of a picture or table at once, at the stated rate over logs like this one, if the "
    "assumptions hold. They account for the sampling of whole episodes, not for a cause that was not recorded.",
    "May be best": "No other policy is better beyond chance. With more episodes fewer policies remain.",
    "In the log, under the policy": "Share of the logged steps in the group, and of the policy's own steps.",
    "Acts differently": "The share of its decisions that the policy would take otherwise (total variation).",
    "Worth": "What the group adds to the difference: the groups of one heading add up to all of it. These intervals "
    "stand alone: they show where to look, but they are not tests.",
    "Score": "Estimated value of an action against the others, in units of how much the logged choices differ in it.",
}

TRIAL = "Discuss it with people who know the field, and test it in a trial. An analysis of a log cannot replace one."


def comparison_page(p: Payload) -> str:
    """The page of `compare`; equal payloads give equal bytes."""
    best = set(p["best_set"])
    rows = [(r["name"], r["value"], r["interval"], "main" if r["name"] in best else "") for r in p["values"]]
    head = _head("Which policy is best?", p["sentence"], alerts(p["warnings"], "Do not rely on this policy's value."))
    head += entries({"What would have to be true": p.get("assumptions", ""), "What to do next": _next(p)}, "words")
    label = p.get("unit") or "value per episode"
    values = _forest(rows, p["level"], label, "Policies that may be best are drawn bold.", rows[0][1])
    body = head + section("values", "What is each policy worth?", values)
    body += section("differences", "How do they differ?", _matrix(p))
    body += section("does", "What does each policy do?", entries(_deeds(p), "words"))
    if p["groups"]:
        body += section("groups", f"For whom? Differences to {escape(p['reference'])}", _groups(p))
    for name, places in p["where"].items():
        title = f"Where does {escape(name)} act differently from {escape(p['reference'])}?"
        body += section(f"where-{len(body)}", title, _places(places))
    used = {
        k: WORDS[k]
        for k in ("Value", "Intervals", "May be best", "In the log, under the policy", "Acts differently", "Worth")
    }
    return shell("Comparison of policies", body + _method(used, p["settings"]))


def improvement_page(p: Payload) -> str:
    """The page of `improve`."""
    word = "Recommended" if p["recommended"] else "Not recommended"
    gain, interval = p["difference"]["value"], p["difference"]["interval"]
    written = Numbers.of([gain, *interval])
    level = percent(p["evaluation"]["level"])
    ends = " to ".join(map(written.signed, interval))
    small = f"<small>{_difference(p)} to what was done, {level} interval {ends}</small>"
    usable = p["recommended"] and p["evaluation"]["severity"] != "red"  # large type only for what may be used
    figure = f'<p class="{"answer" if usable else "lead"}">{written.signed(gain)} {small}</p>'
    body = _head(f"Can it be done better? {word}.", p["sentence"], alerts(p["evaluation"]["warnings"]), figure)
    body += entries(_true_if(p, p["evaluation"].get("acts"), p["evaluation"].get("robustness")), "words")
    body += section("policy", "The policy", _policy(p["policy"]))
    body += section("where", "Where does it act differently, and what is that worth?", _places(p["where"]))
    tried = [(r["recipe"], Numbers.of([r["difference"]]).signed(r["difference"])) for r in p["candidates"]]
    note = "<p>Each was learnt on one half of the first part and judged on the other. Only the first was tested.</p>"
    body += section("tried", "What was tried", note + _table(("Policy", "Difference on the inner half"), tried))
    used = {k: WORDS[k] for k in ("Value", "Score", "In the log, under the policy", "Acts differently", "Worth")}
    return shell("A proposed policy", body + _method(used, p["settings"]))


def _head(title: str, sentence: str, said: str, figure: str = "") -> str:
    lead = f'<p class="lead">{prose(sentence)}</p>'
    return f'<header id="answer" tabindex="-1"><h1>{title}</h1>{figure}{lead}{said}</header>'


def _true_if(p: Payload, acts: Payload | None, robust: Payload | None) -> dict[str, str]:
    """Return what the policy does, and what must be true for the difference to be real."""
    found = {"What it does": acts["sentence"]} if acts else {}
    said = filter(None, [p.get("assumptions"), robust and robust["sentence"]])
    after = (
        TRIAL if p["recommended"] else "Keep to what was done: collect more episodes, or record more, and ask again."
    )
    return {**found, "What would have to be true": " ".join(said), "What to do next": after}


def _next(p: Payload) -> str:
    """Return what follows from a comparison: a trial of the best policy, or more data to tell the best apart."""
    if any(caution["severity"] == "red" for caution in p["warnings"]):
        return "Follow the remedies in the red boxes, or leave those policies out, and compare again."
    if len(p["best_set"]) > 1:
        names = ", ".join(p["best_set"])
        return f"More episodes would tell these apart: {names}. Until then take the one that costs least."
    return TRIAL


def _deeds(p: Payload) -> dict[str, str]:
    """By the name of the policy, how it differs from what was done and how strong an unrecorded cause must be."""
    acts, robust = p.get("acts", {}), p.get("robustness", {})
    told = {}
    for name in (r["name"] for r in p["values"]):
        does = acts[name]["sentence"] if acts.get(name) else ""
        told[name] = f"{does} {robust.get(name) or ''}".strip()
    return told


def _method(words: Mapping[str, str], settings: Payload) -> str:
    return section("method", "Words and settings", entries(words) + to_repeat(settings))


def _forest(rows: Sequence[tuple[str, float, Any, str]], level: float, label: str, caption: str, guide: float) -> str:
    ends = [v for _, value, interval, _ in rows for v in (value, *interval)]
    drawing = charts.intervals(rows, level, Numbers.of(ends), label, ends, guide)
    return f"<figure>{drawing}<figcaption>{escape(caption)}</figcaption></figure>"


def _matrix(p: Payload) -> str:
    """Row less column, with its interval; what is beyond chance is marked by a word and a colour."""
    names = [r["name"] for r in p["values"]]
    found = {(r["name"], r["less"]): r for r in p["differences"]}
    ends = [v for r in p["differences"] for v in r["interval"]]
    widths = [high - low for low, high in zip(ends[::2], ends[1::2], strict=True)]
    written = Numbers.of(ends, min(widths, default=None))
    rows = [(name, *(_cell(found, name, other, written) for other in names)) for name in names]
    note = f"Each row less each column, with {percent(p['level'])} intervals that hold for all pairs at once."
    return f"<p>{note}</p>" + _table(("Row less column", *names), rows)


def _cell(found: Mapping[tuple[str, str], Payload], a: str, b: str, written: Numbers) -> str:
    if a == b:
        return "–"
    sign, r = (1, found[a, b]) if (a, b) in found else (-1, found[b, a])
    low, high = sorted(sign * v for v in r["interval"])
    kind = "better" if low > 0 else "worse" if high < 0 else ""
    text = f"{written.signed(sign * r['value'])}<br><small>{written.signed(low)} to {written.signed(high)}</small>"
    return f'<span class="{kind}">{text} {kind}</span>' if kind else text


def _difference(p: Payload) -> str:
    return f"difference in {p['unit']}" if p.get("unit") else "difference"


def _groups(p: Payload) -> str:
    rows = [(f"{r['group']}: {r['name']}", r["value"], r["interval"], "main") for r in p["groups"]]
    return _forest(rows, p["level"], _difference(p), "All of these intervals hold at once.", 0.0)


def _places(places: Sequence[Payload]) -> str:
    """By action, and by groups of states, where the share of decisions that differ makes sense."""
    written = Numbers.of(v["gain"] for v in places)
    heads = ("", "In the log", "Under the policy", "Worth", "Interval")
    rows: dict[bool, list[tuple[str, ...]]] = {False: [], True: []}
    for r in places:
        known = r["differs"] is not None and math.isfinite(r["differs"])
        worth = (written.signed(r["gain"]), " to ".join(map(written.signed, r["interval"])))
        share = (percent(r["share"]), percent(r["visited"]))
        rows[known].append((r["group"], *share, *worth, *([percent(r["differs"])] if known else [])))
    actions = f"<h3>By action</h3>{_table(heads, rows[False])}" if rows[False] else ""
    return f"{actions}<h3>By group of states</h3>{_table((*heads, 'Acts differently'), rows[True])}"


def _policy(policy: Payload) -> str:
    """The rule, the table that decides, and what was usually done, by which the rule limits the choice."""
    unit = "log-odds" if policy["rule"] == "tilt" else "score"
    note = f"Score of each action: change in {unit} per standard deviation of a column, and its constant."
    habit = "Usual log-odds of each action, in the same units: what was done in the log."
    return (
        f"<p>{prose(policy['words'])}</p><h3>Scores</h3><p>{note}</p>{_scores(policy, 'scores')}"
        f"<h3>What was usually done</h3><p>{habit}</p>{_scores(policy, 'habit')}"
    )


def _scores(policy: Payload, key: str) -> str:
    """One row per action; below them the mean and the standard deviation of every column."""
    heads, table = list(policy[key][0]), dict(zip(policy["actions"], policy[key], strict=True))
    top = sorted(heads[:-1], key=lambda h: -max(abs(row[h]) for row in table.values()))
    rows = [(f"action {a}", *(f"{row[h]:+.3f}" for h in [*top, heads[-1]])) for a, row in table.items()]
    units = (("mean of the column", "center"), ("its standard deviation", "scale"))
    rows += [(words, *(f"{policy[unit][h]:.6g}" for h in top), "") for words, unit in units]
    return _table(("", *top, heads[-1]), rows)


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """The first cell of a row is its name; other cells are ready HTML."""
    body = (row(first, (f"<td>{cell}</td>" for cell in rest)) for first, *rest in rows)
    return table(heads[0], map(escape, heads), body)
