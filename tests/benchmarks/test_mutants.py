"""The mutants still fit the library: an edit of the code must not take one away unnoticed."""

from __future__ import annotations

import pytest

from benchmarks.mutants import MUTANTS, ROOT


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda m: f"{m.file}: {m.old.splitlines()[0]}")
def test_a_mutant_has_its_place_and_its_tests(mutant):
    text = (ROOT / "src" / "sparsetd" / mutant.file).read_text(encoding="utf-8")
    assert text.count(mutant.old) == 1, "correct the list in benchmarks/mutants.py"
    files = [word for word in mutant.tests.split(" -k ")[0].split() if not (ROOT / word).exists()]
    assert not files, f"the tests {files} are gone"
