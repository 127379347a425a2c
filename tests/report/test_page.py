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

from sparsetd.report.page import page, write_page
from sparsetd.report.svg import Scale, label, log_span, span
from sparsetd.report.words import number, percent, signed, verdicts

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
        "Which features matter?",
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
    text = page(changed(target='"><script>alert(1)</script>', warnings=["<img src=x>"]))
    assert "<script>alert" not in text
    assert "<img" not in text
    assert "&lt;b&gt;odd &amp; name&lt;/b&gt;" in text
    parse(text)


def test_equal_payloads_give_equal_bytes(tmp_path):
    write_page(PAYLOAD, tmp_path / "a.html")
    write_page(copy.deepcopy(PAYLOAD), tmp_path / "b.html")
    assert (tmp_path / "a.html").read_bytes() == (tmp_path / "b.html").read_bytes()


@pytest.mark.parametrize(
    "change",
    [
        {"path": None, "convergence": None, "calibration": [], "ratio_histogram": None, "bellman_error": None},
        {"features": [], "n_candidates": 0},
        {"comparisons": []},
        {"warnings": ["Only 40 % of the target's choices are in the log."]},
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
    assert "is better, beyond chance" in page(changed(difference={"value": 0.1, "interval": [0.05, 0.15]}))
    assert "is worse, beyond chance" in page(changed(difference={"value": -0.1, "interval": [-0.15, -0.05]}))


def test_every_mark_says_what_it_is():
    text = page(PAYLOAD)
    marks = re.findall(r"<(?:circle|rect|polyline)[^>]*>", text)
    focusable = [m for m in marks if "tabindex" in m]
    assert len(focusable) > 60
    assert all("aria-label=" in m for m in focusable)


def test_verdicts_grade_in_words():
    words = [v.word for v in verdicts(PAYLOAD)]
    assert words == ["covered", "plenty", "uneven", "about what chance gives"]
    poor = changed(
        coverage=0.4, ess_rows=12.0, max_ratio=653.0, bellman_error={"value": 9.0, "noise": 1.0, "constant": 20.0}
    )
    assert [v.level for v in verdicts(poor)] == ["bad"] * 4


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.7312, "0.731"), (-0.02, "−0.020"), (0.0, "0.000"), (12345.6, "1.235e+04"), (0.00012, "0.00012"), (None, "–")],
)
def test_numbers_are_written_short(value, text):
    assert number(value) == text


def test_signs_and_percents():
    assert (signed(0.5), signed(-0.5), signed(float("inf"))) == ("+0.500", "−0.500", "–")
    assert (percent(0.95), percent(0.997), percent(1.0), percent(None)) == ("95 %", "99.7 %", "100 %", "–")


def test_scales_and_ticks():
    assert Scale(0, 10, 0, 100)(2.5) == 25
    assert Scale(1, 100, 0, 100, log=True)(10) == pytest.approx(50)
    assert Scale(0, 1, 0, 1).ticks(5) == pytest.approx([0, 0.2, 0.4, 0.6, 0.8, 1.0])
    assert Scale(10000, 0.1, 0, 1, log=True).ticks() == pytest.approx([0.1, 1, 10, 100, 1000, 10000])
    assert Scale(0.15, 3, 0, 1, log=True).ticks() == pytest.approx([0.2, 0.5, 1, 2])
    assert span([3.0]) == pytest.approx((2.7, 3.3))
    assert span([]) == pytest.approx((-0.1, 0.1))
    assert log_span([0.02, 30]) == pytest.approx((0.01, 100))
    assert (label(0), label(-0.5), label(1e-8), label(250000)) == ("0", "−0.5", "1e−8", "2e5")


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


@pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium")
def test_sorting_and_keyboard_work_in_a_browser(tmp_path):
    target = tmp_path / "page.html"
    target.write_text(page(PAYLOAD).replace("</body>", PROBE), encoding="utf-8")
    command = [CHROMIUM, *FLAGS, f"--user-data-dir={tmp_path / 'profile'}", "--dump-dom", target.as_uri()]
    dom = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout
    log = json.loads(html.unescape(re.search(r"<title>(.*?)</title>", dom)[1]))
    assert log[:2] == ["<b>odd & name</b>", "SOFA"]  # by name, then turned round
    assert log[2:6] == ["GCS", "descending", "SOFA", "ascending"]  # by weight
    assert log[6] is True  # a focused mark shows its sentence
    assert log[7].startswith("This report: 0.731, 95 % interval")
    assert log[8:] == [True, True]  # Escape hides it; the page is not wider than the window
