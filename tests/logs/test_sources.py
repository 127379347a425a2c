"""Any source gives the same log: files, frames, streams of Arrow, DuckDB and SQLite; ids are text everywhere."""

from __future__ import annotations

import json
import sqlite3
import threading
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


def test_named_levels_of_an_index_are_columns() -> None:
    """pandas keeps episodes and steps in the index after `set_index` and `groupby`; its files have them as columns."""
    shuffled = pd.DataFrame(columns()).sample(frac=1, random_state=0)
    expected = read(shuffled)
    assert same(read(shuffled.set_index("episode")), expected)
    assert same(read(shuffled.set_index(["episode", "step"])), expected)
    assert same(read(shuffled.set_index("episode", drop=False)), expected)
    assert same(read(shuffled.rename_axis("row")), expected)
    patients = shuffled.rename(columns={"episode": "patient"}).set_index("patient")
    assert same(read(patients, episode="patient"), expected)


def test_one_text_is_one_id_even_where_a_dictionary_holds_it_twice() -> None:
    log = {"obs_x": [1.0, 2.0, 3.0, 4.0], "reward": [1.0] * 4, "terminated": [False, False, True, True]}
    codes = pa.array([0, 1, 2, 3], pa.int32())
    twice = pa.DictionaryArray.from_arrays(codes, pa.array(["a", "a", "a", "b"]))
    assert same(read(pa.table({**log, "episode": twice})), read(pa.table({**log, "episode": ["a", "a", "a", "b"]})))
    gap = pa.DictionaryArray.from_arrays(codes, pa.array(["a", None, "a", "b"]))
    with pytest.raises(ValueError, match="`episode` must be present, but row 1 holds None"):
        read(pa.table({**log, "episode": gap}))


def test_a_type_that_arrow_does_not_know_is_one_sentence() -> None:
    frame = pl.DataFrame(columns()).with_columns(pl.col("action").cast(pl.Int128))
    with pytest.raises(ValueError, match=r"The DataFrame is not readable as Arrow .*: change the types"):
        read(frame)


def test_large_whole_numbers_beside_floats_in_another_file_are_rounded(tmp_path: Path) -> None:
    large = 2**62 + 1
    for name, seconds in (("a", [large, large + 2**20]), ("b", [0.5, 1.5])):
        log = {"episode": [name] * 2, "obs_x": seconds, "reward": [0.0, 1.0], "terminated": [False, True]}
        pq.write_table(pa.table(log), tmp_path / f"{name}.parquet")
    assert read(tmp_path).observation[:, 0].tolist() == [float(large), float(large + 2**20), 0.5, 1.5]


@pytest.mark.parametrize("batch_rows", [100, 5000])
@pytest.mark.parametrize("how", ["error", "break", "whole", "column"])
def test_a_database_is_free_again_after_a_log_that_was_left_early(how: str, batch_rows: int, tmp_path: Path) -> None:
    """DuckDB opens a file again with other settings only when every result of the first connection is gone."""
    duckdb = pytest.importorskip("duckdb")
    connection = duckdb.connect(tmp_path / "log.duckdb")
    connection.execute(
        "CREATE TABLE visits AS SELECT i // 20 AS episode, i % 20 AS step, i AS obs_x, 1.0 AS reward, "
        "i = 90000 AS terminated FROM range(200000) rows(i)"
    )
    relation = connection.sql("SELECT * FROM visits ORDER BY episode, step")
    kept = None
    try:
        if how == "whole":
            read(relation, max_bytes=2**20)
        columns = {"reward": "score"} if how == "column" else {}
        for _ in read_batches(relation, batch_rows=batch_rows, **columns):
            if how == "break":
                break
    except ValueError as error:
        kept = error  # as a notebook keeps the last one, and with it everything that was under way
    assert (kept is None) == (how == "break")
    connection.close()
    del relation
    assert is_free(duckdb, tmp_path / "log.duckdb"), "the file is still in use"


def is_free(duckdb: Any, path: Path) -> bool:
    """Whether the file can be opened; DuckDB itself waits for ever where a result of it is still there."""
    opened: list[Any] = []
    thread = threading.Thread(target=lambda: opened.append(duckdb.connect(path, read_only=True)), daemon=True)
    thread.start()
    thread.join(30)
    for connection in opened:
        connection.close()
    return bool(opened)


def folder_of(tmp_path: Path, ending: str, second: dict[str, Any]) -> Path:
    """Two files of four rows in a folder; the second differs in some columns."""
    first = {"episode": [0, 0, 1, 1], "step": [0, 1, 0, 1], "obs_x": [1.0] * 4, "reward": [0.0] * 4, "done": [0, 1] * 2}
    for name, rows in (("a", first), ("b", first | second)):
        frame = pd.DataFrame(rows)
        path = tmp_path / f"{name}.{ending}"
        if ending == "csv":
            frame.to_csv(path, index=False)
        elif ending == "jsonl":
            frame.to_json(path, orient="records", lines=True)
        else:
            frame.to_parquet(path)
    return tmp_path


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
@pytest.mark.parametrize("reader", [read, lambda path: list(read_batches(path, batch_rows=3))])
def test_an_error_in_a_folder_names_the_file_and_the_row_in_it(ending: str, reader: Any, tmp_path: Path) -> None:
    second = {"episode": [2, 2, 3, 3], "reward": [0.0, 0.0, np.inf if ending != "jsonl" else None, 0.0]}
    with pytest.raises(ValueError, match=r"`reward` must be finite, but row 2 of b\..* holds"):
        reader(folder_of(tmp_path, ending, second))


def test_rows_that_are_wrong_together_are_named_with_their_files(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, "parquet", {"episode": [2, 2, 3, 1], "step": [0, 1, 0, 2], "done": [0, 1, 0, 0]})
    with pytest.raises(ValueError, match=r"holds in row 3 of a.parquet, but row 3 of b.parquet continues the same"):
        read(folder)
    with pytest.raises(ValueError, match=r"`episode` must keep .*, but row 3 of b.parquet returns to 1"):
        list(read_batches(folder))
    folder_of(tmp_path, "parquet", {"episode": [2, 2, 3, 1], "done": [0, 1, 0, 0]})
    with pytest.raises(ValueError, match=r"`step` must differ .*, but row 3 of b.parquet repeats step 1"):
        read(folder)


def test_a_damaged_line_in_a_folder_is_named_with_its_file(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, "csv", {"episode": [2, 2, 3, 3]})
    (folder / "b.csv").write_text((folder / "b.csv").read_text() + "4,0,1.0\n")
    with pytest.raises(ValueError, match=r"Row 4 of b.csv has 3 fields"):
        read(folder)
    (folder / "b.csv").unlink()
    first = '{"episode": 5, "step": 0, "obs_x": 1.0, "reward": 0.0, "done": 1}\n'
    (folder / "b.jsonl").write_text(first + "{\n")
    with pytest.raises(ValueError, match=r"Row 1 of b.jsonl is not valid JSON"):
        read(folder)


TIMES = ["2024-01-31T23:00:00", "2024-02-01T01:30:00", "2023-12-31T00:00:00", "2024-01-02T00:00:00"]


@pytest.mark.parametrize("kind", ["parquet", "seconds", "zone", "dates", "csv", "jsonl", "pandas", "pandas zone"])
def test_steps_may_be_times(kind: str, tmp_path: Path) -> None:
    """The third and fourth row belong to the first episode, before the first two."""
    rows = {"id": ["p"] * 4, "obs_x": [3.0, 4.0, 1.0, 2.0], "reward": [0.0] * 4, "done": [0, 1, 0, 0], "when": TIMES}
    roles = {"episode": "id", "step": "when"}
    times = pd.to_datetime(pd.Series(TIMES))
    arrow = {"parquet": pa.timestamp("us"), "seconds": pa.timestamp("s"), "zone": pa.timestamp("ms", "Europe/Vienna")}
    source: Any = tmp_path / f"log.{kind}"
    if kind == "csv":
        pd.DataFrame(rows).to_csv(source, index=False)
    elif kind == "jsonl":
        rows["when"] = [f"{time}+02:00" for time in TIMES]
        pd.DataFrame(rows).to_json(source, orient="records", lines=True)
    elif kind.startswith("pandas"):
        rows["when"] = times.dt.tz_localize("UTC") if "zone" in kind else times
        source = pd.DataFrame(rows)
    else:
        rows["when"] = pa.array(times).cast(arrow.get(kind, pa.timestamp("us"))) if kind != "dates" else times.dt.date
        source = tmp_path / "log.parquet"
        pq.write_table(pa.table(rows), source)
    assert read(source, **roles).observation[:, 0].tolist() == [1.0, 2.0, 3.0, 4.0]


def test_times_order_the_rows_of_a_sparse_log_on_the_command_line(tmp_path: Path, capsys: Any) -> None:
    times = pa.array(pd.to_datetime(pd.Series(TIMES)))
    rows = {"user": [7] * 4, "indices": [[3], [4], [1], [2]], "reward": [0.0] * 4, "done": [0, 1, 0, 0], "when": times}
    pq.write_table(pa.table(rows), tmp_path / "log.parquet")
    roles = ["--column", "episode=user", "--column", "step=when", "--n-features", "9"]
    assert main(["shard", str(tmp_path / "log.parquet"), "--out", str(tmp_path / "shards"), *roles]) == 0
    (part,) = shards(tmp_path / "shards")
    assert part.read(sparse=True).observation.indices.tolist() == [1, 2, 3, 4]
    assert main(["inspect", str(tmp_path / "shards")]) in (0, 1)
    capsys.readouterr()


def test_times_of_a_csv_file_may_have_parts_of_a_second(tmp_path: Path) -> None:
    times = ["2026-11-01T00:04:58.523952", "2026-11-01T00:03:58", "2026-11-01T00:05:58.1", "2026-11-01T00:09:58"]
    rows = [f"{'aabb'[i]},{time},{i},1,{i in (0, 3):d}" for i, time in enumerate(times)]
    path = tmp_path / "log.csv"
    path.write_text("\n".join(["episode,at,obs_x,reward,terminated", *rows]))
    assert read(path, step="at").observation.ravel().tolist() == [1, 0, 2, 3]


def test_times_that_are_missing_too_far_or_beside_numbers_are_refused(tmp_path: Path) -> None:
    rows: dict[str, Any] = {"obs_x": [1.0, 2.0], "reward": [0.0, 0.0], "done": [0, 1]}
    missing = pa.array([1, None], pa.timestamp("s"))
    with pytest.raises(ValueError, match="`step` must be present, but row 1 holds"):
        read(pa.table(rows | {"step": missing}))
    far = pa.array([0, 10**12], pa.timestamp("s"))
    with pytest.raises(ValueError, match="`step` must be between the years 1678 and 2261, but row 1 holds"):
        read(pa.table(rows | {"step": far}))
    with pytest.raises(TypeError, match="`step` must hold numbers, but row 0 holds 'soon'"):
        read(rows | {"step": ["soon", "later"]})
    pq.write_table(pa.table(rows | {"step": [0, 1]}), tmp_path / "a.parquet")
    pq.write_table(pa.table(rows | {"step": pa.array([1, 2], pa.timestamp("s"))}), tmp_path / "b.parquet")
    for reader in (read, lambda path: list(read_batches(path))):
        with pytest.raises(ValueError, match="`step` holds times in some parts"):
            reader(tmp_path)


@pytest.mark.parametrize("encoding", ["latin-1", "cp1250", "utf-16", "utf-16-be", "utf-8-sig"])
@pytest.mark.parametrize("separator", [";", "|"])
def test_a_csv_file_may_have_any_of_the_usual_encodings(encoding: str, separator: str, tmp_path: Path) -> None:
    """Names and ids are the same as in UTF-8, in blocks of any size, and `inspect` says what was decided."""
    ids = ["żółć", "świerk", "łąka"] if encoding == "cp1250" else ["Müller", "José", "Zoë"]
    rows = {"episode": np.repeat(ids, 40), "obs_größe" if encoding != "cp1250" else "obs_wiek": np.arange(120)}
    frame = pd.DataFrame(rows | {"reward": 0.5, "done": np.arange(120) % 40 == 39})
    frame.to_csv(tmp_path / "plain.csv", index=False)
    path = tmp_path / "log.csv"
    path.write_bytes(frame.to_csv(index=False, sep=separator).encode(encoding))
    expected = read(tmp_path / "plain.csv")
    for block in (64, 4 * 2**20):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(text, "BLOCK", block)
            assert same(read(path), expected)
            assert concatenate(list(read_batches(path, batch_rows=7))).ids().tolist() == ids
    said = any("was read as" in line for line in inspect(path).understood)
    assert said == (encoding != "utf-8-sig")


def test_a_csv_file_whose_lines_end_in_returns_only(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_bytes(b"obs_x,reward,done\r1,0,0\r2,1,1\r")
    assert read(tmp_path / "log.csv").observation[:, 0].tolist() == [1, 2]
