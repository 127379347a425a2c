"""Any source gives the same log: files, frames, streams of Arrow, DuckDB and SQLite; ids are text everywhere."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sparsetd.cli import main
from sparsetd.logs import Transitions, concatenate, inspect, read, read_batches, shards, text
from sparsetd.logs.sharding import shard

N = 240


def columns(ids: Any = None) -> dict[str, Any]:
    """Sixty episodes of four rows."""
    rng = np.random.default_rng(0)
    of = np.arange(N) // 4
    return {
        "episode": of if ids is None else [ids[i] for i in of],
        "step": np.arange(N) % 4,
        "obs_a": rng.normal(size=N).round(4),
        "obs_b": rng.integers(0, 9, N),
        "action": rng.integers(0, 2, N),
        "reward": rng.normal(size=N).round(4),
        "terminated": np.arange(N) % 4 == 3,
    }


def same(a: Transitions, b: Transitions) -> bool:
    assert list(map(str, a.ids())) == list(map(str, b.ids()))
    for name in ("observation", "next_observation", "reward", "action", "terminated", "start", "episode"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name), err_msg=name)
    return a.names == b.names


def sqlite(folder: Path, frame: pd.DataFrame) -> Path:
    with sqlite3.connect(folder / "log.db") as connection:
        frame.to_sql("visits", connection, index=False)
    connection.close()
    return folder / "log.db"


def test_whatever_speaks_arrow_is_a_source() -> None:
    duckdb = pytest.importorskip("duckdb")
    frame, rows = pd.DataFrame(columns()), pa.table(columns())
    expected = read(columns())
    relation = duckdb.sql("SELECT * FROM rows")
    for source in (frame, rows, rows.to_reader(), pl.from_arrow(rows), pl.from_arrow(rows).lazy(), relation):
        assert same(read(source), expected), type(source)
    decimals = duckdb.sql("SELECT * REPLACE (CAST(obs_a AS DECIMAL(9, 4)) AS obs_a) FROM rows")
    assert same(read(decimals), expected)
    joined = concatenate(list(read_batches(pl.from_arrow(rows).lazy(), batch_rows=50)))
    assert same(joined, expected)


def test_a_table_or_a_query_of_sqlite_is_a_source(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, expected = sqlite(tmp_path, pd.DataFrame(columns())), read(columns())
    assert same(read(f"sqlite:{path}?table=visits"), expected)
    assert same(read(path, sql="SELECT * FROM visits"), expected)
    assert same(concatenate(list(read_batches(path, sql="SELECT * FROM visits", batch_rows=50))), expected)
    assert main(["inspect", str(path), "--sql", "SELECT * FROM visits WHERE episode < 5"]) == 0
    assert "20 transitions in 5 episodes" in capsys.readouterr().out
    assert main(["shard", f"sqlite:{path}?table=visits", "--out", str(tmp_path / "out"), "--shards", "2"]) == 0
    assert sum(len(part.read()) for part in shards(tmp_path / "out")) == N


@pytest.mark.parametrize(
    ("query", "sentence"),
    [
        ("DROP TABLE visits", "not authorized"),
        ("ATTACH 'other.db' AS other", "not authorized"),
        ("SELECT load_extension('x')", "not authorized"),
        ("SELECT * FROM nowhere", "no such table"),
        ("SELECT 1; SELECT 2", "one statement at a time"),
        (" ", "must look like"),
    ],
)
def test_a_query_can_only_read(query: str, sentence: str, tmp_path: Path) -> None:
    path = sqlite(tmp_path, pd.DataFrame(columns()))
    with pytest.raises(ValueError, match=sentence):
        read(path, sql=query)
    with pytest.raises(ValueError, match="holds tables: name one"):
        read(path)
    assert len(read(f"sqlite:{path}?table=visits")) == N
    assert not Path("other.db").exists()


IDS = [f"{i}" for i in range(20)] + [f"0{i}" for i in range(20)] + [str(2**53 + i) for i in range(19)] + ["3e7"]


def written(folder: Path, ids: Any) -> dict[str, Any]:
    """The same log as CSV, JSON lines and Parquet."""
    frame = pd.DataFrame(columns(ids))
    frame.to_csv(folder / "log.csv", index=False)
    frame.to_json(folder / "log.jsonl", orient="records", lines=True)
    pq.write_table(pa.table(columns(ids)), folder / "log.parquet")
    return {name: folder / f"log.{name}" for name in ("csv", "jsonl", "parquet")}


@pytest.mark.parametrize("ids", [IDS, list(range(60)), [2**53 + i for i in range(60)], [f"p{i}" for i in range(60)]])
def test_ids_and_parts_are_the_same_from_any_source(ids: Any, tmp_path: Path) -> None:
    chosen = set()
    for path in written(tmp_path, ids).values():
        log = read(path)
        assert [str(i) for i in log.ids()] == [str(i) for i in ids]
        chosen.add(tuple(map(str, log.part(1, 2).ids())))
    assert len(chosen) == 1


def test_long_numbers_beside_a_fraction_stay_apart_in_json(tmp_path: Path) -> None:
    rows = [{"obs_a": 0, "reward": 0, "done": 1, "episode": i} for i in (2**53, 2**53 + 1, 0.5)]
    (tmp_path / "log.jsonl").write_text("\n".join(map(json.dumps, rows)))
    assert read(tmp_path / "log.jsonl").ids().tolist() == [str(2**53), str(2**53 + 1), "0.5"]


def test_a_json_object_that_names_a_column_twice_is_refused(tmp_path: Path) -> None:
    (tmp_path / "log.jsonl").write_text('{"obs_a": 1, "reward": 0, "done": 1, "reward": 5}\n')
    with pytest.raises(ValueError, match="names 'reward' twice"):
        read(tmp_path / "log.jsonl")


def test_masked_entries_are_missing() -> None:
    log = columns()
    observed = np.ma.masked_array(log["obs_a"], mask=np.arange(N) == 7)
    with pytest.raises(ValueError, match="`obs_a` must be finite, but row 7"):
        read({**log, "obs_a": observed})
    after = np.ma.masked_array(np.roll(log["obs_a"], -1), mask=log["terminated"])
    t = read({**log, "next_obs_a": after, "next_obs_b": np.roll(log["obs_b"], -1)})
    np.testing.assert_array_equal(t.next_observation[~t.terminated, 0], after.compressed())
    assert same(read({**log, "obs_a": np.ma.masked_array(log["obs_a"])}), read(log))


def test_all_problems_of_a_table_are_told_at_once(tmp_path: Path) -> None:
    frame = pd.DataFrame(columns()).astype({"obs_b": object, "terminated": int})
    frame.loc[3, "obs_a"], frame.loc[5, "obs_b"], frame.loc[[6, 8], "reward"] = np.nan, "low", np.nan
    frame.loc[9, "terminated"] = 7
    frame.to_csv(tmp_path / "log.csv", index=False)
    with pytest.raises(ValueError, match="`obs_a` must be finite, but row 3") as caught:
        read(tmp_path / "log.csv")
    for part in ("`obs_b` must hold numbers, but row 5 holds 'low'", "row 6 holds nan (and at least 1 more", "row 9"):
        assert part in str(caught.value)


def test_a_column_that_is_whole_at_first_is_not_rounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [f"{i},{i % 3},{int(i == 199)}" for i in range(199)] + ["199,0.7,1"]
    (tmp_path / "log.csv").write_text("\n".join(["obs_a,reward,done", *lines]))
    expected = [*(i % 3 for i in range(199)), 0.7]
    for block in (64, 500, text.BLOCK):
        monkeypatch.setattr(text, "BLOCK", block)
        assert read(tmp_path / "log.csv").reward.tolist() == expected


@pytest.mark.parametrize("word", ["0x10", "1_0", "٣", "1,5"])
def test_what_only_looks_like_a_number_is_refused(word: str, tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text(f'obs_a,reward,done\n1,2,0\n"{word}",2,1\n')
    with pytest.raises((ValueError, TypeError), match="`obs_a` must hold numbers, but row 1"):
        read(tmp_path / "log.csv")


@pytest.mark.parametrize("block", [16, 40, 2**22])
def test_quotes_hold_separators_breaks_and_quotes(block: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text, "BLOCK", block)
    notes = ['5" disk', "two\nlines", 'she said "no", twice\n', "", "a,b", "plain"]
    frame = pd.DataFrame({"note": notes, "obs_a": range(6), "reward": range(6), "done": [1] * 6, "episode": notes})
    frame["episode"] = [f"{i} {note}" for i, note in enumerate(notes)]
    frame.to_csv(tmp_path / "log.csv", index=False)
    t = read(tmp_path / "log.csv")
    assert t.observation[:, 0].tolist() == list(range(6))
    assert t.ids().tolist() == frame["episode"].tolist()


def prepared(path: Path, names: tuple[str, ...], actions: list[str], first: int) -> Path:
    """A log whose actions are numbered as `names` are, as `prepare` writes it."""
    n = len(actions)
    log = {"obs_a": np.arange(n) + 0.5, "reward": np.arange(n) * 1.0, "terminated": np.ones(n, bool)}
    log |= {"episode": first + np.arange(n), "action": [names.index(a) for a in actions]}
    known = {b"sparsetd": json.dumps({"action_names": names}).encode()}
    pq.write_table(pa.table(log).replace_schema_metadata(known), path)
    return path


def done(log: Transitions) -> dict[str, str]:
    assert log.action_names is not None
    return {str(i): log.action_names[a] for i, a in zip(log.ids(), log.action, strict=True)}


def test_actions_are_joined_by_name_across_files_shards_and_parts(tmp_path: Path) -> None:
    (tmp_path / "raw").mkdir()
    one = prepared(tmp_path / "raw" / "a.parquet", ("aspirin", "none"), ["aspirin", "none", "none"], 0)
    two = prepared(tmp_path / "raw" / "b.parquet", ("heparin", "none"), ["heparin", "none", "heparin"], 3)
    expected = dict(zip("012345", ["aspirin", "none", "none", "heparin", "none", "heparin"], strict=True))
    assert done(read(tmp_path / "raw")) == expected
    assert done(concatenate([read(one), read(two)])) == expected
    assert done(concatenate(list(read_batches(tmp_path / "raw", batch_rows=3)))) == expected
    assert done(concatenate([part.read() for part in shards(tmp_path / "raw")])) == expected
    shard([one, two], tmp_path / "out", n_shards=2)
    assert done(concatenate([part.read() for part in shards(tmp_path / "out")])) == expected
    assert done(read(tmp_path / "out")) == expected
    other = tmp_path / "raw" / "c.parquet"
    pq.write_table(pq.read_table(two).replace_schema_metadata(None), other)
    with pytest.raises(ValueError, match=r"names its actions and .* does not"):
        read(tmp_path / "raw")


def test_lists_of_features_given_as_observations_are_questioned() -> None:
    rng = np.random.default_rng(0)
    log = {"reward": np.zeros(40), "terminated": np.ones(40, bool)}
    hashes = list(rng.integers(0, 2**20, (40, 24)))
    assert "--column indices=feat_hashes" in str(inspect({**log, "feat_hashes": hashes}, observation="feat_hashes"))
    board = list(rng.integers(0, 3, (40, 9)))
    assert "indices" not in str(inspect({**log, "board": board}, observation="board"))
    ragged = [list(range(i % 5)) for i in range(40)]
    with pytest.raises(ValueError, match="name sparse rows with `indices=`"):
        read(pa.table({**log, "feat_hashes": ragged}), observation="feat_hashes")
