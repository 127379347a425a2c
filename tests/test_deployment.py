"""Where it runs: a read-only installation, little memory."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest
from test_cli_log import rows, write

from sparsetd._tools import memory
from sparsetd.cli import main
from sparsetd.logs import Shard, files, read
from sparsetd.logs.door import HEAD, extent

READ_ONLY = """
import warnings
from numba.core import caching
caching.FunctionCache._impl_class._locator_classes = []  # as where neither the package nor HOME can be written
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("default")
    from sparsetd.solvers.compiled.compile import njit
    import sparsetd.control, sparsetd.estimators
    print(njit(lambda x: 2 * x, cache=True)(21))
assert [str(w.message).split(",")[0] for w in told] == ["Compiled code cannot be kept"], told
"""


def test_kernels_compile_where_nothing_can_be_kept() -> None:
    env = {**os.environ, "PYTHONWARNINGS": "default"}
    done = subprocess.run([sys.executable, "-c", READ_ONLY], capture_output=True, text=True, env=env, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "42\n"


def test_the_least_of_all_limits_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "CGROUP", tmp_path)
    monkeypatch.setattr(memory, "MEMINFO", tmp_path / "meminfo")
    (tmp_path / "meminfo").write_text("MemTotal: 9000000 kB\nMemAvailable: 6000000 kB\nSwapFree: 2000000 kB\n")
    assert memory.available() == 8e6 * 1024
    for name, text in [("max", "3000"), ("current", "2500"), ("stat", "anon 1500\ninactive_file 1000\n")]:
        (tmp_path / f"memory.{name}").write_text(text)
    assert memory.available() == 1500
    (tmp_path / "memory.max").write_text("max\n")
    assert memory.available() == 8e6 * 1024
    (tmp_path / "memory").mkdir()
    for name, text in [("limit_in_bytes", "700"), ("usage_in_bytes", "900"), ("stat", "total_inactive_file 50")]:
        (tmp_path / "memory" / f"memory.{name}").write_text(text)
    assert memory.available() == 0
    monkeypatch.undo()
    assert 0 < memory.available() < 2**50


def test_a_limit_of_the_process_counts() -> None:
    script = "from sparsetd._tools import memory; print(memory.available())"
    line = f'ulimit -v 4000000; "{sys.executable}" -c "{script}"'
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=False)
    assert 0 < float(done.stdout) < 4000000 * 1024


def written(folder: Path, ending: str) -> str:
    """A log of 200 rows with 2 observed columns, in each kind of file."""
    path, table = folder / f"log.{ending}", rows()
    if ending == "csv":
        return write(path, table)
    if ending == "jsonl":
        path.write_text("".join(json.dumps({k: float(v) for k, v in row.items()}) + "\n" for row in table))
        return str(path)
    columns = {name: np.array([float(row[name]) for row in table]) for name in table[0]}
    if ending == "lists.parquet":
        columns["observation"] = np.column_stack([columns.pop("obs_a"), columns.pop("obs_b")]).tolist()
        columns["next_observation"] = np.column_stack([columns.pop("next_obs_a"), columns.pop("next_obs_b")]).tolist()
    pa.parquet.write_table(pa.table(columns), path, row_group_size=70)
    return str(path)


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet", "lists.parquet"])
def test_evaluate_says_what_it_needs_before_it_reads(ending, tmp_path, monkeypatch, capsys) -> None:
    log = written(tmp_path, ending)
    assert extent(log) == (200 + (ending == "csv"), 2)
    monkeypatch.setattr(memory, "available", lambda: memory.for_evaluation(200, 2) - 1)
    monkeypatch.setattr(Shard, "read", lambda _: pytest.fail("it was read"))
    assert main(["evaluate", log]) == 1
    told = r"not enough memory \(to evaluate about 20[01] rows of 2 columns takes about 0\.0 GiB, but 0\.0 GiB are free"
    assert re.search(told, capsys.readouterr().err)


def test_a_log_that_tells_its_size_only_when_read_is_measured_then(tmp_path, monkeypatch, capsys) -> None:
    names = {name: np.array([float(row[name]) for row in rows()]) for name in rows()[0]}
    np.savez(tmp_path / "log.npz", **names)
    monkeypatch.setattr(memory, "available", lambda: memory.for_evaluation(200, 2) - 1)
    monkeypatch.setattr("sparsetd.evaluation.evaluate", lambda *_, **__: pytest.fail("it began"))
    assert main(["evaluate", str(tmp_path / "log.npz")]) == 1
    assert "to evaluate about 200 rows of 2 columns" in capsys.readouterr().err


def test_the_rows_of_a_long_text_are_judged_by_the_first(tmp_path) -> None:
    log = write(tmp_path / "log.csv", rows(episodes=1000))
    assert Path(log).stat().st_size > 5 * HEAD
    assert extent(log)[0] == pytest.approx(5000, rel=0.02)
    assert extent(tmp_path, observation=["obs_a", "obs_b", "next_obs_a"], next_observation=None)[1] == 3


def test_evaluate_speaks_of_much_memory(tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.setattr(memory, "GIB", memory.for_evaluation(100, 2))
    words = ["evaluate", written(tmp_path, "parquet"), "--features", "none", "--all-features", "--n-resamples", "0"]
    assert main(words) == 0
    assert "this takes up to 2.0 GiB of memory" in capsys.readouterr().err


@pytest.mark.parametrize("ending", ["parquet", "arrow", "npz"])
def test_too_little_memory_is_not_an_unreadable_file(ending, tmp_path, monkeypatch, capsys) -> None:
    path = tmp_path / f"log.{ending}"
    table = pa.table({"obs_a": [1.0, 2.0], "reward": [1.0, 2.0], "terminated": [0, 1]})
    if ending == "parquet":
        pa.parquet.write_table(table, path)
    elif ending == "arrow":
        pa.feather.write_feather(table, path)
    else:
        np.savez(path, **{name: table[name].to_numpy() for name in table.column_names})
    assert len(read(path)) == 2

    def fails(*_args: object) -> None:
        raise pa.ArrowMemoryError("malloc of size 7000000000 failed")

    monkeypatch.setattr(*{"npz": (files, "_refuse_bomb")}.get(ending, (files, "raw_of")), fails)
    with pytest.raises(MemoryError if ending == "npz" else ValueError, match="malloc of size 7000000000 failed"):
        read(path)
    assert main(["inspect", str(path)]) == (1 if ending == "npz" else 2)
    assert re.search(r"not enough memory|takes more memory than there is", capsys.readouterr().err)
