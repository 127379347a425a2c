"""The report page: well-formed, self-contained, escaped, complete; and alive in a browser where there is one."""

from __future__ import annotations

import copy
import html
import importlib.util
import json
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import pytest

from sparsetd._tools.numbers import Numbers, number, percent
from sparsetd.evaluation.result import acts_sentence
from sparsetd.plots.chart import Scale, log_span, span
from sparsetd.report.page import page, verdicts

spec = importlib.util.spec_from_file_location("payload", Path(__file__).with_name("payload.py"))
payload_module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(payload_module)
PAYLOAD = payload_module.example_payload()
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
VOID = {"meta", "line", "br"}


class Balance(HTMLParser):
    """Collects tags and complains about one that is closed out of order."""

    def __init__(self):
        super().__init__()
        self.open, self.ids, self.text, self.attributes = [], [], [], []

    def handle_starttag(self, tag, attrs):
        self.attributes += attrs
        self.ids += [value for key, value in attrs if key == "id"]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, _tag, attrs):
        self.attributes += attrs

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


def parse(text):
    parser = Balance()
    parser.feed(text)
    parser.close()
    assert parser.open == []
    return parser


def changed(**changes):
    return {**copy.deepcopy(PAYLOAD), **changes}


def caution(severity, text):
    return {"code": "made_up", "severity": severity, "text": text}


def test_the_page_is_well_formed_with_unique_ids():
    parser = parse(page(PAYLOAD))
    assert len(parser.ids) == len(set(parser.ids))
    assert {"answer", "sure", "features", "fit", "method"} <= set(parser.ids)


def test_the_answer_comes_first():
    words = " ".join(parse(page(PAYLOAD)).text)
    order = [
        "0.731",
        "0.706 to 0.756",
        "How sure are we?",
        "Which columns are kept?",
        "How did the fit go?",
        "To repeat this",
    ]
    places = [words.index(part) for part in order]
    assert places == sorted(places)


def test_nothing_is_loaded_from_elsewhere():
    text = page(PAYLOAD)
    assert not re.search(r"https?:|//[a-z]|@import|url\(", text)
    keys = {key for key, _ in parse(text).attributes}
    assert not keys & {"src", "srcset", "action", "data"}
    assert "default-src 'none'" in text


def test_names_cannot_inject_markup():
    text = page(changed(target='"><script>alert(1)</script>', warnings=[caution("note", "<img src=x>")]))
    assert "<script>alert" not in text
    assert "<img" not in text
    assert "&lt;b&gt;odd &amp; name&lt;/b&gt;" in text
    parse(text)


def test_equal_payloads_give_equal_pages():
    assert page(PAYLOAD) == page(copy.deepcopy(PAYLOAD))


@pytest.mark.parametrize(
    "change",
    [
        {"path": None, "convergence": None, "calibration": [], "ratio_histogram": None, "bellman_error": None},
        {"features": [], "n_candidates": 0},
        {"comparisons": []},
        {"severity": "amber", "warnings": [caution("amber", "Only 90 % of the target's choices are in the log.")]},
        {"severity": "red", "warnings": [caution("red", "Only 40 % of the target's choices are in the log.")]},
        {"interval": [float("nan"), float("nan")], "value": float("nan")},
        {"difference": {"value": float("nan"), "interval": [None, None]}},
        {"features": [{"name": "x", "weight": 0.0, "interval": None, "frequency": None}]},
        {"convergence": {"iteration": [0], "gap": [0.0]}},
        {"ratio_histogram": {"edges": [1.0, 2.0], "counts": [0], "zero": 5}},
    ],
    ids=lambda change: ",".join(change),
)
def test_missing_parts_leave_a_valid_page(change):
    text = page(changed(**change))
    parse(text)
    assert "None" not in re.sub(r"<script>.*?</script>", "", text, flags=re.S)


def test_the_sentence_says_whether_the_difference_is_beyond_chance():
    assert "within what chance" in page(PAYLOAD)
    better = page(changed(difference={"value": 0.1, "interval": [0.05, 0.15]}))
    assert "The difference of +0.100" in better
    assert "is beyond chance: the policy is better than what was done." in better
    assert "the policy is worse than what was done." in page(
        changed(difference={"value": -0.1, "interval": [-0.15, -0.05]})
    )


def test_only_logs_of_several_steps_have_later_rewards():
    assert "later rewards count less, by a factor of 0.99 per step" in page(PAYLOAD)
    assert "later rewards count less, by" not in page(changed(n_rows=2000))


def test_the_logged_behaviour_is_not_called_worse_than_itself():
    difference = {"value": -0.065, "interval": [-0.107, -0.023]}
    text = page(changed(difference=difference, max_ratio=1.0, ess_rows=18471.0))
    assert "is model error" in text
    assert "beyond chance" not in text


def test_every_mark_says_what_it_is():
    text = page(PAYLOAD)
    marks = re.findall(r"<(?:circle|rect|polyline)[^>]*>", text)
    focusable = [m for m in marks if "tabindex" in m]
    assert len(focusable) > 60
    assert all("aria-label=" in m for m in focusable)


def test_verdicts_grade_in_words():
    words = [v.word for v in verdicts(PAYLOAD)]
    assert words == ["covered", "plenty", "uneven", "well"]
    poor = changed(
        coverage=0.4,
        effective_episodes=12.0,
        max_ratio=653.0,
        bellman_error={"value": 9.0, "noise": 1.0, "constant": 20.0},
    )
    assert [v.level for v in verdicts(poor)] == ["bad"] * 4


@pytest.mark.parametrize(
    ("carried", "of", "word"), [(100, 400, "plenty"), (99, 396, "modest"), (49, 196, "too few"), (240, 2000, "too few")]
)
def test_effective_episodes_are_graded_by_their_number_and_their_share(carried, of, word):
    found = verdicts(changed(effective_episodes=float(carried), n_episodes=of))[1]
    assert (found.name, found.figure, found.word) == ("How many episodes speak?", str(carried), word)


def test_an_answer_that_must_not_be_used_says_so_first_and_nothing_is_green():
    said = [caution("red", "The features do not fit."), caution("amber", "Few episodes.")]
    text, sound = page(changed(severity="red", warnings=said)), page(PAYLOAD)
    first = re.search(r'<p class="([^"]*)"><strong>([^<]*)</strong> ([^<]*)</p>', text)
    assert first.groups() == ("alert red", "Do not use this answer.", "The features do not fit.")
    assert text.index("Do not use this answer.") < text.index("Caution.") < text.index('class="answer doubtful"')
    assert 'class="card good"' in sound
    assert 'class="card good"' not in text
    assert "beyond chance" not in page(changed(severity="red", difference={"value": 0.1, "interval": [0.05, 0.15]}))


@pytest.mark.parametrize(("severity", "word"), [("amber", "Caution."), ("note", "Note.")])
def test_a_lesser_caution_comes_after_the_answer(severity, word):
    text = page(changed(severity=severity, warnings=[caution(severity, "Mind this.")]))
    assert text.index('<p class="answer">') < text.index(f'<p class="alert {severity}"><strong>{word}</strong>')
    assert 'class="card good"' in text
    assert "Do not use" not in text


def test_notes_are_counted_and_the_words_on_sureness_point_to_them():
    text = page(changed(severity="note", warnings=[caution("note", "Mind this.")]))
    assert "<summary>Notes: 1</summary>" in text
    assert "Nothing that was checked speaks against this number, but read the notes." in text


def test_only_words_that_the_page_uses_are_explained():
    text = page(PAYLOAD)
    assert "<dt>Kept columns alone</dt>" in text
    assert "<dt>Boosted trees</dt>" not in text
    assert "<dt>Boosted trees</dt>" in page(
        changed(comparisons=[{"name": "boosted trees", "value": 0.7, "interval": None, "ess": 0.0}])
    )


def test_cut_episodes_are_compared_with_what_they_would_have_earned():
    assert "had no episode been cut" not in page(PAYLOAD)
    text = page(changed(behavior_value=PAYLOAD["behavior_modelled"]))
    assert "is 0.722; had no episode been cut, it would have been about 0.724" in text


def test_no_model_is_said_to_be_better_than_the_best():
    card = verdicts(changed(bellman_error={"value": 0.97, "noise": 1.0, "constant": 0.76}))[-1]
    assert card.figure == "1×"
    assert "A model without any column has 1×." in card.meaning


def test_a_model_that_is_no_better_than_none_has_no_green_card():
    def card(value, constant):
        return verdicts(changed(bellman_error={"value": value, "noise": 1.0, "constant": constant}))[-1]

    assert (card(1.5, 1.2).level, card(1.5, 1.2).word) == ("plain", "no better than without columns")
    assert (card(1.2, 1.5).level, card(1.2, 1.5).word) == ("good", "well")
    assert card(9.0, 5.0).level == "bad"


def test_one_episode_a_fold_gives_no_verdict_on_the_bellman_error():
    lonely = changed(bellman_error={"value": 9.0, "noise": 0.0, "constant": 20.0})
    assert [v.name for v in verdicts(lonely)] == [
        "Are its choices in the log?",
        "How many episodes speak?",
        "Can one row decide?",
    ]
    assert "inf×" not in page(lonely)


@pytest.mark.parametrize(
    ("kept", "of", "words"),
    [
        (0, 6, "does not show that any column"),
        (1, 1, "The selection keeps the one column."),
        (9, 9, "The selection keeps all 9 columns."),
        (3, 1047, "The selection keeps 3 of 1,047 columns."),
    ],
)
def test_how_many_features_is_a_sentence(kept, of, words):
    text = page(changed(features=PAYLOAD["features"][:kept], n_candidates=of))
    assert words in text
    assert ("<table" in text) == (kept > 0)


def column(name, value, matters):
    band = {"at": [0.0, 1.0, 2.0, 3.0], "value": value, "low": [v - 0.1 for v in value], "high": value}
    return {"name": name, "shape": band, "importance": 0.2, "standard_error": 0.05, "matters": matters}


def test_a_kept_column_need_not_matter_and_a_curved_one_has_no_weight():
    line, bend = column("SOFA", [0.0, 1.0, 2.0, 3.0], False), column("age", [0.0, 1.0, 1.0, 0.0], True)
    text = page(changed(columns=[line, bend]))
    assert "These kept columns matter: age." in text
    assert "SOFA: the log does not show whether the model would be worse without it." in text
    assert text.count("<span>curved, see the picture</span>") == 1
    assert "does not show whether any kept column matters" in page(changed(columns=[line]))
    assert "may mislead" not in text
    wrong = {**caution("red", "The model has the wrong shape."), "code": "misspecified"}
    assert "their pictures may mislead" in page(changed(severity="red", warnings=[wrong]))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.7312, "0.731"),
        (-0.02, "−0.0200"),
        (0.0, "0.00"),
        (12345.6, "12,300"),
        (0.00012, "0.000120"),
        (2.0207e-9, "2.02 × 10⁻⁹"),
        (-1.949e12, "−1.95 × 10¹²"),
        (5e-324, "0.00"),
        (None, "–"),
        (float("inf"), "–"),
    ],
)
def test_numbers_are_written_short(value, text):
    assert number(value) == text


@pytest.mark.parametrize(
    ("values", "finest", "texts"),
    [
        ([0.0307, -0.0002539, 0.0436], None, ["+0.0307", "−0.0003", "+0.0436"]),
        ([2020699.0, 72033.5], None, ["+2,020,000", "+70,000"]),
        ([2.02e-9, 7.2e-11], None, ["+2.02 × 10⁻⁹", "+0.07 × 10⁻⁹"]),
        ([1000020.4, 1000000.0], 40.8, ["+1,000,020", "+1,000,000"]),
        ([0.7, 0.7], 1e-17, ["+0.700000", "+0.700000"]),
    ],
)
def test_numbers_beside_one_another_share_their_last_place(values, finest, texts):
    assert [Numbers.of(values, finest).signed(v) for v in values] == texts


def test_a_wild_interval_does_not_round_what_was_done():
    text = page(changed(value=-0.04, interval=[-148.0, 148.0], severity="red", warnings=[caution("red", "No.")]))
    assert "The mean per episode would be 0 (" in text
    assert "In the log it is 0.722" in text


def test_an_interval_can_be_seen_in_the_digits():
    text = page(changed(value=1000000.0, interval=[999980.0, 1000020.0]))
    assert "999,980 to 1,000,020" in text


def test_percents_near_one_are_not_rounded_to_it():
    assert [percent(v) for v in (0.95, 0.997, 0.9999, 1.0, 0.0, None)] == [
        "95 %",
        "99.7 %",
        "99.99 %",
        "100 %",
        "0 %",
        "–",
    ]


@pytest.mark.parametrize(
    ("scale", "labels", "power"),
    [
        (Scale(0.4e6, 2.1e6, 0, 1), ["0.5", "1.0", "1.5", "2.0"], " (× 10⁶)"),
        (Scale(1000.1, 1000.5, 0, 1), ["1,000.1", "1,000.2", "1,000.3", "1,000.4", "1,000.5"], ""),
        (Scale(-1.1e-9, 1.1e-9, 0, 1), ["−1.0", "−0.5", "0", "0.5", "1.0"], " (× 10⁻⁹)"),
        (Scale(0, 2, 0, 1, "whole"), ["0", "1", "2"], ""),
        (Scale(0.15, 3, 0, 1, "log"), ["0.2", "0.5", "1", "2"], ""),
        (Scale(1e-4, 1, 0, 1, "log"), ["10⁻⁴", "10⁻³", "10⁻²", "10⁻¹", "1"], ""),
    ],
)
def test_no_two_ticks_have_the_same_label(scale, labels, power):
    assert scale.labels(scale.ticks()) == (labels, power)


def test_scales_and_ticks():
    assert Scale(0, 10, 0, 100)(2.5) == 25
    assert Scale(1, 100, 0, 100, "log")(10) == pytest.approx(50)
    assert Scale(0, 1, 0, 1).ticks(5) == pytest.approx([0, 0.2, 0.4, 0.6, 0.8, 1.0])
    assert Scale(-0.49, 0.48, 0, 1).ticks(4) == pytest.approx([-0.4, -0.2, 0, 0.2, 0.4])
    assert Scale(10000, 0.1, 0, 1, "log").ticks() == pytest.approx([0.1, 1, 10, 100, 1000, 10000])
    assert Scale(0.15, 3, 0, 1, "log").ticks() == pytest.approx([0.2, 0.5, 1, 2])
    assert span([3.0]) == pytest.approx((2.7, 3.3))
    assert span([]) == pytest.approx((-0.1, 0.1))
    assert log_span([0.02, 30]) == pytest.approx((0.01, 100))
    assert span([3.0, 3.0 + 1e-15]) == pytest.approx((2.7, 3.3))


QUIET = ("background-networking", "component-update", "sync", "gpu")
FLAGS = ["--headless", "--no-sandbox", *(f"--disable-{what}" for what in QUIET)]
PROBE = """
<script>
var log = [], table = document.querySelector("table.sortable");
function column(i) { return Array.from(table.tBodies[0].rows).map(function (r) { return r.cells[i].textContent; }); }
var heads = table.querySelectorAll("th button");
heads[0].click(); log.push(column(0)[0]);
heads[0].click(); log.push(column(0)[0]);
heads[1].click(); log.push(column(0)[0]); log.push(heads[1].closest("th").getAttribute("aria-sort"));
heads[1].click(); log.push(column(0)[0]); log.push(heads[1].closest("th").getAttribute("aria-sort"));
var mark = document.querySelector("svg circle[tabindex]");
mark.focus();
// A headless window may not have the focus yet: the event that a key press would cause is then sent by hand.
if (!document.hasFocus()) { mark.dispatchEvent(new FocusEvent("focus")); }
log.push(document.activeElement === mark && !document.getElementById("tip").hidden);
log.push(document.getElementById("tip").textContent);
document.dispatchEvent(new KeyboardEvent("keydown", {key: "Escape"}));
log.push(document.getElementById("tip").hidden);
log.push(document.documentElement.scrollWidth <= window.innerWidth);
document.title = JSON.stringify(log);
</script></body>
"""


def in_browser(text, tmp_path):
    """What the page's script left in its title."""
    target = tmp_path / "page.html"
    target.write_text(text, encoding="utf-8")
    command = [CHROMIUM, *FLAGS, f"--user-data-dir={tmp_path / 'profile'}", "--dump-dom", target.as_uri()]
    dom = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout
    return json.loads(html.unescape(re.search(r"<title>(.*?)</title>", dom)[1]))


@pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium")
def test_sorting_and_keyboard_work_in_a_browser(tmp_path):
    log = in_browser(page(PAYLOAD).replace("</body>", PROBE), tmp_path)
    assert log[:2] == ["age", "SOFA"]  # by name, then turned round
    assert log[2:6] == ["GCS", "descending", "SOFA", "ascending"]  # by weight
    assert log[6] is True  # a focused mark shows its sentence
    assert log[7].startswith("This policy: 0.731, 95 % interval")
    assert log[8:] == [True, True]  # Escape hides it; the page is not wider than the window


PHONE = """<!doctype html><title></title><iframe width="390" height="800" srcdoc="{}"></iframe><script>
window.onload = function () {{ document.title = document.querySelector("iframe").contentDocument.body.scrollWidth; }};
</script>"""


@pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium")
def test_nothing_sticks_out_on_a_phone(tmp_path):
    long = "x" * 200
    named = {"name": long, "weight": 1e6, "interval": [-1e6, 1e6], "frequency": 1.0}
    text = page(
        changed(
            features=[named],
            target=long,
            warnings=[caution("red", long)],
            severity="red",
            settings={"model": long},
            value=-123456.0,
        )
    )
    assert in_browser(PHONE.format(html.escape(text)), tmp_path) <= 390


LETTERS = PHONE.replace(
    "contentDocument.body.scrollWidth",
    """contentDocument.title = (function (page) {{
  return Math.min.apply(null, Array.from(page.querySelectorAll("svg text")).map(function (text) {{
    var svg = text.ownerSVGElement, wide = svg.getBoundingClientRect().width;
    return wide ? parseFloat(getComputedStyle(text).fontSize) * wide / svg.viewBox.baseVal.width : 99;
  }}));
}})(document.querySelector("iframe").contentDocument)""",
)


@pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium")
def test_the_letters_of_charts_can_be_read_on_a_phone(tmp_path):
    assert in_browser(LETTERS.format(html.escape(page(PAYLOAD))), tmp_path) >= 12


def test_the_unit_of_the_reward_is_used() -> None:
    text = page(changed(unit="hours in <care>"))
    assert text.count("hours in &lt;care&gt;") == 4  # beside the answer, in words and on the axis, once more for phones
    assert "value per episode" not in text


def test_the_answer_in_words_says_what_the_policy_does_and_what_to_do_next():
    acts = {"sentence": acts_sentence(["A", "B"], [0.76, 0.24], [0.59, 0.41])}
    caution = {
        "code": "x",
        "severity": "amber",
        "text": "Something is off. Run 'sparsetd inspect'.",
        "remedy": "Run it.",
    }
    text = page(changed(acts=acts, warnings=[caution], severity="amber", robustness={"sentence": "Γ* is 1.7."}))
    assert "B: 24\u00a0% → 41\u00a0%" in text
    assert "<dt>What to do next</dt><dd>Run it.</dd>" in text
    assert "Γ* is 1.7." in text
    assert acts_sentence(["A", "B"], [0.7, 0.3], [0.7, 0.3]) == "It acts as the log does in every decision."
