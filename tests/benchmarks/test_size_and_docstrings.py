"""The two commands that look at the tree count and complain as they say."""

from __future__ import annotations

from pathlib import Path

from benchmarks import docstrings, size

FILE = '''"""Two lines
of docstring."""

# a comment
import os  # code

TEXT = """three lines of
code, which is no
docstring"""


def f():
    """One line."""
    return os.name
'''


def no_docstring() -> None: ...


def formula() -> None:
    """Solves A x = b.

    >>> 1 + 1
    2
    """


def wrong_example() -> None:
    """Adds two numbers.

    >>> 1 + 1
    3
    """


def fine() -> None:
    """Add two numbers.

    >>> 1 + 1
    2
    """


def test_code_and_docstrings_are_told_apart(tmp_path: Path) -> None:
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "file.py").write_text(FILE)
    (tmp_path / "empty.py").write_text("\n# nothing\n")
    found = size.sizes(tmp_path)
    assert found["package"] == {"code": 6, "docstrings": 3, "files": 1}
    assert found["(top)"] == {"code": 0, "docstrings": 0, "files": 1}


def test_every_lack_of_a_docstring_is_named() -> None:
    assert docstrings.complaints("no_docstring", no_docstring) == ["has no docstring"]
    assert "begins with a formula" in docstrings.complaints("formula", formula)[0]
    assert "prints something else" in docstrings.complaints("wrong_example", wrong_example)[0]
    assert docstrings.complaints("fine", fine) == []


def test_public_names_are_found() -> None:
    assert {"sparsetd.evaluate", "sparsetd.TDC", "sparsetd.operators"} <= set(docstrings.public_values())
