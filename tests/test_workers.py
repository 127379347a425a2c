"""Worker processes end with their parent, and run nothing that only lies in the current folder."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from sparsetd._tools.workers import SAFE_PATH, delayed, in_processes

SLEEPING = """
import os, sys, time
from joblib import Parallel
from sparsetd.logs.engines import Processes
print("ready", flush=True)
Processes(2).reduce(time.sleep, [60.0, 60.0])
"""
SWEEPING = """
import sys
from sparsetd.cli import main
words = "sweep random-walk --method LSTD --grid alpha=0.1,0.2 --rows 20 --n-runs 3 --n-jobs 2 --out table"
sys.exit(main(words.split()))
"""
linux = pytest.mark.skipif(not Path("/proc").is_dir(), reason="looks for processes in /proc")


def children(pid: int) -> set[int]:
    """The processes that a process has started, and theirs."""
    found = set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except (FileNotFoundError, ProcessLookupError):
                continue
            if parent == pid:
                found |= {int(entry.name), *children(int(entry.name))}
    return found


def running(pid: int) -> bool:
    try:
        return (Path("/proc") / str(pid) / "stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def started(script: str, folder: Path, **more: str) -> subprocess.Popen[str]:
    path = folder / "script.py"
    path.write_text(script)
    return subprocess.Popen(
        [sys.executable, str(path)], cwd=more.pop("cwd", folder), stdout=subprocess.PIPE, text=True,
        env={**os.environ, **more}, start_new_session=True,
    )  # fmt: skip


def left_after(how: signal.Signals, folder: Path, seconds: float, **more: str) -> tuple[int, list[int]]:
    """Workers, and those that still run two seconds after their parent, killed `seconds` after they were started."""
    with started(SLEEPING, folder, **more) as parent:
        assert parent.stdout is not None
        parent.stdout.readline()
        until = time.monotonic() + 60
        while len(workers := children(parent.pid)) < 3 and time.monotonic() < until:
            time.sleep(0.05)
        time.sleep(seconds)
        workers = children(parent.pid)
        parent.send_signal(how)
        parent.wait()
    until = time.monotonic() + 2.0
    while any(map(running, workers)) and time.monotonic() < until:
        time.sleep(0.05)
    left = [pid for pid in workers if running(pid)]
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    return len(workers), left


@linux
@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_workers_end_with_their_parent(how: signal.Signals, tmp_path: Path) -> None:
    n, left = left_after(how, tmp_path, 2.0)
    assert n >= 3
    assert not left


@linux
@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_workers_that_are_just_starting_end_too(how: signal.Signals, tmp_path: Path) -> None:
    slow = "import sys, time\nif any('popen_loky' in word for word in sys.orig_argv):\n    time.sleep(20)\n"
    (tmp_path / "slow").mkdir()
    (tmp_path / "slow" / "sitecustomize.py").write_text(slow)  # as on a machine that has much else to do
    path = os.pathsep.join([str(tmp_path / "slow"), *filter(None, [os.environ.get("PYTHONPATH")])])
    n, left = left_after(how, tmp_path, 0.5, PYTHONPATH=path)
    assert n >= 3
    assert not left


def test_workers_import_nothing_from_the_current_folder(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    for name in ("numpy", "scipy", "random", "joblib", "sparsetd"):
        (tmp_path / "data" / f"{name}.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'a').write({name!r})\n")
    with started(SWEEPING, tmp_path, cwd=str(tmp_path / "data")) as run:
        assert run.wait(120) == 0
    assert not (tmp_path / "ran").exists()
    assert (tmp_path / "data" / "table" / "table.csv").exists()


def test_the_environment_is_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    for before in (None, "1"):
        monkeypatch.delenv(SAFE_PATH, raising=False)
        if before is not None:
            monkeypatch.setenv(SAFE_PATH, before)
        assert list(in_processes([delayed(abs)(-1), delayed(abs)(-2)], 1)) == [1, 2]
        assert os.environ.get(SAFE_PATH) == before
