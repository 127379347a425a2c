"""The documents of decisions: policies beside one another, and a policy that was proposed and tested.

As in the document of an evaluation, the order is the reader's: the decision, what it rests on, where it comes from,
and the words that are used. Each document takes what `to_dict` of its result returns, and nothing else.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from sparsetd._tools.numbers import Numbers, at_level, between, count, number, percent
from sparsetd.plots import pictures
from sparsetd.report.document import Block, Document, Payload, Table, estimates, figure, folded, html, text_of
from sparsetd.report.page import certainty, conditions, remedy, sureness
from sparsetd.report.shell import SAY

MOST_NAMED = 5  # policies whose values are told in words
FEW_ACTIONS = 6  # so many fit into one table
QUOTES = '"`'
COMPARED = r"""("[^"]+"|`[^`]+`|[^\s<>=≤≥!]+)\s*[<>=≤≥!]+\s*"""  # a column and a sign in the text of a rule
CAUSES = "What would have to be true"


def comparison(p: Payload) -> Document:
    """The document of `compare`."""
    sections = {
        "values": ("What is each policy worth?", _values(p)),
        "differences": ("How do they differ?", _differences(p)),
        "does": ("What does each policy do?", _deeds(p)),
    }
    if p["groups"]:
        rows = [(f"{r['group']}: {r['name']}", r["value"], r["interval"], "main") for r in p["groups"]]
        title = f"For whom? Differences to {p['reference']}"
        sections["groups"] = (title, [_estimates(p, rows, _difference(p), "groups", 0.0)])
    for k, (name, places) in enumerate(p["where"].items()):
        title = f"Where does “{name}” act differently from “{p['reference']}”?"
        wild = [_called(p, [one]) for one in (name, p["reference"]) if one in p["unjudged"]]
        sections[f"where-{k}"] = (title, _places(places, f"“{p['reference']}”", wild))
    return Document(
        question="Which policy is best?" if len(p["values"]) > 1 else "What would the policy have been worth?",
        kind="comparison",
        lead=p["sentence"],
        cautions=p["warnings"],
        red="Do not rely on this policy's value.",
        words={
            "What they would have been worth": _worth(p),
            "How sure that is": SAY["together" if len(p["values"]) > 1 else "alone"],
            CAUSES: p["assumptions"],
            "What to do next": _next(p),
        },
        sections=sections,
    )


def improvement(p: Payload) -> Document:
    """The document of `improve`; the difference stands in large type only where it may be used."""
    test, difference, shown = p["evaluation"], p["difference"], ("", "")
    if p["recommended"] and test["severity"] != "red":
        signed = Numbers.of([difference["value"], *difference["interval"]]).signed
        ends = at_level(test["level"], difference["interval"], signed)
        shown = (signed(difference["value"]), f"{_difference(p)} to what was done, {ends}")
    tried = [(r["recipe"], Numbers.of([r["difference"]]).signed(r["difference"])) for r in p["candidates"]]
    recipes = Table(("Policy", "Difference on the half that judged it"), tried).html()
    wild = ["this policy"] if test["severity"] == "red" else []
    better, n = sum(split["interval"][0] > 0 for split in p["splits"]), len(p["splits"])
    tested = f"It was tested once on {count(p['n_tested'])} episodes that it was not learnt from."
    tested += f" In {better} of {n} random splits it was better than what was done, beyond chance." if n > 1 else ""
    return Document(
        question=f"Can it be done better? This policy is {'' if p['recommended'] else 'not '}recommended.",
        kind="improvement",
        number=shown,
        lead=p["sentence"],
        cautions=test["warnings"],
        words={
            "What it does": test["acts"]["sentence"] if test.get("acts") else "",
            "How sure that is": f"{tested} {sureness(test)}",
            CAUSES: conditions({**test, "assumptions": p.get("assumptions")}),
            "What to do next": SAY["trial"]
            if p["recommended"]
            else f"{remedy(test['warnings']) or SAY['keep']} {SAY['rule']}",
        },
        sections={
            "policy": ("The policy", _policy(p["policy"])),
            "where": (
                "Where does it act differently, and what is that worth?",
                _places(p["where"], "what was done", wild),
            ),
            "sure": ("How sure is the test?", certainty({**test, "unit": p.get("unit")})),
            "tried": ("What was tried", [SAY["tried"], folded(f"{len(tried)} policies", recipes)]),
        },
    )


def _worth(p: Payload) -> str:
    """A sentence with the values that may be used, highest first; of many, only the highest and the lowest."""
    doubted = p["unjudged"]
    usable = sorted((r for r in p["values"] if r["name"] not in doubted), key=lambda r: -float(r["value"]))
    if not usable:
        return ""
    widths = [r["interval"][1] - r["interval"][0] for r in usable]
    written = Numbers.of((v for r in usable for v in r["interval"]), min(widths))
    told = [f"{_called(p, [r['name']])}: {written(r['value'])} ({between(r['interval'], written)})" for r in usable]
    if len(told) > MOST_NAMED:
        told = [f"from {told[0]} down to {told[-1]}"]
    what = f"{p['unit']} per episode" if p.get("unit") else "per episode"
    said = f"{'; '.join(told)}; {what}, with {percent(p['level'])} intervals."
    return f"{said} Do not rely on {_called(p, doubted)}." if doubted else said


def _next(p: Payload) -> str:
    """The advice after a comparison: a trial of the best policy, if it is better than what was done, or more data."""
    if any(caution["severity"] == "red" for caution in p["warnings"]):
        return SAY["red_policies"]
    better = [name for name in p["best_set"] if p["to_done"][name]["interval"][0] > 0]
    if len(p["best_set"]) == 1:
        return SAY["trial"] if better else SAY["none_better"]
    until = SAY["cheapest"].format(_called(p, better)) if better else SAY["until_then"]
    if len(p["best_set"]) == len(p["values"]):
        return f"More episodes would tell them apart. {until}"
    return f"More episodes would tell these apart: {_called(p, p['best_set'])}. {until}"


def _called(p: Payload, names: Sequence[str]) -> str:
    return ", ".join(p["called"][name] for name in names)


def _deeds(p: Payload) -> list[Block]:
    """What each policy does: a table of the shares of few actions, else a sentence; and what could explain it away."""
    acts: dict[str, Payload] = {name: found for name, found in p["acts"].items() if found}
    tabled = len({tuple(found["actions"]) for found in acts.values()}) == 1 and len(p["values"]) > 1
    words: list[Block] = [f"“{name}”: It is what was done." for name in p["acts"] if _is_done(p, name)]
    words += [] if acts or len(words) == len(p["values"]) else [SAY["no_actions"]]
    if tabled and len(next(iter(acts.values()))["actions"]) <= FEW_ACTIONS:
        words = [*words, SAY["shares"], _shares(acts)]
    else:
        words += [f"“{name}”: {found['sentence']}" for name, found in acts.items()]
    return words


def _is_done(p: Payload, name: str) -> bool:
    """Whether a policy is the logged behaviour itself: it differs from that by nothing, without any error."""
    return all(end == 0 for end in p["to_done"][name]["interval"])


def _shares(acts: Mapping[str, Payload]) -> Table:
    """The shares of the actions in the log, and under each policy in the same states."""
    first = next(iter(acts.values()))
    rows = [("What was done", first["logged"]), *((name, found["target"]) for name, found in acts.items())]
    heads = ("", *(f"action {a}" if a.isdigit() else a for a in first["actions"]))
    return Table(heads, [(name, *map(percent, shares)) for name, shares in rows])


def _values(p: Payload) -> list[Block]:
    """The values with their intervals: against the threshold of a family of rules, else by name."""
    label, best = p.get("unit") or "value per episode", set(p["best_set"]) - set(p["unjudged"])
    rows = [(r["name"], r["value"], r["interval"], "main" if r["name"] in best else "") for r in p["values"]]
    done, named = p["done"], "what was done"
    rows.append(("What was done", done["value"], done["interval"], "warm"))
    table = _estimates(p, rows, label, "values", done["value"], named)
    if not p["thresholds"]:
        return [table]
    # A threshold whose value is not to be relied on would set the scale.
    doubted, pairs = set(p["unjudged"]), list(zip(p["thresholds"], p["values"], strict=True))
    sound = [pair for pair in pairs if pair[1]["name"] not in doubted]
    shown = sound if len(sound) > 1 else pairs
    left = [f"{at:g}" for at, r in pairs if (at, r) not in shown]
    low, high = zip(*(r["interval"] for _, r in shown), strict=True)
    names = (_axis(p), label, "Value against the threshold")
    points = [at for at, _ in shown], [r["value"] for _, r in shown]
    chart = pictures.band(*points, low, high, names, guide=named, height=done["value"])
    note = f"Not drawn, because the value is not to be relied on: threshold {', '.join(left)}."
    return [replace(table, drawing=figure(chart.svg(), "thresholds")), *([note] if left else [])]


def _axis(p: Payload) -> str:
    """The column of a family of rules: in the text of each rule it stands before the threshold."""
    pairs = zip(p["thresholds"], p["values"], strict=True)
    found = [re.findall(COMPARED + re.escape(f"{at:.12g}") + r"(?![\d.])", r["name"]) for at, r in pairs]
    column, *others = set.intersection(*map(set, found)) or {""}
    return f"{column.strip(QUOTES)}, threshold" if column and not others else "threshold"


def _estimates(
    p: Payload, rows: Sequence[pictures.Row], label: str, caption: str, guide: float, named: str = ""
) -> Table:
    """The rows with their intervals; a policy that is not to be relied on does not set the scale."""
    wild = tuple(p["unjudged"])
    seen = [row for row in rows if not row[0].endswith(wild)]
    return estimates(rows, p["level"], label, seen, caption, guide, named)


def _differences(p: Payload) -> list[Block]:
    """Differences to what was done, then of every pair; a word and a colour mark those beyond chance."""
    pairs = _marked(p, p["differences"], [f"{r['name']} minus {r['less']}" for r in p["differences"]])
    note = f"The {percent(p['level'])} intervals hold for all pairs at once."
    found = _to_done(p)
    if not p["differences"]:
        return found
    return [*found, folded("All pairs", html(note) + html(pairs))] if p["thresholds"] else [*found, note, pairs]


def _to_done(p: Payload) -> list[Block]:
    """The difference of each policy to what was done, with the strength of a cause that would explain it away."""
    known = {name: r for name, r in p["to_done"].items() if pictures.finite(r["interval"])}
    differ = {name: r for name, r in known.items() if not _is_done(p, name)}
    if not differ:
        return []
    table = _marked(p, list(differ.values()), list(differ))
    robust = [r["robustness"] or {"gamma": math.nan, "columns": ()} for r in differ.values()]
    gammas = [f"above {r['tried']:g}" if r["gamma"] is None else number(r["gamma"]) for r in robust]
    strongest = ["; ".join(f"{name} {number(strength)}" for name, strength in r["columns"][:1]) for r in robust]
    more = {"Γ*": gammas, "Strongest recorded": strongest} if any(strongest) else {"Γ*": gammas}
    told = [
        "to_done",
        *(["at_once"] if len(differ) > 1 else []),
        "gamma_star",
        *(["strongest"] if any(strongest) else []),
    ]
    rows = [(*row, *cells) for row, *cells in zip(table.rows, *more.values(), strict=True)]
    heads = ("Compared with what was done", *table.heads[1:], *more)
    return [" ".join(SAY[name] for name in told), replace(table, heads=heads, rows=rows)]


def _marked(p: Payload, differences: Sequence[Payload], names: Sequence[str]) -> Table:
    """Differences with their intervals, marked where they are beyond chance."""
    ends = [v for r in differences for v in r["interval"]]
    widths = [high - low for low, high in zip(ends[::2], ends[1::2], strict=True)]
    signed, rows = Numbers.of(ends, min(widths, default=None)).signed, []
    for name, r in zip(names, differences, strict=True):
        low, high = r["interval"]
        kind = "better" if low > 0 else "worse" if high < 0 else "no"
        rows.append((name, signed(r["value"]), between((low, high), signed), kind))
    heads = ("Policies", _difference(p).capitalize(), "Interval", "Beyond chance")
    return Table(heads, rows, [row[-1] for row in rows])


def _difference(p: Payload) -> str:
    return f"difference in {p['unit']}" if p.get("unit") else "difference"


def _places(places: Sequence[Payload], reference: str, wild: Sequence[str]) -> list[Block]:
    """Tables by action and by groups of states; only groups have a share of decisions that differ.

    If the values of some policies are `wild`, the tables mislead: a page folds them away, a terminal leaves them out.
    """
    signed = Numbers.of(v["gain"] for v in places).signed
    heads = ("In the log", "Under the policy", "Worth", "Interval")
    rows: dict[bool, list[tuple[str, ...]]] = {False: [], True: []}
    for r in places:
        known = r["differs"] is not None and math.isfinite(r["differs"])
        worth = (signed(r["gain"]), between(r["interval"], signed))
        share = (percent(r["share"]), percent(r["visited"]))
        # The share is estimated from the logged actions, so in a small group it can come out above 1.
        rows[known].append((r["group"], *share, *worth, *([percent(min(r["differs"], 1.0))] if known else [])))
    tables = [
        Table(("Action", *heads), rows[False]),
        Table(("Group of states", *heads, "Acts differently"), rows[True]),
    ]
    found: list[Block] = [SAY["places"].format(reference=reference), *(table for table in tables if table.rows)]
    if not wild:
        return found
    return [SAY["wild"].format(" and ".join(wild)), folded("Show it all the same", "".join(map(html, found)))]


def policy_text(policy: Payload) -> str:
    """A policy for a terminal."""
    return text_of(_policy(policy))


def _policy(policy: Payload) -> list[Block]:
    """The rule, the table that decides, and what was usually done, which limits the choice of the rule."""
    usual = folded("What was usually done", f"<p>{SAY['habit']}</p>{_scores(policy, 'habit').html()}")
    scores, n = _scores(policy, "scores"), len(policy["actions"])
    if n > FEW_ACTIONS:  # a table as wide as this one would push everything else off the page
        scores = replace(scores, drawing=folded(f"The scores of {n} actions", scores.html()))
    return [policy["words"], SAY["scores"], scores, usual]


def _scores(policy: Payload, key: str) -> Table:
    """One row per column, the strongest first, with the scores of the actions and the units; the constant is last."""
    found = policy[key]
    *columns, constant = found[0]
    top = sorted(columns, key=lambda h: -max(abs(row[h]) for row in found))
    heads = ("Column", *(f"Score of {a}" for a in policy["actions"]), "Mean", "Standard deviation")
    rows = []
    for h in [*top, constant]:
        # Enough digits to follow the rule by hand.
        units = [f"{policy[key][h]:.6g}" if h in policy[key] else "" for key in ("center", "scale")]
        rows.append((h, *(Numbers(3).signed(row[h]) for row in found), *units))
    return Table(heads, rows)
