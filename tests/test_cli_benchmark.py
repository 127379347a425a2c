"""`sparsetd benchmark` finds the repository's scripts, passes options on, and says where to stand."""

from __future__ import annotations

from pathlib import Path

import pytest

from sparsetd.cli import benchmark, main

ROOT = Path(__file__).parents[1]


def test_every_benchmark_exists() -> None:
    for name, words in benchmark.BENCHMARKS.items():
        place = ROOT / words[1].replace(".", "/") / "__main__.py" if words[0] == "-m" else ROOT / words[0]
        assert place.is_file(), name


@pytest.mark.parametrize("name", ["demo", "quality", "trust"])
def test_options_are_passed_on(name: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["--quiet", "benchmark", name, "--help"]) == 0
    assert "usage:" in capfd.readouterr().out


def test_outside_a_clone_it_says_where_to_stand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(benchmark, "__file__", str(tmp_path / "a" / "b" / "c" / "benchmark.py"))
    assert main(["benchmark", "demo"]) == 2
    assert "install a clone with" in capsys.readouterr().err
