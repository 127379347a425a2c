"""The code and the pages are written as people speak: the checker finds no inverted or telegraphic sentence."""

from __future__ import annotations

import pytest

from benchmarks import prose

BAD = (
    "Discount γ of every transition that `discount` does not say otherwise of.",
    "Refuse a level that is none.",
    "Squared length, what the columns before leave of one of unit length.",
    "The pivot at or below which the inverse is a pseudo-inverse.",
    "`Parts` of which nothing is kept.",
    "More than 1 it cannot be.",
    "Of a log in shards the first rows are looked at.",
    "Whose rows are whole.",
    "Return what a row does.",
    "Every file, but for the last.",
)
GOOD = (
    "Discount factor, unless `discount` gives one per row.",
    "Raise unless 0 < level < 1.",
    "It cannot exceed 1; a larger mean shows wrong ratios.",
    "Two parameters come from a search, none of which are printed.",
    "More than 40 rows are read at once.",
    "Of course the first row is read.",
    "Of all logs, five are red.",
    "The solution is optimal, but for a different problem.",
    "This is what a table is made of.",
    "The policy whose value is asked for.",
)


@pytest.mark.parametrize("sentence", BAD)
def test_a_sentence_that_nobody_would_say_is_found(sentence: str) -> None:
    assert list(prose.complaints(sentence))


@pytest.mark.parametrize("sentence", GOOD)
def test_a_good_sentence_is_left_alone(sentence: str) -> None:
    assert not list(prose.complaints(sentence))


def test_docstrings_comments_messages_and_names_are_read() -> None:
    code = '''
def _last_row(rows):
    """The last row."""
    # Whose row it is
    # does not matter.
    return f"{rows} rows, of which one is bad"
'''
    found = [what for what, _ in prose.of_python(code)]
    assert len(found) == 3
    assert "the docstring only repeats the name" in found


def test_code_and_tables_of_a_page_are_left_out() -> None:
    page = "# Of which\n\n| of | of which |\n\n```text\nrows, of which\n```\n\nTen rows, of which two are bad.\n"
    assert [sentence for _, sentence in prose.of_markdown(page)] == ["Ten rows, of which two are bad."]


@pytest.mark.parametrize("place", prose.PLACES)
def test_no_sentence_is_inverted_or_telegraphic(place: str) -> None:
    path = prose.ROOT / place
    found = [f"{file}: {what}: {said}" for file in prose.files([path]) for what, said in prose.found_in(file)]
    assert not found, "\n".join(found)
