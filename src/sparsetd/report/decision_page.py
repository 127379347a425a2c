"""Pages for decisions: policies beside one another, and a policy that was proposed and tested.

As on the page of an evaluation the order is the reader's: the decision, what it rests on, where it comes from, words.
Each page takes what `to_dict` of its result returns, and nothing else.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from sparsetd.report import charts
from sparsetd.report.page import acts_in_words, alerts, entries, section
from sparsetd.report.shell import row, shell, table
from sparsetd.report.words import Numbers, percent

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


def comparison_page(p: Payload) -> str:
    """The page of `compare`; equal payloads give equal bytes."""
    best = set(p["best_set"])
    rows = [(r["name"], r["value"], r["interval"], "main" if r["name"] in best else "") for r in p["values"]]
    head = _head("Which policy is best?", p["sentence"], alerts(p["warnings"], "Do not rely on this policy's value."))
    does = {f"What {name} does": acts_in_words(acts) for name, acts in p.get("acts", {}).items() if acts}
    robust = {f"{name}: if a cause is missing": said for name, said in p.get("robustness", {}).items() if said}
    head += entries({**does, **robust, "What would have to be true": p.get("assumptions", "")}, "words")
    values = _forest(rows, p["level"], "value per episode", "Policies that may be best are drawn bold.")
    body = head + section("values", "What is each policy worth?", values)
    body += section("differences", "How do they differ?", _matrix(p))
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
    small = f"<small>difference to what was done, {level} interval {' to '.join(map(written.signed, interval))}</small>"
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
    lead = f'<p class="lead">{escape(sentence)}</p>'
    return f'<header id="answer" tabindex="-1"><h1>{title}</h1>{figure}{lead}{said}</header>'


def _true_if(p: Payload, acts: Payload | None, robust: Payload | None) -> dict[str, str]:
    """Return what the policy does, and what must be true for the difference to be real."""
    found = {"What it does": acts_in_words(acts)} if acts else {}
    said = filter(None, [p.get("assumptions"), robust and robust["sentence"]])
    return {**found, "What would have to be true": " ".join(said)}


def _method(words: Mapping[str, str], settings: Payload) -> str:
    return section("method", "Words and settings", f"{entries(words)}<h3>To repeat this</h3>{entries(settings)}")


def _forest(rows: Sequence[tuple[str, float, Any, str]], level: float, label: str, caption: str) -> str:
    ends = [v for _, value, interval, _ in rows for v in (value, *interval)]
    guide = 0.0 if label.startswith("difference") else rows[0][1]
    drawing = charts.intervals(rows, level, Numbers.of(ends), label, ends, guide)
    return f"<figure>{drawing}<figcaption>{escape(caption)}</figcaption></figure>"


def _matrix(p: Payload) -> str:
    """Row less column, with its interval; what is beyond chance is marked by a word and a colour."""
    names = [r["name"] for r in p["values"]]
    found = {(r["name"], r["less"]): r for r in p["differences"]}
    written = Numbers.of(v for r in p["differences"] for v in r["interval"])
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


def _groups(p: Payload) -> str:
    rows = [(f"{r['group']}: {r['name']}", r["value"], r["interval"], "main") for r in p["groups"]]
    return _forest(rows, p["level"], "difference", "All of these intervals hold at once.")


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
        f"<p>{escape(policy['words'])}</p><h3>Scores</h3><p>{note}</p>{_scores(policy, 'scores')}"
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
