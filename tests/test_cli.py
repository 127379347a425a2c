"""The command line as its users meet it: help, JSON, exit codes, files."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from argparse import ArgumentParser, Namespace
from pathlib import Path

import numpy as np
import pytest

from sparsetd.cli import main
from sparsetd.cli.command import COMMANDS, OPTIONS, Outcome, bold, load

SMALL = ["demo", "--samples", "2000"]


@pytest.fixture(autouse=True)
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def fake(monkeypatch: pytest.MonkeyPatch, run) -> None:
    """Put a command `fake` with the given `run` in the place of the registry."""
    monkeypatch.setattr("sparsetd.cli.command.COMMANDS", {"fake": ("fakes", "does what the test says")})
    monkeypatch.setattr("sparsetd.cli.command.load", lambda *_: run)
    monkeypatch.setitem(OPTIONS, "fake", ())


def test_help_teaches(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    shown = capsys.readouterr().out
    assert "sparsetd demo" in shown
    assert "exit codes" in shown
    assert "NO_COLOR" in shown
    for _, summary in COMMANDS.values():
        assert summary in " ".join(shown.split())


@pytest.mark.parametrize("name", COMMANDS)
def test_the_registry_says_what_the_command_says(name: str) -> None:
    module, summary = COMMANDS[name]
    run = load(module, name)
    assert run.__name__ == name
    assert (run.__doc__ or "").splitlines()[0] == f"{summary[:1].upper()}{summary[1:]}."


def test_help_does_not_wait_for_the_library() -> None:
    script = "import sys; from sparsetd.cli import main; main(['--help']); sys.exit('numba' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], capture_output=True, check=False).returncode == 0


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_with_an_example(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([name, "--help"]) == 0
    shown = capsys.readouterr().out
    assert f"sparsetd {name}" in shown.split("options", 1)[0].split("\n", 2)[-1]
    assert "--json" in shown


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("sparsetd ")


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        ([], "sparsetd demo"),
        (["dmeo"], "did you mean 'demo'?"),
        (["demo", "--samples", "many"], "--samples"),
        (["demo", "--samples", "0"], "--samples"),
        (["demo", "--random-state", "-1"], "--random-state"),
        (["demo", "--seed", "1"], "'--seed' is now '--random-state'"),
        (["sweep", "x", "--method", "TD", "--grid", "a=1", "--out", "o", "--jobs=2"], "'--jobs' is now '--n-jobs'"),
        (["reproduce", "star"], "run 'python -m reproduction' in a clone"),
        (["benchmark"], "run 'python -m benchmarks' in a clone"),
        (
            ["sweep", "star", "--method", "TD", "--out", "o", "--grid", "a=.1", "a=.2"],
            "'a' is given twice: give it once",
        ),
        (
            ["sweep", "star", "--method", "TD", "--out", "o", "--grid", "a=1:1:1000000000"],
            "1,000,000,000 values, more than",
        ),
        (["inspect", "x.csv", "--column", "reward=a", "--column", "reward=b"], "'reward' is given twice"),
        (["inspect", "x.csv", "--buckets", "99999999999999"], "must be at most"),
        (["demo", "--out", "plot.bmp"], ".png"),
        (["demo", "--out", "nowhere/plot.png"], "does not exist"),
        (["demo", "--colour"], "--colour"),
        (["compare", "x.csv", "--target", "a", "--check", "boosting"], "unrecognized arguments: --check boosting"),
        (["--js", "demo"], "unrecognized arguments: --js"),
    ],
)
def test_wrong_input_is_one_sentence(
    argv: list[str], words: str, capsys: pytest.CaptureFixture[str], empty_folder: Path
) -> None:
    assert main(argv) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert words in err
    assert len(err.strip().splitlines()) == 1
    assert not list(empty_folder.iterdir())


def test_demo_prints_a_table_and_draws_a_plot(capsys: pytest.CaptureFixture[str], empty_folder: Path) -> None:
    assert main(SMALL) == 0
    out, err = capsys.readouterr()
    for method in ("TD", "TDC", "LSTD", "RO-TD", "exact"):
        assert method in out
    assert [file.name for file in empty_folder.iterdir()] == ["sparsetd-demo.png"]
    assert (empty_folder / "sparsetd-demo.png").read_bytes().startswith(b"\x89PNG")
    assert err


def test_json_is_json_and_quiet_is_quiet(capsys: pytest.CaptureFixture[str], empty_folder: Path) -> None:
    assert main([*SMALL, "--json", "--quiet", "--no-plot"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert {row["method"] for row in json.loads(out)["rows"]} >= {"TD", "TDC", "LSTD", "RO-TD"}
    assert not list(empty_folder.iterdir())


def test_options_may_stand_before_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--json", "--quiet", *SMALL, "--no-plot"]) == 0
    assert json.loads(capsys.readouterr().out)


def test_same_seed_same_output(capsys: pytest.CaptureFixture[str]) -> None:
    runs = []
    for _ in range(2):
        assert main([*SMALL, "--json", "--quiet", "--no-plot", "--random-state", "3"]) == 0
        runs.append(capsys.readouterr().out)
    assert runs[0] == runs[1]


def test_a_failure_before_the_command_is_not_one_of_standard_output(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where memory is short, a library that a command needs cannot be loaded."""

    def broken(*_: str) -> None:
        raise OSError("libscipy.so: failed to map segment from shared object")

    monkeypatch.setattr("sparsetd.cli.command.load", broken)
    assert main(["demo"]) == 1
    why = "libscipy.so: failed to map segment from shared object"
    said = f"a library could not be loaded, most likely because memory is short ({why}): free some memory"
    assert capsys.readouterr().err == f"sparsetd: error: {said}\n"
    problem = OSError(12, "Cannot allocate memory")
    fake(monkeypatch, lambda *_: (_ for _ in ()).throw(problem))
    assert main(["fake"]) == 1
    assert "there is not enough memory ([Errno 12] Cannot allocate memory)" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("problem", "code"),
    [
        (ValueError("gamma must be at most 1"), 2),
        (FileNotFoundError("no file"), 2),
        (RuntimeError("the solver broke"), 1),
        (KeyboardInterrupt(), 130),
        (RuntimeError(), 1),
    ],
)
def test_failures_become_exit_codes(
    problem: BaseException, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(_args: Namespace) -> Outcome:
        raise problem

    fake(monkeypatch, run)
    assert main(["fake"]) == code
    err = capsys.readouterr().err
    assert err.startswith("sparsetd: error: ")
    assert len(err.splitlines()) == 1
    assert main(["fake", "--debug"]) == code
    assert ("Traceback" in capsys.readouterr().err) == isinstance(problem, Exception)


def test_an_interruption_while_a_command_loads_is_no_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(_words: list[str]) -> ArgumentParser:
        raise KeyboardInterrupt

    monkeypatch.setattr("sparsetd.cli.build_parser", interrupted)
    assert main(["demo"]) == 130
    assert capsys.readouterr().err == "sparsetd: error: interrupted\n"


def test_json_speaks_no_numpy_and_no_infinity(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    data = {"a": np.array([1.0, np.inf]), "b": np.float64("nan"), "c": (np.int64(3), None), "d": math.inf}
    fake(monkeypatch, lambda _args: ("", data))
    assert main(["fake", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "schema_version": 1,
        "a": [1.0, None],
        "b": None,
        "c": [3, None],
        "d": None,
    }


def test_colours_only_on_a_terminal_that_wants_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert bold("x") != "x"
    monkeypatch.setenv("NO_COLOR", "1")
    assert bold("x") == "x"


def test_module_and_script_are_the_same_program() -> None:
    env = {**os.environ, "PYTHONWARNINGS": "error"}
    done = subprocess.run(
        [sys.executable, "-m", "sparsetd", "--version"], capture_output=True, text=True, env=env, check=False
    )
    assert done.returncode == 0
    assert done.stdout.startswith("sparsetd ")


def test_a_closed_pipe_is_not_an_error() -> None:
    script = "import sys; from sparsetd.cli import main; sys.exit(main(['--help']))"
    done = subprocess.run(
        f'"{sys.executable}" -c "{script}" | head -c 1', shell=True, capture_output=True, text=True, check=False
    )
    assert done.stderr == ""


@pytest.mark.parametrize(
    "words", [["dmeo", "--json"], ["demo", "--samples", "0", "--json"], ["inspect", "no.csv", "--json"]]
)
def test_errors_are_json_too(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 2
    out, err = capsys.readouterr()
    said = json.loads(out)
    assert said["schema_version"] == 1
    assert said["exit_code"] == 2
    assert said["error"] in err


def test_json_carries_the_version_of_its_schema(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*SMALL, "--json", "--quiet", "--no-plot"]) == 0
    assert json.loads(capsys.readouterr().out)["schema_version"] == 1


def test_the_shell_completes_commands_and_options(tmp_path: Path) -> None:
    pytest.importorskip("argcomplete")
    answers = {}
    for line in ("sparsetd pre", "sparsetd evaluate --cla"):
        # argcomplete answers on file descriptor 8
        shell = f"exec 8>{tmp_path / 'answer'}; {sys.executable} -m sparsetd"
        settings = {"_ARGCOMPLETE": "1", "COMP_LINE": line, "COMP_POINT": str(len(line)), "_ARGCOMPLETE_IFS": " "}
        subprocess.run(["bash", "-c", shell], env={**os.environ, **settings}, check=False, capture_output=True)
        answers[line] = (tmp_path / "answer").read_text().split()
    assert {"predict", "prepare"} <= set(answers["sparsetd pre"])
    assert "--classifier" in answers["sparsetd evaluate --cla"]
