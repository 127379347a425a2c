"""Every public name says in a sentence what it does, and shows an example that runs."""

from __future__ import annotations

import matplotlib
import pytest

from benchmarks.docstrings import complaints, public_values

VALUES = public_values()


@pytest.mark.parametrize("path", VALUES)
def test_a_sentence_and_an_example(path: str) -> None:
    matplotlib.use("Agg")
    assert complaints(path, VALUES[path]) == []
