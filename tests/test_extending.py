"""The guide for extending the library, followed to the letter in a copy of it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
GUIDE = (ROOT / "docs" / "extending.md").read_text()
USE = """
import numpy as np
from sparsetd import LinearTD, penalties
X, y = np.random.default_rng(0).normal(size=(2, 50, 3))[0], np.arange(50.0)
model = LinearTD(operator="partial", penalty=penalties.Norm(0.1)).fit(X, y)
print(model.status_)
"""


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("clone")
    for part in ("src", "tests/reference", "tests/operators", "tests/penalties"):
        shutil.copytree(ROOT / part, folder / part)
    for path, text in re.findall(r"^```python\n# new file: (\S+)\n(.*?)^```$", GUIDE, re.MULTILINE | re.DOTALL):
        assert not (folder / path).exists()
        (folder / path).write_text(text)
    for path, text in re.findall(r"^```diff\n\+\+\+ (\S+)\n(.*?)^```$", GUIDE, re.MULTILINE | re.DOTALL):
        (folder / path).write_text(edited((folder / path).read_text(), text.splitlines()))
    return folder


def edited(text: str, change: list[str]) -> str:
    """The file with the lines after a `+` put behind the line before them, which must be there just once."""
    lines, at = text.splitlines(), -1
    for line in change:
        if line.startswith("+"):
            at += 1
            lines.insert(at, line[1:])
        else:
            assert lines.count(line[1:]) == 1, line
            at = lines.index(line[1:])
    return "\n".join(lines) + "\n"


def run(copy: Path, *words: str) -> str:
    environment = {**os.environ, "PYTHONPATH": f"{copy / 'src'}{os.pathsep}{copy / 'tests'}"}
    done = subprocess.run([sys.executable, *words], cwd=copy, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_new_operator_and_penalty_work_by_name(copy: Path) -> None:
    assert run(copy, "-c", USE).strip() == "finished"


def test_the_generic_tests_find_them(copy: Path) -> None:
    words = ("-m", "pytest", "-p", "no:cacheprovider", "tests/operators", "tests/penalties", "-k")
    shown = run(copy, *words, "partial or Norm", "-v")
    assert "test_the_default_is_the_printed_method[partial] PASSED" in shown
    assert "test_the_prox_is_no_worse_than_any_other_point[Norm] PASSED" in shown


def test_the_generic_test_fails_for_a_wrong_operator(copy: Path) -> None:
    reference = copy / "tests" / "reference" / "systems.py"
    right = reference.read_text()
    reference.write_text(right.replace("kappa=0.5", "kappa=0.6"))
    with pytest.raises(AssertionError, match="1 failed"):
        run(copy, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/operators", "-k", "partial")
    reference.write_text(right)
