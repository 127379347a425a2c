"""`compare`, `improve`, `predict` with a policy and `sensitivity`: what they print, write and refuse."""

from __future__ import annotations

import csv
import json
import re
import runpy
from pathlib import Path

import numpy as np
import pytest
from evaluation.clinic import Clinic

from sparsetd.cli import main
from sparsetd.report.decision_page import comparison, improvement

HEADS = ("episode", "obs_well", "obs_ill", "obs_worse", "obs_worst", "action", "reward", "terminated", "behavior_prob")
POLICIES = """
import numpy as np
def second(observation):
    return np.tile([0.1, 0.8, 0.1], (len(observation), 1))
def unknown(observation):
    return np.tile([0.0, 0.0, 0.0, 1.0], (len(observation), 1))
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    log = Clinic(1).log(300)
    with open("log.csv", "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([*HEADS, "target_prob", "careful", "room", "house"])
        columns = (log.episode, *log.observation.T, log.action, log.reward, log.terminated.astype(int))
        own = np.where(log.action == 1, 0.8, 0.1)
        room = np.where(log.episode == 0, "single", "shared")
        writer.writerows(zip(*columns, log.behavior_prob, own, log.behavior_prob, room, log.episode // 5, strict=True))
    (tmp_path / "decision_policies.py").write_text(POLICIES)
    return tmp_path


def run(capsys, *words):
    code = main([*words, "--gamma", "0.9"] if words[0] != "predict" else list(words))
    shown = capsys.readouterr()
    return code, shown.out, shown.err


def test_compare_prints_and_writes_a_page(capsys, folder):
    words = ["--target", "now=behavior", "--target", "column=target_prob", "--target", "same=decision_policies:second"]
    code, out, _ = run(capsys, "compare", "log.csv", *words, "--by", "ill", "--report", "c.html", "--json")
    data = json.loads(out)
    assert code == 0
    assert [v["name"] for v in data["values"]] == ["now", "column", "same"]
    assert data["values"][1]["value"] == pytest.approx(data["values"][2]["value"])
    assert len(data["differences"]) == 3
    assert {g["group"] for g in data["groups"]} == {"ill = 0", "ill = 1"}
    page = (folder / "c.html").read_text()
    assert page.startswith("<!doctype html>")
    assert "http" not in page.replace("http-equiv", "")
    assert data["sentence"] in page
    code, text, _ = run(capsys, "compare", "log.csv", *words)
    assert code == 0
    assert data["sentence"] in text


def test_a_policy_without_a_name_is_called_by_its_rule(capsys):
    rules = ["1 if ill = 1", "behavior"]
    code, out, _ = run(capsys, "compare", "log.csv", "--target", rules[0], "--target", rules[1], "--json")
    assert code == 0
    assert [v["name"] for v in json.loads(out)["values"]] == rules


@pytest.mark.parametrize("verb", ["evaluate", "sensitivity", "compare", "improve"])
def test_every_page_says_the_unit_the_version_the_date_and_the_command(capsys, folder, verb):
    target = [] if verb == "improve" else ["--target", "1 if ill = 1"]
    code, out, _ = run(capsys, verb, "log.csv", *target, "--unit", "days at home", "--report", "page.html")
    page = (folder / "page.html").read_text()
    assert code == 0
    assert "days at home" in out.lower()
    assert "days at home" in page[: page.index("To repeat this")]
    said = page[page.index("To repeat this") :]
    assert f"<code>sparsetd {verb} log.csv" in said
    assert "<span>--unit</span> &#x27;days at home&#x27;" in said
    assert all(f"<dt>{name}</dt>" in said for name in ("sparsetd", "date", "gamma"))


WORDS = {
    "evaluate": ["What it does", "What it would have been worth", "How sure that is"],
    "sensitivity": ["What it does", "What it would have been worth", "How sure that is"],
    "compare": ["What they would have been worth", "How sure that is"],
    "improve": ["What it does", "How sure that is"],
}


@pytest.mark.parametrize("verb", WORDS)
def test_every_page_begins_with_the_answer_in_words(capsys, folder, verb):
    target = [] if verb == "improve" else ["--target", "1 if ill = 1"]
    assert run(capsys, verb, "log.csv", *target, "--report", "page.html")[0] == 0
    page = (folder / "page.html").read_text()
    top = page[page.index("<header") : page.index("</header>")]
    said = re.findall(r"<dt>([^<]*)</dt>", top)
    assert said == [*WORDS[verb], "What would have to be true", "What to do next"]
    assert "docs/assumptions.md" not in page
    assert "<dt>Assumptions</dt>" in page
    visible = re.sub(r"<script>.*?</script>|<style>.*?</style>", "", page, flags=re.S)
    assert not re.search(r"\b(surprise|earned|merit|confidence is off)\b", visible)


def test_one_policy_has_no_pairs(capsys, folder):
    code, out, _ = run(capsys, "compare", "log.csv", "--target", "1 if ill = 1", "--report", "page.html")
    page = (folder / "page.html").read_text()
    assert code == 0
    for text in (out, page):
        assert "all pairs" not in text
        assert "Which policy is best?" not in text
        assert "all policies at once" not in text
        assert "hat was done" in text
    assert "<tbody></tbody>" not in page


def test_one_policy_by_group_is_compared_with_what_was_done(capsys, folder):
    code, out, _ = run(
        capsys, "compare", "log.csv", "--target", "b=target_prob", "--by", "ill", "--report", "page.html"
    )
    assert code == 0
    for text in (out, (folder / "page.html").read_text()):
        assert "For whom? Differences to what was done" in text
        assert "ill = 1: b" in text


def test_what_policies_do_is_a_table_of_the_shares_of_few_actions(capsys, folder):
    words = ["--target", "now=behavior", "--target", "new=1 if ill = 1", "--report", "page.html"]
    code, out, _ = run(capsys, "compare", "log.csv", *words)
    assert code == 0
    lines = out[out.index("What does each policy do?") :].splitlines()
    assert lines[1] == "“now”: It is what was done."
    assert lines[3].split() == ["action", "0", "action", "1", "action", "2"]
    assert [line.split()[0] for line in lines[4:6]] == ["What", "new"]
    assert 'aria-label="what was done"' in (folder / "page.html").read_text()


def test_scores_of_many_actions_are_folded_away():
    def shown(n):
        found = an_improvement()["policy"]
        table = [{"x": 0.1, "constant": -0.2}] * n
        return improvement(an_improvement(policy={**found, "actions": list(range(n)), "scores": table, "habit": table}))

    assert "<summary>The scores of 25 actions</summary>" in shown(25).html()
    assert "The scores of" not in shown(3).html()
    assert "Score of 24" in shown(25).text()


def test_a_family_of_rules_is_drawn_against_its_threshold(capsys, folder):
    words = ["compare", "log.csv", "--target", "1 if ill > {0..1}", "--report", "page.html", "--json"]
    code, out, _ = run(capsys, *words)
    page = (folder / "page.html").read_text()
    assert code == 0
    assert len(json.loads(out)["thresholds"]) > 2
    assert 'aria-label="Value against the threshold"' in page
    assert "<summary>All pairs</summary>" in page
    assert "from threshold " in page
    assert ">ill, threshold</text>" in page
    assert 'aria-label="what was done"' in page or ">what was done</title>" in page
    assert '<th scope="col">Γ*</th>' in page
    assert "changes these odds most" not in page  # once for every policy would be a wall of one sentence
    data = json.loads(out)
    assert data["done"]["value"] == pytest.approx(
        data["to_done"]["1 if ill > 0"]["value"] * -1 + data["values"][0]["value"]
    )
    assert "What was done" in run(capsys, *words[:4])[1]


def a_comparison(ends, **change):
    """What the page of a comparison is made of, from the intervals of the values by name."""
    names = list(ends)
    unsure = {"value": 0.0, "interval": [-1.0, 1.0], "robustness": None}
    pairs = [(b, a) for i, a in enumerate(names) for b in names[i + 1 :]]
    return {
        "values": [{"name": name, "value": 1.0, "interval": interval} for name, interval in ends.items()],
        "differences": [{"name": b, "less": a, "value": 0.0, "interval": [-1.0, 1.0]} for b, a in pairs],
        "done": {"value": 1.0, "interval": [0.9, 1.1]},
        "to_done": dict.fromkeys(names, unsure),
        "acts": dict.fromkeys(names),
        "called": {name: name for name in names},
        "best_set": names,
        "reference": names[0],
        "level": 0.95,
        "sentence": "",
        "assumptions": "",
        **{key: [] for key in ("unjudged", "thresholds", "groups", "warnings")},
        "where": {},
        **change,
    }


def test_a_policy_that_may_be_worse_than_what_was_done_is_not_advised():
    def advised(*lows, best_set=("a", "b")):
        names = ("a", "b")
        found = [{"value": 0.2, "interval": [low, 0.5], "robustness": None} for low in lows]
        to_done = dict(zip(names, found, strict=True))
        told = a_comparison({key: [0.5, 1.5] for key in names}, to_done=to_done, best_set=best_set)
        return comparison(told).words["What to do next"]

    assert "cheapest of the policies that are better than what was done, beyond chance: b." in advised(-0.1, 0.1)
    assert "keep to what was done" in advised(-0.1, -0.1)
    assert "test it in a trial" in advised(-0.1, 0.1, best_set=["b"])
    assert advised(-0.1, -0.1, best_set=["b"]).startswith("Keep to what was done: none of these policies is better")


def test_a_policy_that_is_not_to_be_relied_on_is_not_drawn_as_one_of_the_best():
    ends = {"a": [0.5, 1.5], "wild": [-90.0, 90.0]}
    page = comparison(a_comparison(ends, unjudged=["wild"])).html()
    bold = re.findall(r'class="name strong"[^>]*>([^<]*)<', page)
    assert set(bold) == {"a"}


def test_what_a_policy_without_a_sound_value_is_worth_in_groups_is_folded_away():
    places = [{"group": "A", "share": 0.5, "visited": 0.5, "gain": 0.3, "interval": [0.2, 0.4], "differs": None}]
    ends = {"a": [0.5, 1.5], "wild": [-90.0, 90.0]}
    sound, doubted = (comparison(a_comparison(ends, unjudged=u, where={"wild": places})) for u in ([], ["wild"]))
    assert "+0.300" in sound.text()
    assert "+0.300" not in doubted.text()
    assert "Do not rely on this section, because the value of wild is not to be relied on." in doubted.text()
    assert "<summary>Show it all the same</summary>" in doubted.html()
    red = {"severity": "red", "warnings": [{"code": "x", "severity": "red", "text": "No."}]}
    assert "+0.300" in improvement(an_improvement(recommended=False, where=places)).text()
    assert "+0.300  " not in improvement(an_improvement(recommended=False, where=places, evaluation=red)).text()
    assert "the value of this policy is not" in improvement(an_improvement(where=places, evaluation=red)).text()


def test_what_was_done_is_not_compared_with_itself():
    strong = {"gamma": 1.5, "tried": 10.0, "columns": [["lactate", 1.4]], "sentence": ""}
    nothing = {"value": 0.0, "interval": [0.0, 0.0], "robustness": None}
    gain = {"value": 0.2, "interval": [0.1, 0.3], "robustness": strong}
    ends = {"done": [0.9, 1.1], "new": [1.0, 1.4]}
    acts = {"done": None, "new": {"actions": ["A", "B"], "logged": [0.5, 0.5], "target": [0.0, 1.0], "sentence": ""}}
    told = comparison(a_comparison(ends, to_done={"done": nothing, "new": gain}, acts=acts))
    table = told.sections["differences"][1][1]
    assert [row[0] for row in table.rows] == ["new"]
    assert table.heads[-2:] == ("Γ*", "Strongest recorded")
    assert table.rows[0][-2:] == ("1.50", "lactate 1.40")
    without = comparison(a_comparison(ends, to_done={"done": nothing, "new": {**gain, "robustness": None}}, acts=acts))
    assert without.sections["differences"][1][1].heads[-1] == "Γ*"  # no column that holds nothing
    assert told.sections["does"][1][0] == "“done”: It is what was done."


def test_a_policy_on_a_log_without_actions_is_not_what_was_done():
    words = comparison(a_comparison({"a": [0.5, 1.5], "b": [0.5, 1.5]})).sections["does"][1]
    assert words == ["The log has no actions that can be counted, or too many to show."]


def test_action_values_of_a_rule_in_words_can_be_fitted(capsys):
    words = ["fit", "log.csv", "--method", "LSTD", "--set", "alpha=0.01", "--out", "q.sparsetd"]
    assert run(capsys, *words, "--target", "1 if ill = 1; else 0")[0] == 0
    assert run(capsys, "predict", "q.sparsetd", "log.csv")[1].startswith("row,episode,value_0,value_1,value_2")
    code, _, err = run(capsys, *words, "--target", "1 if ill = 1")  # elsewhere as was done: nothing is known of that
    assert code == 2
    assert len(err.strip().splitlines()) <= 3  # what is fitted, whose values these are, and the error


example_payload = runpy.run_path(str(Path(__file__).parent / "report" / "payload.py"))["example_payload"]


def an_improvement(**change):
    """What the page of an improvement is made of, as far as its top needs it."""
    evaluation = {**example_payload(), "effective_episodes": 90.0, "n_episodes": 100}
    table = [{"x": 0.1, "constant": -0.2}, {"x": -0.1, "constant": 0.2}]
    policy = {"rule": "greedy", "words": "Take it.", "actions": [0, 1], "scores": table, "habit": table}
    policy |= {"center": {"x": 0.0}, "scale": {"x": 1.0}}
    found = {"recommended": True, "difference": {"value": 0.3, "interval": [0.1, 0.5]}, "sentence": "It is better."}
    splits = [{"interval": [0.1, 0.5]}, {"interval": [-0.1, 0.5]}, {"interval": [0.2, 0.5]}]
    more = {"policy": policy, "evaluation": {**evaluation, **change.pop("evaluation", {})}, "where": []}
    return {**found, **more, "candidates": [], "splits": splits, "n_tested": 100, **change}


def test_a_simple_rule_is_advised_where_nothing_is_recommended():
    told = {yes: improvement(an_improvement(recommended=yes)).words["What to do next"] for yes in (True, False)}
    assert ["{a..b}" in words for words in told.values()] == [False, True]


def test_improve_shows_a_number_in_large_type_only_where_it_may_be_used():
    page = improvement(an_improvement(unit="days")).html()
    assert '<p class="answer">+0.300 <small>difference in days to what was done' in page
    assert "In 2 of 3 random splits it was better than what was done, beyond chance." in page
    red = {"severity": "red", "warnings": [{"code": "x", "severity": "red", "text": "No.", "remedy": "Do `this`."}]}
    for worse in (an_improvement(recommended=False), an_improvement(evaluation=red)):
        assert 'class="answer"' not in improvement(worse).html()
    page = improvement(an_improvement(recommended=False, evaluation=red)).html()
    assert "<dt>What to do next</dt><dd>Do <code>this</code>. You can also ask" in page


def test_a_policy_that_is_not_to_be_relied_on_does_not_set_the_scale():
    ends = {"a": [0.9, 1.1], "b": [0.8, 1.2], "c": [-90.0, 90.0]}
    pages = [comparison(a_comparison(ends, unjudged=unjudged)).html() for unjudged in ([], ["c"])]
    ends = [re.search(r'class="whisker main" points="([\d.]+),[\d.]+ ([\d.]+),', page).groups() for page in pages]
    wild, calm = (float(right) - float(left) for left, right in ends)
    assert wild < 2
    assert calm > 60


def test_a_small_difference_beside_a_large_one_is_not_written_as_nothing():
    names = ("a", "b", "c")
    ends = {("b", "a"): [0.010, 0.030], ("c", "a"): [-113.0, 113.0], ("c", "b"): [-113.0, 113.0]}
    differences = [{"name": a, "less": b, "value": sum(v) / 2, "interval": v} for (a, b), v in ends.items()]
    document = comparison(a_comparison({key: [0.9, 1.1] for key in names}, differences=differences))
    assert re.search(r"b minus a +\+0\.020 +\+0\.010 to \+0\.030 +better", document.text())
    cells = ["b minus a", "+0.020", "+0.010 to +0.030", "better"]
    row = re.search(r'<tr class="better">(.*?)</tr>', document.html())[1]
    assert re.findall(r"<(?:bdi|span)>([^<]*)<", row) == cells


def test_groups_of_a_column_that_is_not_observed(capsys, folder):
    """Text, in a log whose rows come in another order: the group is that of the episode's first step."""
    head, *rows = (folder / "log.csv").read_text().splitlines()
    numbers = [int(row.split(",")[0]) for row in rows]
    steps = [i - numbers.index(n) for i, n in enumerate(numbers)]
    ward = [("north" if n % 2 else "south") if step == 0 else "moved" for n, step in zip(numbers, steps, strict=True)]
    lines = [",".join([row, str(step), w]) for row, step, w in zip(rows, steps, ward, strict=True)]
    (folder / "wards.csv").write_text("\n".join([f"{head},step,ward", *reversed(lines)]))
    words = ["--target", "now=behavior", "--target", "new=target_prob", "--json"]
    code, out, _ = run(capsys, "compare", "wards.csv", *words, "--by", "ward")
    assert code == 0
    by_ward = {g["group"]: g["value"] for g in json.loads(out)["groups"]}
    north = [row for row, n in zip(rows, numbers, strict=True) if n % 2]
    (folder / "north.csv").write_text("\n".join([head, *north]))
    alone = json.loads(run(capsys, "compare", "north.csv", *words)[1])["differences"][0]["value"]
    assert by_ward == {"ward = north": pytest.approx(alone), "ward = south": pytest.approx(by_ward["ward = south"])}


@pytest.mark.parametrize("logged", [True, False])
def test_probabilities_that_are_estimated_from_folded_columns_are_doubted(capsys, folder, logged):
    rng, n = np.random.default_rng(0), 400
    rows = [{"indices": [int(i), 100 + int(j)]} for i, j in rng.integers(0, 40, (n, 2))]
    for k, row in enumerate(rows):
        chosen = {"action": int(rng.integers(2)), "target_prob": 0.7, "reward": float(rng.random())}
        row |= {**chosen, "episode": k, "terminated": True} | ({"behavior_prob": 0.5} if logged else {})
    (folder / "hashed.jsonl").write_text("\n".join(map(json.dumps, rows)))
    words = ["evaluate", "hashed.jsonl", "--buckets", "8", "--features", "none", "--report", "page.html"]
    for target, doubted in (("target_prob", not logged), ("behavior", False)):
        _, out, _ = run(capsys, *words, "--target", target)
        assert ("estimated from 8 folded columns" in out) is doubted
        assert ("fold into more columns: --buckets 32." in out) is doubted
        assert ("<dt>folded columns</dt>" in (folder / "page.html").read_text()) is doubted


@pytest.mark.parametrize("hidden", [True, False])
def test_a_wrong_model_of_folded_columns_is_advised_to_fold_into_more(capsys, folder, hidden):
    rng = np.random.default_rng(0)
    lines = []
    for visitor, steps in enumerate(rng.geometric(0.3, 400)):
        pays = bool(rng.integers(2))
        bucket = 16 * visitor + 8 * pays  # folded into 8, no bucket tells who pays
        for step in range(steps):
            action = int(rng.integers(2))
            chosen = 0.9 if action == pays else 0.1
            row = {"indices": [bucket], "action": action, "behavior_prob": 0.5, "target_prob": chosen}
            row |= {"reward": 3.0 * hidden * pays * action + rng.random()}
            row |= {"episode": visitor, "step": step, "terminated": bool(step == steps - 1)}
            lines.append(json.dumps(row))
    (folder / "hashed.jsonl").write_text("\n".join(lines))
    _, out, _ = run(
        capsys, "evaluate", "hashed.jsonl", "--buckets", "8", "--features", "none", "--target", "target_prob"
    )
    assert ("DO NOT USE" in out) is hidden
    assert ("compare with the answer of --buckets 32." in out) is hidden


def test_target_prob_is_the_column_that_was_named_for_it(capsys):
    words = ["evaluate", "log.csv", "--json"]
    of_role = run(capsys, *words, "--column", "target_prob=careful", "--target", "target_prob")[1]
    named, without = run(capsys, *words, "--target", "careful")[1], run(capsys, *words, "--target", "target_prob")[1]
    assert json.loads(of_role)["value"] == json.loads(named)["value"] != json.loads(without)["value"]


def test_improve_saves_what_predict_and_compare_take(capsys, folder):
    code, out, _ = run(capsys, "improve", "log.csv", "--out", "p.sparsetd", "--report", "i.html", "--json")
    data = json.loads(out)
    assert code == 0
    assert data["recommended"] is True
    assert data["difference"]["interval"][0] > 0
    assert data["sentence"] in (folder / "i.html").read_text().replace("\u00a0", " ")
    code, text, _ = run(capsys, "predict", "p.sparsetd", "log.csv", "--out", "a.csv")
    assert code == 0
    assert "actions: a.csv" in text
    rows = list(csv.DictReader((folder / "a.csv").read_text().splitlines()))
    probabilities = np.array([[float(r[f"probability_{a}"]) for a in range(3)] for r in rows])
    assert [int(r["action"]) for r in rows] == probabilities.argmax(axis=1).tolist()
    words = ["--target", "now=behavior", "--target", "new=p.sparsetd"]
    code, _, err = run(capsys, "compare", "log.csv", *words, "--json")
    assert code == 2
    assert "policy 'new': The policy was learnt from 150 of these 300 episodes" in err


def test_no_recommendation_is_an_answer(capsys, folder):
    text = (folder / "log.csv").read_text().splitlines()
    head, *rows = (line.split(",") for line in text)
    at, rng = head.index("reward"), np.random.default_rng(0)
    shuffled = [[*row[:at], str(rng.normal()), *row[at + 1 :]] for row in rows]
    (folder / "null.csv").write_text("\n".join(",".join(row) for row in [head, *shuffled]))
    code, out, _ = run(capsys, "improve", "null.csv", "--json")
    assert code == 0
    assert json.loads(out)["recommended"] is False


def test_evaluate_says_what_the_value_is_at_least(capsys):
    words = ["--target", "decision_policies:second", "--lower", "0.99", "--n-resamples", "0"]
    code, out, _ = run(capsys, "evaluate", "log.csv", *words, "--json")
    data = json.loads(out)
    assert code == 0
    assert data["lower_bound"] < data["interval"][0]
    assert f"at least {data['lower_bound']:.4f} with 99% confidence" in run(capsys, "evaluate", "log.csv", *words)[1]


def test_sensitivity_bounds_the_value(capsys, folder):
    words = ["--target", "decision_policies:second", "--confounding", "1.5,3"]
    code, out, _ = run(capsys, "sensitivity", "log.csv", *words, "--report", "s.html", "--json")
    data = json.loads(out)
    assert code == 0
    assert [b["confounding"] for b in data["bounds"]] == [1.0, 1.5, 3.0]
    plain = json.loads(run(capsys, "evaluate", "log.csv", *words[:2], "--n-resamples", "0", "--json")[1])
    assert data["bounds"][0]["bounds"] == pytest.approx([plain["value"]] * 2, abs=1e-9)
    assert "What if something unrecorded drove the actions?" in (folder / "s.html").read_text()
    code, text, _ = run(capsys, "sensitivity", "log.csv", *words)
    assert data["sentence"] in text
    default = json.loads(run(capsys, "sensitivity", "log.csv", *words[:2], "--json")[1])
    assert [b["confounding"] for b in default["bounds"]] == [1.0, 1.25, 1.5, 2.0, 3.0, 5.0]


def test_rooms_that_share_episodes_are_clusters(capsys):
    code, out, _ = run(capsys, "evaluate", "log.csv", "--target", "target_prob", "--cluster", "house", "--json")
    data = json.loads(out)
    assert code == 0
    assert data["settings"]["cluster"] == "house"
    assert "room" not in {f["name"] for f in data["features"]}


def test_a_family_of_rules_has_a_value_for_every_threshold(capsys):
    code, out, _ = run(capsys, "compare", "log.csv", "--target", "1 if ill > {-0.5, 0.5}", "--json")
    data = json.loads(out)
    assert code == 0
    assert data["thresholds"] == [-0.5, 0.5]
    assert len(data["values"]) == 2


def test_a_family_of_rules_stands_beside_other_policies(capsys):
    words = ("--target", "behavior", "--target", "1 if ill > {-0.5, 0.5}")
    code, out, _ = run(capsys, "compare", "log.csv", *words, "--json")
    assert code == 0
    assert [value["name"] for value in json.loads(out)["values"]] == ["behavior", "1 if ill > -0.5", "1 if ill > 0.5"]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["compare", "log.csv"], "the following arguments are required: --target"),
        (
            ["compare", "log.csv", "--target", "a=behavior", "--target", "a=target_prob"],
            "argument --target: 'a' is given twice: give it once",
        ),
        (
            ["compare", "log.csv", "--target", "a=behavior", "--target", "b=target_prob", "--by", "age"],
            "--by names a column 'age' that is not there",
        ),
        (
            ["compare", "log.csv", "--target", "a=behavior", "--target", "b=target_prob", "--by", "room"],
            "`by` makes a group 'room = single' of one episode, which has no interval: join it to another",
        ),
        (["evaluate", "log.csv", "--lower", "0.3"], "must be a number above 0.5 and below 1, such as 0.99, not '0.3'"),
        (["sensitivity", "log.csv", "--confounding", "0.5"], "must be numbers of at least 1, separated by commas"),
        (["improve", "log.csv", "--learn", "0.01"], "The smaller part of the split has 3 of 300 episodes"),
        (["improve", "log.csv", "--out", "policy.txt"], "must end in .sparsetd"),
    ],
)
def test_what_is_refused_in_one_sentence(capsys, folder, words, sentence):
    before = {p.name for p in folder.iterdir()}
    report = [] if "--report" in words else ["--report", "page.html"]
    code, _, err = run(capsys, *words, *report)
    assert code == 2
    assert sentence in err
    assert {p.name for p in folder.iterdir()} - {"__pycache__"} == before


def test_a_policy_of_other_columns_is_refused(capsys, folder):
    assert run(capsys, "improve", "log.csv", "--out", "p.sparsetd")[0] == 0
    (folder / "other.csv").write_text((folder / "log.csv").read_text().replace("obs_ill", "obs_sick"))
    for words in (
        ["predict", "p.sparsetd", "other.csv", "--out", "a.csv"],
        ["evaluate", "other.csv", "--target", "p.sparsetd", "--report", "a.csv.html"],
        ["compare", "other.csv", "--target", "a=behavior", "--target", "b=p.sparsetd", "--report", "c.html"],
    ):
        code, _, err = run(capsys, *words)
        assert code == 2
        assert "was fitted to a column 'ill' that the data does not have" in err
    assert not {"a.csv", "a.csv.html", "c.html"} & {p.name for p in folder.iterdir()}


def test_a_model_of_values_is_no_policy(capsys):
    assert run(capsys, "fit", "log.csv", "--out", "v.sparsetd")[0] == 0
    code, _, err = run(capsys, "evaluate", "log.csv", "--target", "v.sparsetd")
    assert code == 2
    assert "v.sparsetd holds a ValueFunction, not a policy" in err
