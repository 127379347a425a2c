"""The report holds every claim, table and setting, and the HTML page needs nothing beside it."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest

from reproduction.document import Paragraph
from reproduction.report import write_report
from reproduction.runner import execute


@pytest.fixture(scope="module")
def written(toy, tmp_path_factory):
    out = tmp_path_factory.mktemp("report")
    outcome = execute(toy.TOY, toy.TOY.quick, out)
    return out, write_report([outcome], out, "python -m reproduction toy")


def test_figures_exist(written):
    assert (written[0] / "toy/figures/means.png").stat().st_size > 1000


def test_markdown_links_figures_relative_to_the_page(written):
    out, files = written
    text = files["markdown"].read_text()
    for link in re.findall(r"!\[.*\]\((.*)\)", text):
        assert (out / link).is_file()
    assert "not reproduced, because it is <one>" in text
    assert "9 \\| 9" in text
    assert "| mean | 1.0 | paper | Table 9 |" in text
    assert re.search(
        r"Made by `python -m reproduction toy`, the rows with sparsetd [\d.]+\. .* on \d{4}-\d\d-\d\d", text
    )
    assert str(out) not in text


def test_html_is_self_contained_balanced_and_escaped(written):
    text = written[1]["html"].read_text()
    assert "data:image/png;base64," in text
    assert text.count("<main>") == 1
    assert "it is &lt;one&gt;" in text
    assert not re.search(r"(src|href)='(?!data:)", text)

    class Balance(HTMLParser):
        def __init__(self):
            super().__init__()
            self.stack = []

        def handle_starttag(self, tag, _attrs):
            if tag not in ("meta", "img"):
                self.stack.append(tag)

        def handle_endtag(self, tag):
            assert self.stack.pop() == tag

    parser = Balance()
    parser.feed(text)
    assert parser.stack == []


def test_code_in_a_paragraph_is_set_as_code(tmp_path):
    paragraph = Paragraph("Made by `a < b`.")
    assert paragraph.html(tmp_path) == "<p>Made by <code>a &lt; b</code>.</p>"
    assert paragraph.markdown(tmp_path) == "Made by `a < b`."


def test_verdicts_are_counted_and_coloured_once_each(written) -> None:
    page = written[1]["html"].read_text()
    front, judged = page.split("It is one. It is not large.")
    counted = [int(n) for n in re.findall(r"<b>(\d+)</b>", front.split("<div class='tally'>")[1].split("</div>")[0])]
    assert counted == [1, 0, 1]  # what is trivially true is not counted
    for part in (front, judged):
        assert re.findall(r"<td class='(good|bad)' data-head='verdict'>", part) == ["good", "bad"]
        assert part.count("trivially true") >= 1
    assert [front.index(kind) for kind in ("theory:", "depends on tuning:", "trivially true:")] == sorted(
        front.index(kind) for kind in ("theory:", "depends on tuning:", "trivially true:")
    )


def test_a_chapter_shows_its_conclusion_and_one_figure_and_folds_the_rest(written) -> None:
    """Tables, settings and rules are inside <details>, in HTML as in Markdown."""
    for text in (file.read_text() for file in written[1].values()):
        chapter = text[text.index("It is one. It is not large.") :]
        assert chapter.count("<details>") == chapter.count("</details>") == 3
        shown = re.sub(r"<details>.*?</details>", "", chapter, flags=re.DOTALL)
        assert "means.png" in shown or "<figure>" in shown
        assert not re.search(r"<table>|^\|", shown, re.MULTILINE)
    assert "2 runs of each method, root seed 20121203" in text
