"""Kill runs at random moments, again and again, until they are through: the bytes must be those of an undisturbed run.

    cd tests && python -m kills --kills 500
    cd tests && python -m kills --kills 200 --victims processes sweeping

The victims are `shard` (its driver), `reduced` in one process, `reduced` with processes (the driver, or one worker) and
on a Dask cluster (the driver, a worker under its nanny, or the scheduler with everything), and `sweep` in one process,
and with processes (the driver, or one worker). A driver gets SIGTERM or SIGKILL, and the processes that it had started
must end by themselves: within two seconds, or as soon as one that was just being started has been.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from shard_sums import slow_sums

from sparsetd import TDC, sweep
from sparsetd.logs import shards
from sparsetd.logs.engines import Processes, Serial, reduced
from sparsetd.logs.sharding import shard
from sparsetd.problems import random_walk

N_SHARDS, SECONDS = 12, 0.02
LASTED: list[float] = []  # seconds that processes ran on after their driver was killed
SHARES = {"shard": 0.45, "serial": 0.45, "processes": 0.03, "worker": 0.03, "dask": 0.04}
SHARES |= {"sweep": 0.4, "swept": 0.02, "sweeping": 0.02}
LONGEST: dict[str, float] = {}  # seconds that a run of each victim takes: a kill comes before its end
QUICK = ("shard", "serial", "sweep")
SWEEPS = ("sweep", "swept", "sweeping")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--victims", nargs="*", choices=list(SHARES), help="that share the kills alike (default: all)")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        for victim in args.victims or SHARES:
            n = max(1, round(args.kills * (1 / len(args.victims) if args.victims else SHARES[victim])))
            runs = killed_and_compared(victim, n, random.Random(args.seed), Path(name))
            rest = f"; the last process ended after {max(LASTED, default=0.0):.1f} s" if LASTED else ""
            print(f"{victim:10s} {n:5d} kills in {runs:4d} runs, same bytes{rest}", flush=True)
            LASTED.clear()
    return 0


def killed_and_compared(victim: str, n: int, rng: random.Random, work: Path) -> int:
    """The number of runs that came through with the right bytes while n others were killed."""
    if victim in SWEEPS:
        sweep(TDC(), {"step_size": [0.1]}, random_walk(), n_rows=40, n_jobs=1)  # compiled before anything is forked
    elif not (work / "shards").exists():
        finished("log", work, work / "none")
        finished("shard", work, work / "shards")
    right = finished("shard" if victim == "shard" else "sweep" if victim in SWEEPS else "serial", work, work / "right")
    shutil.rmtree(work / "right")
    runs, left = 0, n
    while left > 0:
        out = work / "out"
        shutil.rmtree(out, ignore_errors=True)
        digest, killed = dask(work, out, rng, left) if victim == "dask" else survived(victim, work, out, rng, left)
        assert digest == right, f"{victim}: other bytes"
        runs, left = runs + 1, left - killed
    return runs


def survived(what: str, work: Path, out: Path, rng: random.Random, n: int, *words: str) -> tuple[str, int]:
    """Start and kill until a run comes through, or after n kills leave it alone; its digest and the kills."""
    longest, killed = LONGEST.get(what, 0.5 if what in QUICK else 8.0), 0
    find: Callable[[int], list[int]] | None = loky_workers if what in ("worker", "swept") else None
    while killed < n:
        begun, run = time.monotonic(), started(what, work, out, *words)
        code = ended(run, rng.uniform(0.0, longest))
        if code == 0:  # a later kill would have missed it
            LONGEST[what] = longest = time.monotonic() - begun
        if code is None:
            victims = [run] if find is None else find(run)
            how = signal.SIGKILL if find is not None else rng.choice([signal.SIGTERM, signal.SIGKILL])
            killed += bool(victims) and stopped(rng.choice(victims), how)
            code = ended(run, 120.0)
            LASTED.append(lasted(run))
        if code == 0:
            return (out.parent / "digest").read_text(), killed
    return finished(what, work, out, *words), killed


def finished(what: str, work: Path, out: Path, *words: str) -> str:
    """The digest of a run that nobody kills."""
    assert ended(started(what, work, out, *words), 600.0) == 0, f"{what} failed"
    return (out.parent / "digest").read_text()


def started(what: str, work: Path, out: Path, *words: str) -> int:
    """A fork of this process, in a session of its own, that writes the digest of its result to work/digest."""
    pid = os.fork()
    if pid:
        return pid
    os.setsid()
    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, 1)
    os.dup2(silence, 2)
    try:
        (work / "digest").write_text(hashlib.sha256(result(what, work, out, *words)).hexdigest())
    except BaseException:
        os._exit(1)
    os._exit(0)


def result(what: str, work: Path, out: Path, *words: str) -> bytes:
    if what == "log":
        return write_log(work / "log.parquet")
    if what == "shard":
        shard([work / "log.parquet"], out, n_shards=N_SHARDS, memory=4_000)
        return b"".join(file.read_bytes() for file in sorted(out.glob("*.parquet")))
    if what in SWEEPS:
        grid = {"step_size": np.geomspace(0.001, 0.5, 120)}
        sweep(TDC(), grid, random_walk(), n_rows=40, n_jobs=1 if what == "sweep" else 2, out=out)
        return b"".join(file.read_bytes() for file in sorted(out.rglob("*.*")))
    engine: Any = Serial() if what == "serial" else Processes(2)
    if what == "dask":
        from sparsetd.logs.dask import Dask

        engine = Dask(words[0])
    return bytes(reduced(slow_sums, shards(work / "shards"), (SECONDS,), engine=engine, folder=out))


def write_log(path: Path) -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(0)
    of = rng.permutation(np.repeat(np.arange(100), 6))
    columns = {f"obs_{j}": rng.normal(size=len(of)) for j in range(4)}
    pq.write_table(pa.table({"episode": of, "reward": np.zeros(len(of)), **columns}), path)
    return b""


def ended(pid: int, seconds: float) -> int | None:
    """How a process ended, or None if it runs after so many seconds."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.005)
    return None


def lasted(session: int) -> float:
    """Seconds until no process of a session runs any more."""
    began = time.monotonic()
    while members(session):
        assert time.monotonic() < began + 30.0, "a process is left"
        time.sleep(0.02)
    return time.monotonic() - began


def members(session: int) -> list[int]:
    """The processes of a session that run."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split() if entry.name.isdigit() else []
        except OSError:
            continue
        if fields and int(fields[3]) == session and fields[0] != "Z":
            found.append(int(entry.name))
    return found


def stopped(pid: int, how: signal.Signals = signal.SIGKILL) -> bool:
    try:
        os.kill(pid, how)
    except ProcessLookupError:
        return False
    return True


def children(parent: int, word: bytes) -> list[int]:
    """The processes that a process started and whose command line has this word, by the system's own table."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split() if entry.name.isdigit() else []
            if fields and int(fields[1]) == parent and word in (entry / "cmdline").read_bytes():
                found.append(int(entry.name))
        except OSError:
            continue
    return found


def loky_workers(parent: int) -> list[int]:
    return children(parent, b"popen_loky_posix")


def dask(work: Path, out: Path, rng: random.Random, n: int) -> tuple[str, int]:
    """In turn: the driver, a worker, and the scheduler with its workers, which are then started again."""
    killed = 0
    with Cluster() as cluster:
        for turn in range(n):
            run = started("dask", work, out, cluster.address)
            code = ended(run, rng.uniform(0.0, 3.0))
            if code is None:
                if turn % 3 == 0:
                    killed += stopped(run)
                elif turn % 3 == 1:
                    workers = cluster.workers()
                    killed += bool(workers) and stopped(rng.choice(workers))
                else:
                    cluster.restarted()
                    killed += stopped(run)
                code = ended(run, 120.0)
        return finished("dask", work, out, cluster.address), max(killed, 1)


class Cluster:
    """`dask scheduler` and two `dask worker`s under nannies, on localhost."""

    def __init__(self) -> None:
        self.file = Path(tempfile.mkdtemp()) / "scheduler.json"
        self.processes: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Cluster:
        self.restarted()
        return self

    def __exit__(self, *_: object) -> None:
        for process in self.processes:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def restarted(self) -> None:
        self.__exit__()
        self.file.unlink(missing_ok=True)
        at = ["--scheduler-file", str(self.file)]
        self.processes = [self._started("scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard", *at)]
        while not self.file.exists():
            time.sleep(0.05)
        self.address = json.loads(self.file.read_text())["address"]
        self.processes.append(self._started("worker", "--nworkers", "2", "--nthreads", "1", "--no-dashboard", *at))

    def _started(self, role: str, *words: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "dask", role, *words]
        return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)

    def workers(self) -> list[int]:
        return children(self.processes[-1].pid, b"spawn_main")


if __name__ == "__main__":
    raise SystemExit(main())
