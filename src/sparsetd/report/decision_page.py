"""Pages for decisions: policies beside one another, and a policy that was proposed and tested.

As on the page of an evaluation the order is the reader's: the decision, what it rests on, where it comes from, words.
Each page takes what `to_dict` of its result returns, and nothing else.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape

from sparsetd._tools.numbers import Numbers, count, percent
from sparsetd.plots.pictures import Row
from sparsetd.report import charts, shell
from sparsetd.report.page import conditions, remedy, sureness
from sparsetd.report.shell import SAY, Payload

MOST_NAMED = 5  # policies whose values are told in words


def comparison_page(p: Payload) -> str:
    """The page of `compare`; equal payloads give equal bytes."""
    said = shell.alerts(p["warnings"], "Do not rely on this policy's value.")
    words = {
        "What they would have been worth": _worth(p),
        "How sure that is": SAY["together"],
        "What would have to be true": conditions(p.get("assumptions")),
        "What to do next": _next(p),
    }
    parts = {
        "values": ("What is each policy worth?", _values(p)),
        "differences": ("How do they differ?", _differences(p)),
        "does": ("What does each policy do?", shell.entries(_deeds(p), "words")),
    }
    if p["groups"]:
        parts["groups"] = (f"For whom? Differences to {p['reference']}", _groups(p))
    for k, (name, places) in enumerate(p["where"].items()):
        title = f"Where does “{name}” act differently from “{p['reference']}”?"
        parts[f"where-{k}"] = (title, _places(places, f"“{p['reference']}”"))
    top = shell.header(
        "Which policy is best?", [_lead(p), said], words, {key: title for key, (title, _) in parts.items()}
    )
    body = "".join(shell.section(key, *part) for key, part in parts.items())
    return shell.shell("Comparison of policies", top + body + shell.method("comparison", p["settings"]))


def improvement_page(p: Payload) -> str:
    """The page of `improve`."""
    test = p["evaluation"]
    words = {
        "What it does": test["acts"]["sentence"] if test.get("acts") else "",
        "How sure that is": f"{_splits(p)} {sureness(test)}",
        "What would have to be true": conditions(p.get("assumptions"), test.get("robustness")),
        "What to do next": SAY["trial"] if p["recommended"] else remedy(test["warnings"]) or SAY["keep"],
    }
    tried = [(r["recipe"], Numbers.of([r["difference"]]).signed(r["difference"])) for r in p["candidates"]]
    recipes = shell.folded(f"{len(tried)} policies", shell.table(("Policy", "Difference on the inner half"), tried))
    parts = {
        "policy": ("The policy", _policy(p["policy"])),
        "where": ("Where does it act differently, and what is that worth?", _places(p["where"], "what was done")),
        "tried": ("What was tried", f"<p>{SAY['tried']}</p>{recipes}"),
    }
    title = f"Can it be done better? {'Recommended' if p['recommended'] else 'Not recommended'}."
    shown = [_gain(p), _lead(p), shell.alerts(test["warnings"])]
    top = shell.header(title, shown, words, {key: title for key, (title, _) in parts.items()})
    body = "".join(shell.section(key, *part) for key, part in parts.items())
    return shell.shell("A proposed policy", top + body + shell.method("improvement", p["settings"]))


def _lead(p: Payload) -> str:
    return f'<p class="lead">{shell.prose(p["sentence"])}</p>'


def _gain(p: Payload) -> str:
    """The difference in large type, and nothing where it must not be used."""
    if not p["recommended"] or p["evaluation"]["severity"] == "red":
        return ""
    gain, interval = p["difference"]["value"], p["difference"]["interval"]
    written = Numbers.of([gain, *interval])
    ends = f"{percent(p['evaluation']['level'])} interval {' to '.join(map(written.signed, interval))}"
    return (
        f'<p class="answer">{written.signed(gain)} <small>{escape(_difference(p))} to what was done, {ends}</small></p>'
    )


def _splits(p: Payload) -> str:
    """A sentence about the number of splits in which the policy was better beyond chance."""
    better, n = sum(split["interval"][0] > 0 for split in p["splits"]), len(p["splits"])
    tested = f"It was tested once on {count(p['n_tested'])} episodes that it was not learnt from"
    return f"{tested}. {better} of {n} random splits speak for it beyond chance." if n > 1 else f"{tested}."


def _worth(p: Payload) -> str:
    """The values that may be used in words, the highest first; of many the highest and the lowest."""
    doubted = p.get("unjudged", ())
    usable = sorted((r for r in p["values"] if r["name"] not in doubted), key=lambda r: -float(r["value"]))
    if not usable:
        return ""
    widths = [r["interval"][1] - r["interval"][0] for r in usable]
    written, called = Numbers.of((v for r in usable for v in r["interval"]), min(widths)), _called(p)
    told = [f"{called[r['name']]}: {written(r['value'])} ({' to '.join(map(written, r['interval']))})" for r in usable]
    if len(told) > MOST_NAMED:
        told = [f"from {told[0]} down to {told[-1]}"]
    what = f"{p['unit']} per episode" if p.get("unit") else "per episode"
    said = f"{'; '.join(told)}; {what}, with {percent(p['level'])} intervals."
    return f"{said} Do not rely on {', '.join(called[name] for name in doubted)}." if doubted else said


def _called(p: Payload) -> dict[str, str]:
    """By the name of a policy, what it is called in a sentence: the rules of a family by their thresholds."""
    names = [r["name"] for r in p["values"]]
    return dict(zip(names, [f"threshold {t:g}" for t in p.get("thresholds") or ()] or names, strict=True))


def _next(p: Payload) -> str:
    """The advice after a comparison: a trial of the best policy, or more data to tell the best apart."""
    if any(caution["severity"] == "red" for caution in p["warnings"]):
        return SAY["red_policies"]
    if len(p["best_set"]) > 1:
        called = _called(p)
        names = ", ".join(called[name] for name in p["best_set"])
        return f"More episodes would tell these apart: {names}. Until then take the one that costs least."
    return SAY["trial"]


def _deeds(p: Payload) -> dict[str, str]:
    """By the name of the policy, how it differs from what was done and how strong an unrecorded cause must be."""
    acts, robust = p.get("acts", {}), p.get("robustness", {})
    told = {}
    for name in (r["name"] for r in p["values"]):
        does = acts[name]["sentence"] if acts.get(name) else "It is what was done."
        told[name] = f"{does} {robust.get(name) or ''}".strip()
    return told


def _values(p: Payload) -> str:
    """The values with their intervals: against the threshold of a family of rules, else by name."""
    label = p.get("unit") or "value per episode"
    if p.get("thresholds"):
        return _by_threshold(p, label)
    best = set(p["best_set"])
    rows = [(r["name"], r["value"], r["interval"], "main" if r["name"] in best else "") for r in p["values"]]
    return shell.figure(_forest(p, rows, label, rows[0][1]), "values")


def _by_threshold(p: Payload, label: str) -> str:
    """The value against the threshold; a threshold whose value is not to be relied on would set the scale."""
    doubted, called = set(p.get("unjudged", ())), _called(p)
    pairs = list(zip(p["thresholds"], p["values"], strict=True))
    sound = [pair for pair in pairs if pair[1]["name"] not in doubted]
    shown = sound if len(sound) > 1 else pairs
    left = [called[r["name"]] for pair in pairs if pair not in shown for r in [pair[1]]]
    note = f"<p>Not drawn, because its value is not to be relied on: {', '.join(left)}.</p>" if left else ""
    at, values = zip(*shown, strict=True)
    return shell.figure(charts.thresholds(at, values, label), "thresholds") + note


def _groups(p: Payload) -> str:
    rows = [(f"{r['group']}: {r['name']}", r["value"], r["interval"], "main") for r in p["groups"]]
    return shell.figure(_forest(p, rows, _difference(p), 0.0), "groups")


def _forest(p: Payload, rows: Sequence[Row], label: str, guide: float) -> str:
    """The rows with their intervals; a policy that is not to be relied on does not set the scale."""
    wild = tuple(p.get("unjudged", ()))
    return charts.intervals(rows, p["level"], label, [row for row in rows if not row[0].endswith(wild)], guide)


def _differences(p: Payload) -> str:
    """Row less column, with its interval; what is beyond chance is marked by a word and a colour."""
    names = [r["name"] for r in p["values"]]
    found = {(r["name"], r["less"]): r for r in p["differences"]}
    ends = [v for r in p["differences"] for v in r["interval"]]
    widths = [high - low for low, high in zip(ends[::2], ends[1::2], strict=True)]
    written = Numbers.of(ends, min(widths, default=None))
    rows = [(name, *(_cell(found, name, other, written) for other in names)) for name in names]
    note = f"Each row less each column, with {percent(p['level'])} intervals that hold for all pairs at once."
    body = f"<p>{note}</p>" + shell.table(("Row less column", *(f"less {name}" for name in names)), rows)
    return shell.folded("All pairs", body) if p.get("thresholds") else body


def _cell(found: Mapping[tuple[str, str], Payload], a: str, b: str, written: Numbers) -> str:
    if a == b:
        return ""
    sign, r = (1, found[a, b]) if (a, b) in found else (-1, found[b, a])
    low, high = sorted(sign * v for v in r["interval"])
    kind = "better" if low > 0 else "worse" if high < 0 else ""
    text = f"{written.signed(sign * r['value'])}<br><small>{written.signed(low)} to {written.signed(high)}</small>"
    return f'<span class="{kind}">{text} {kind}</span>' if kind else text


def _difference(p: Payload) -> str:
    return f"difference in {p['unit']}" if p.get("unit") else "difference"


def _places(places: Sequence[Payload], reference: str) -> str:
    """By action, and by groups of states, where the share of decisions that differ makes sense."""
    written = Numbers.of(v["gain"] for v in places)
    heads = ("", "In the log", "Under the policy", "Worth", "Interval")
    rows: dict[bool, list[tuple[str, ...]]] = {False: [], True: []}
    for r in places:
        known = r["differs"] is not None and math.isfinite(r["differs"])
        worth = (written.signed(r["gain"]), " to ".join(map(written.signed, r["interval"])))
        share = (percent(r["share"]), percent(r["visited"]))
        # The share is estimated from the logged actions, so in a small group it can come out above 1.
        rows[known].append((r["group"], *share, *worth, *([percent(min(r["differs"], 1.0))] if known else [])))
    note = f"<p>{shell.prose(SAY['places'].format(reference=reference))}</p>"
    actions = f"<h3>By action</h3>{shell.table(heads, rows[False])}" if rows[False] else ""
    return f"{note}{actions}<h3>By group of states</h3>{shell.table((*heads, 'Acts differently'), rows[True])}"


def _policy(policy: Payload) -> str:
    """The rule, the table that decides, and what was usually done, by which the rule limits the choice."""
    usual = shell.folded("What was usually done", f"<p>{SAY['habit']}</p>{_scores(policy, 'habit')}")
    scores = f"<h3>Scores</h3><p>{SAY['scores']}</p>{_scores(policy, 'scores')}<p>{shell.prose(SAY['rounded'])}</p>"
    return f"<p>{shell.prose(policy['words'])}</p>{scores}{usual}"


def _scores(policy: Payload, key: str) -> str:
    """One row per column, the strongest first, with the score of every action and the units; the constant ends it."""
    found = policy[key]
    *columns, constant = found[0]
    top = sorted(columns, key=lambda h: -max(abs(row[h]) for row in found))
    heads = ("Column", *(f"Score of {a}" for a in policy["actions"]), "Mean", "Standard deviation")
    rows = [(h, *(_score(row[h]) for row in found), *_units(policy["center"][h], policy["scale"][h])) for h in top]
    return shell.table(heads, [*rows, (constant, *(_score(row[constant]) for row in found), "", "")])


def _score(value: float) -> str:
    return shell.prose(f" {value:+.3f}").strip()


def _units(center: float, scale: float) -> tuple[str, str]:
    """The mean and the standard deviation of a column, both to three digits of the latter."""
    written = Numbers.of([scale])
    return written(center), written(scale)
