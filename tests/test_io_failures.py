"""The n-th reading or writing of a file fails, for every n and every command: nothing is lost, and somebody is told.

As databases are tested: the same command is run again and again on the same small log, each time with the next call of
the operating system failing, until none fails any more.
"""

from __future__ import annotations

import builtins
import errno
import io
import os
import shutil
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from test_cli_log import rows, write
from toy import TOY

import reproduction.__main__
from reproduction import EXPERIMENTS, runner
from sparsetd.cli import demo, main
from sparsetd.cli.command import COMMANDS
from sparsetd.problems.icu_sepsis import ICUSepsis

HALVES = "import numpy as np\ndef half(s):\n    return np.full((len(s), 2), 0.5)\n"
LINES = {
    "example": "example icu-sepsis --episodes 3 --out out.csv",
    "inspect": "inspect log.csv",
    "evaluate": "evaluate log.csv --all-features --n-resamples 0 --target target_prob --report out.html",
    "select": "select log.csv",
    "compare": "compare log.csv --target half=halves_of_io:half --target old=behavior --report out.html",
    "sensitivity": "sensitivity log.csv --target halves_of_io:half",
    "fit": "fit log.csv --method LSTD --out out.sparsetd --checkpoint kept",
    "predict": "predict model.sparsetd log.csv --out out.csv",
    "prepare": "prepare log.csv --out out.parquet",
    "shard": "shard log.csv --out out",
    "improve": "improve log.csv --out out.sparsetd --report out.html",
    "demo": "demo --samples 20 --out out.png",
    "reproduction": "star --seeds 1 --out out --resume",
    "sweep": "sweep random-walk --method TD --grid step_size=0.1,0.2 --rows 5 --n-jobs 1 --out out",
}
PROGRAMS = {"reproduction": reproduction.__main__.main}  # the others are commands of `sparsetd`

RESUMED = {"kept", "unfinished"}


class Faults:
    """Counts the calls that touch files under `folder`, and lets the n-th fail."""

    def __init__(self, folder: Path, n: int) -> None:
        self.folder, self.left, self.failed = str(folder), n, ""

    def tick(self, what: str) -> None:
        self.left -= 1
        if self.left == 0:
            self.failed = what
            raise OSError(errno.EIO, "Input/output error")

    def wrap(self, function: Any, name: str) -> Any:
        def called(path: Any, *args: Any, **options: Any) -> Any:
            if isinstance(path, int) or os.path.abspath(path).startswith(self.folder):
                self.tick(name)
                found = function(path, *args, **options)
                return File(found, self) if name == "open" else found
            return function(path, *args, **options)

        return called

    def install(self, patch: pytest.MonkeyPatch) -> None:
        for name in ("open", "fsync", "replace", "chmod", "mkdir"):
            patch.setattr(f"os.{name}", self.wrap(getattr(os, name), f"os.{name}"))
        opening = self.wrap(builtins.open, "open")
        patch.setattr(builtins, "open", opening)
        patch.setattr(io, "open", opening)


class File:
    """An open file whose readings and writings are counted too."""

    def __init__(self, file: Any, faults: Faults) -> None:
        self._file, self._faults = file, faults

    def __getattr__(self, name: str) -> Any:
        if name in ("read", "readline", "write", "flush"):
            self._faults.tick(name)
        return getattr(self._file, name)

    def __enter__(self) -> File:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def __iter__(self) -> Iterator[Any]:
        self._faults.tick("iterate")
        return iter(self._file)


def contents(folder: Path) -> dict[str, bytes]:
    """Every file except those that a later run continues from."""
    names = {p: p.relative_to(folder) for p in sorted(folder.rglob("*")) if p.is_file()}
    return {str(name): p.read_bytes() for p, name in names.items() if not RESUMED & {*name.parts}}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "halves_of_io", raising=False)
    monkeypatch.setattr("sys.dont_write_bytecode", True)
    monkeypatch.setattr(ICUSepsis, "load", cache(ICUSepsis.load))
    monkeypatch.setattr(ICUSepsis, "exact_value", lambda *_: 0.5)
    _shorten(monkeypatch)
    (tmp_path / "halves_of_io.py").write_text(HALVES)
    write(tmp_path / "log.csv", rows(episodes=60, length=2))
    assert main(["fit", "log.csv", "--method", "LSTD", "--out", "model.sparsetd"]) == 0
    return tmp_path


def _shorten(patch: pytest.MonkeyPatch) -> None:
    """What computes or draws for long and opens no file is done once, and takes no time."""
    once = cache(demo.try_methods)
    patch.setattr(demo, "try_methods", once)
    patch.setitem(EXPERIMENTS, "star", TOY)
    patch.setattr(runner, "time", SimpleNamespace(perf_counter=lambda: 0.0))
    patch.setattr("matplotlib.figure.Figure.savefig", lambda _, file, **__: file.write(b"picture"))


def test_every_command_is_here() -> None:
    assert COMMANDS.keys() == LINES.keys() - PROGRAMS.keys()


@pytest.mark.parametrize("name", LINES)
def test_the_nth_call_fails(name: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words, before, told = LINES[name].split(), contents(folder), 0
    for n in range(200):
        faults = Faults(folder, n)
        with pytest.MonkeyPatch.context() as patch:
            faults.install(patch)
            code = PROGRAMS.get(name, main)(words)
        err, after = capsys.readouterr().err, contents(folder)
        assert "Traceback" not in err
        if n == 0:  # nothing failed
            assert code == 0, err
            whole = after
        elif not faults.failed:
            break
        elif code == 0:  # what failed was a precaution that not every file system offers
            assert after == whole, faults.failed
        else:
            assert code in (1, 2)
            told += 1
            assert "Input/output error" in err, (faults.failed, err)
            assert {k: v for k, v in after.items() if k in before} == before, "what was there is as it was"
            assert after.items() <= whole.items(), "whole or not at all"
        shutil.rmtree(folder / "out", ignore_errors=True)
        for new in set(after) - set(before):
            (folder / new).unlink(missing_ok=True)
    assert not faults.failed
    assert told, "some of the calls must have mattered"
