"""Exit code 0 means that the result was delivered, and no command destroys what it did not write."""

from __future__ import annotations

import errno
import json
import os
import stat
import subprocess
import sys
from argparse import Namespace
from pathlib import Path

import numpy as np
import pytest
from test_cli_log import COLUMNS, rows, write

from sparsetd._tools import progress
from sparsetd.cli import main
from sparsetd.cli.command import OPTIONS, Outcome

SCRIPT = """
import sys
from argparse import Namespace
from pathlib import Path
from sparsetd import cli
from sparsetd._tools.progress import say

def run(args):
    for i in range(3):
        say(f"step {i}")
    Path("report.html").write_text("done")
    return "value 1 ± 0.1 (θ)", {"value": 1, "symbol": "θ"}

cli.command.COMMANDS = {"fake": ("fakes", "does what the test says")}
cli.command.OPTIONS["fake"] = ()
cli.command.load = lambda *_: run
sys.exit(cli.main(sys.argv[1:]))
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "script.py").write_text(SCRIPT)
    return tmp_path


@pytest.fixture
def log(folder: Path) -> str:
    return write(folder / "log.csv", rows())


def shell(line: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a line of shell in which PROGRAM stands for a command that tells of three steps and then of its result."""
    program = f'"{sys.executable}" script.py fake'
    env = {**os.environ, **environment}
    return subprocess.run(
        ["bash", "-c", line.replace("PROGRAM", program)], capture_output=True, text=True, env=env, check=False
    )


def fake(monkeypatch: pytest.MonkeyPatch, run) -> None:
    monkeypatch.setattr("sparsetd.cli.command.COMMANDS", {"fake": ("fakes", "does what the test says")})
    monkeypatch.setattr("sparsetd.cli.command.load", lambda *_: run)
    monkeypatch.setitem(OPTIONS, "fake", ())


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("set -o pipefail; PROGRAM 2>&1 >result | true", 0),
        ("set -o pipefail; PROGRAM 2>&1 | true", 141),
        ("set -o pipefail; PROGRAM --quiet | true", 141),
        ("PROGRAM >/dev/full", 1),
        ("PROGRAM 2>/dev/full >result", 0),
        ("PROGRAM 2>&- >result", 0),
        ("PROGRAM 0<&- 2>&- >result", 0),
    ],
)
def test_nobody_listens(line: str, code: int, folder: Path) -> None:
    done = shell(line)
    assert done.returncode == code, done.stderr
    assert (folder / "report.html").read_text() == "done"
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr
    if (folder / "result").exists():
        assert (folder / "result").read_text() == "value 1 ± 0.1 (θ)\n"
    if "full" in line and code:
        assert "could not be written to standard output (No space left on device)" in done.stderr


def test_without_stdout_no_work_is_begun(folder: Path) -> None:
    done = shell("PROGRAM >&-")
    assert done.returncode == 2
    assert done.stderr.startswith("sparsetd: error: standard output is closed")
    assert not (folder / "report.html").exists()


def test_json_is_alone_on_stdout_when_stderr_is_closed() -> None:
    assert json.loads(shell("PROGRAM --json 2>&-").stdout)["symbol"] == "θ"


@pytest.mark.parametrize("encoding", ["ascii", "cp1252", "ascii:strict"])
def test_a_letter_that_cannot_be_printed_does_not_cost_the_answer(encoding: str) -> None:
    done = subprocess.run(
        [sys.executable, "script.py", "fake"],
        capture_output=True,
        env={**os.environ, "PYTHONIOENCODING": encoding},
        check=False,
    )
    assert done.returncode == 0
    assert done.stdout.endswith(b"(\\u03b8)\n")


class Closed:
    """A stream whose reader went away."""

    def write(self, _text: str) -> int:
        raise BrokenPipeError(errno.EPIPE, "Broken pipe")

    def flush(self) -> None: ...


def test_progress_to_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "EVERY", 0.0)
    with progress.shown(Closed()):
        assert list(progress.track(range(5), "counting")) == list(range(5))


def test_a_debug_trace_to_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(_args: Namespace) -> Outcome:
        raise RuntimeError("the solver broke")

    fake(monkeypatch, run)
    monkeypatch.setattr("sys.stderr", Closed())
    assert main(["fake", "--debug"]) == 1
    sys.stderr.close()


@pytest.mark.parametrize(
    ("problem", "code"),
    [
        (OSError(errno.ENOSPC, "No space left on device", "m.sparsetd"), 1),
        (OSError(errno.EIO, "Input/output error", "m.sparsetd"), 1),
        (MemoryError(), 1),
        (PermissionError(errno.EACCES, "Permission denied", "m.sparsetd"), 2),
        (FileNotFoundError(errno.ENOENT, "No such file or directory", "m.sparsetd"), 2),
    ],
)
def test_what_the_machine_does_is_no_wrong_input(problem, code, monkeypatch, capsys) -> None:
    def run(_args: Namespace) -> Outcome:
        raise problem

    fake(monkeypatch, run)
    assert main(["fake"]) == code
    assert ("m.sparsetd: " in capsys.readouterr().err) == isinstance(problem, OSError)


@pytest.mark.parametrize(
    "problem",
    [
        OSError("Could not find/load shared object file 'libllvmlite.so' from resource location: 'llvmlite.binding'."),
        ImportError("_core.cpython-311-x86_64-linux-gnu.so: failed to map segment from shared object"),
    ],
)
def test_a_library_that_finds_no_room_is_not_a_result_that_cannot_be_written(problem, monkeypatch, capsys) -> None:
    def build_parser(_words: list[str]) -> None:
        raise problem  # commands import what they need, and with little memory that fails

    monkeypatch.setattr("sparsetd.cli.build_parser", build_parser)
    assert main(["fit", "log.csv"]) == 1
    error = capsys.readouterr().err
    assert "most likely because memory is short" in error
    assert "standard output" not in error


def refused(capsys, words: list[str], message: str) -> None:
    assert main(words) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert message in err
    assert len(err.strip().splitlines()) == 1


def test_an_empty_path_is_no_log(capsys, log, folder) -> None:
    for words in (["evaluate", ""], ["inspect", " "], ["select", ""], ["fit", "", "--out", "m"]):
        refused(capsys, words, "the path of the log is empty: name a file or a folder.")
    assert log == str(folder / "log.csv")


@pytest.mark.parametrize(
    "words",
    [
        ["fit", "LOG", "--out", "LOG"],
        ["fit", "LOG", "--out", "link.csv"],
        ["predict", "m.sparsetd", "LOG", "--out", "LOG"],
        ["predict", "link.csv", "LOG", "--out", "link.csv"],
        ["evaluate", "LOG", "--target", "greedy:q.html", "--report", "q.html"],
        ["prepare", "log.parquet", "--out", "log.parquet"],
        ["compare", "LOG", "--target", "a=behavior", "--target", "b=greedy:q.html", "--report", "q.html"],
    ],
    ids=" ".join,
)
def test_an_input_is_never_overwritten(capsys, log, folder, words) -> None:
    (folder / "link.csv").symlink_to(log)
    before = Path(log).read_bytes()
    refused(capsys, [word.replace("LOG", log) for word in words], "is also an input and would be overwritten")
    assert Path(log).read_bytes() == before


def test_a_checkpoint_is_a_folder_of_its_own(capsys, log, folder) -> None:
    words = ["fit", log, "--out", "m.sparsetd", "--checkpoint"]
    refused(capsys, [*words, log], "log.csv' is a file, but a checkpoint is a folder: name a folder")
    refused(capsys, [*words, "m.sparsetd"], "the checkpoint 'm.sparsetd' is also the output: name another folder")
    every = [*words[:-1], "--checkpoint-every"]
    refused(capsys, [*every, "5"], "--checkpoint-every says how often to keep the state: say where with --checkpoint")
    refused(capsys, [*every, "0"], "argument --checkpoint-every: must be a number of seconds above 0, not '0'")
    assert not (folder / "m.sparsetd").exists()


def test_an_output_does_not_become_a_part_of_the_log(capsys, folder) -> None:
    (folder / "parts").mkdir()
    write(folder / "parts" / "a.csv", rows())
    assert main(["fit", "parts", "--out", "parts/m.sparsetd", "--method", "LSTD"]) == 0
    capsys.readouterr()
    refused(capsys, ["predict", "parts/m.sparsetd", "parts", "--out", "parts/v.csv"], "would become a part of the log")


def test_only_files_are_replaced(capsys, log, folder) -> None:
    os.mkfifo(folder / "pipe.html")
    (folder / "device.html").symlink_to("/dev/null")
    for name in ("pipe.html", "device.html"):
        refused(capsys, ["evaluate", log, "--report", name], "is a device or a pipe; name a file")
    refused(capsys, ["demo", "--out", "/dev/null"], "must end in")
    (folder / "plot.png").symlink_to("/dev/null")
    refused(capsys, ["demo", "--out", "plot.png"], "is a device or a pipe; name a file")
    refused(capsys, ["fit", log, "--out", "m", "--checkpoint", "pipe.html"], "is a file, but a checkpoint is a folder")
    assert stat.S_ISFIFO(os.stat("pipe.html").st_mode)


@pytest.mark.parametrize(("column", "value"), [("reward", "1e308"), ("reward", "-1e150"), ("obs_a", "1e200")])
def test_numbers_too_large_to_compute_with(capsys, folder, column, value) -> None:
    table = rows()
    table[7][column] = value
    path = write(folder / "log.csv", table)
    for words in (["evaluate", path], ["fit", path, "--out", "m"], ["select", path]):
        refused(capsys, words, f"`{column}` must be at most 1e+100 in size, but row 7 holds")


@pytest.mark.parametrize("text", ["1_0", "１０", "1_000.5"])
def test_a_number_is_what_anybody_would_write(capsys, folder, text) -> None:
    table = rows()
    table[7]["reward"] = text
    refused(capsys, ["evaluate", write(folder / "log.csv", table)], "`reward` must hold numbers, but row 7 holds")
    for option in ("--gamma", "--level", "--n-folds", "--n-resamples", "--random-state"):
        refused(capsys, ["evaluate", "log.csv", option, text.replace("1", "0")], f"argument {option}: must be")
    words = ["fit", "log.csv", "--out", "m", "--method", "LSTD", "--set", f"alpha={text}"]
    refused(capsys, words, f"alpha={text!r} must be")


@pytest.mark.parametrize("words", [["--level", "0"], ["--level", "1"], ["--n-folds", "²"], ["--random-state", "--1"]])
def test_options_are_refused_before_the_work(capsys, log, words, monkeypatch) -> None:
    monkeypatch.setattr("sparsetd.cli.options.read_shards", lambda *_, **__: pytest.fail("the log was read"))
    refused(capsys, ["evaluate", log, *words], f"argument {words[0]}: ")


def test_ids_that_a_spreadsheet_would_run_stay_text(capsys, log, folder) -> None:
    table = rows(episodes=3)
    for row in table:
        row["episode"] = {"0": "=cmd|'/C calc'!A0", "1": "@SUM(1)", "2": "plain"}[row["episode"]]
    assert main(["fit", log, "--out", "m.sparsetd", "--method", "LSTD"]) == 0
    capsys.readouterr()
    assert main(["predict", "m.sparsetd", write(folder / "other.csv", table, COLUMNS)]) == 0
    ids = [line.split(",")[1] for line in capsys.readouterr().out.splitlines()[1:]]
    assert [ids[0], ids[5], ids[10]] == ["'=cmd|'/C calc'!A0", "'@SUM(1)", "plain"]


def test_an_ending_in_capitals_is_the_same_ending(folder) -> None:
    import pyarrow.parquet

    from sparsetd.cli.logs import write_log
    from sparsetd.logs import read

    log = read(write(folder / "log.csv", rows()))
    for name in ("E.PARQUET", "E.NPZ", "E.CSV"):
        write_log(log, folder / name)
        np.testing.assert_array_equal(read(folder / name).reward, log.reward)
    assert pyarrow.parquet.read_table("E.PARQUET").num_rows == len(log)


@pytest.mark.parametrize("command", ["evaluate", "fit"])
def test_the_help_says_that_code_is_run(capsys, command) -> None:
    assert main([command, "--help"]) == 0
    assert "is run, found in the current folder first" in " ".join(capsys.readouterr().out.split())
