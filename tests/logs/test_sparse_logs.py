"""A log of sparse rows (lists of indices and values) is the same log as its dense columns, in every command."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from sparsetd import LSTD, TD, TDC, ValueFunction, evaluate, load
from sparsetd.cli import main
from sparsetd.estimators import fit_stream
from sparsetd.logs import concatenate, inspect, read, read_batches, shards
from sparsetd.logs.sharding import dense

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

WIDTH, EPISODES, STEPS = 40, 60, 6


def columns(rng: np.random.Generator) -> tuple[dict, np.ndarray]:
    n = EPISODES * STEPS
    dense = rng.normal(size=(n, WIDTH)) * (rng.random((n, WIDTH)) < 0.2)
    dense[:, 0] = 1.0
    dense[0, WIDTH - 1] = 0.5
    log = {"reward": dense[:, 1] + 0.1 * rng.normal(size=n), "episode": np.repeat(np.arange(EPISODES), STEPS)}
    log |= {"step": np.tile(np.arange(STEPS), EPISODES), "action": rng.integers(0, 2, n)}
    log |= {"terminated": np.tile(np.arange(STEPS) == STEPS - 1, EPISODES), "behavior_prob": np.full(n, 0.5)}
    return log | {"target_prob": np.where(log["action"] == 1, 0.7, 0.3)}, dense


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The same rows: dense, sparse in one file, and sparse in a folder of three files of whole episodes."""
    folder = tmp_path_factory.mktemp("logs")
    log, dense = columns(np.random.default_rng(0))
    at = [np.flatnonzero(row) for row in dense]
    lists = {"indices": at, "values": [row[i] for row, i in zip(dense, at, strict=True)]}
    pq.write_table(pa.table(log | {f"obs_{j}": dense[:, j] for j in range(WIDTH)}), folder / "dense.parquet")
    table = pa.table(log | {name: pa.array(rows) for name, rows in lists.items()})
    pq.write_table(table, folder / "sparse.parquet", row_group_size=50)
    (folder / "parts").mkdir()
    for k in range(3):
        third = len(table) // 3
        pq.write_table(table.slice(k * third, third), folder / "parts" / f"part-{k}.parquet")
    found = {name: str(folder / f"{name}.parquet") for name in ("dense", "sparse")}
    return found | {"folder": str(folder / "parts"), "pattern": str(folder / "parts" / "*.parquet")}


@pytest.mark.parametrize("name", ["sparse", "folder", "pattern"])
def test_the_rows_are_those_of_the_dense_log(logs: dict[str, str], name: str) -> None:
    full, sparse = read(logs["dense"]), read(logs[name])
    np.testing.assert_array_equal(sparse.observation.toarray(), full.observation)
    np.testing.assert_array_equal(sparse.next_observation.toarray(), full.next_observation)
    for column in ("reward", "terminated", "episode", "start", "target_prob"):
        np.testing.assert_array_equal(getattr(sparse, column), getattr(full, column))
    batches = concatenate(list(read_batches(logs[name], batch_rows=37)))
    np.testing.assert_array_equal(batches.observation.toarray(), full.observation)
    narrow = read(logs[name], buckets=7)
    assert sp.issparse(narrow.observation)
    np.testing.assert_allclose(
        narrow.observation.toarray(), full.observation @ np.eye(7)[np.arange(WIDTH) % 7], atol=1e-12
    )
    assert len(sparse.to_frame()) == len(full)


def test_values_that_a_model_was_fitted_with_are_asked_for(logs: dict[str, str], tmp_path: Path, capsys) -> None:
    table = pq.read_table(logs["sparse"]).rename_columns({"indices": "hashes", "values": "sizes"})
    pq.write_table(table, tmp_path / "log.parquet")
    source, model, named = str(tmp_path / "log.parquet"), str(tmp_path / "m"), ["--column", "indices=hashes"]
    settings = ["--method", "TDC", "--gamma", "0.9", "--quiet"]
    assert main(["fit", source, "--out", model, *named, "--column", "values=sizes", *settings]) == 0
    assert main(["predict", model, source]) == 0  # it remembers how the columns were called
    pq.write_table(table.rename_columns({"sizes": "weights"}), tmp_path / "other.parquet")
    assert main(["predict", model, str(tmp_path / "other.parquet")]) == 2
    assert main(["shard", source, "--out", str(tmp_path / "shards"), *named, "--column", "values=sizes"]) == 0
    assert main(["predict", model, str(tmp_path / "shards"), "--quiet"]) == 0
    assert "name it with --column values=NAME" in capsys.readouterr().err


def test_shard_says_what_it_leaves_out_and_knows_the_role_of_a_column(
    logs: dict[str, str], tmp_path: Path, capsys
) -> None:
    table = pq.read_table(logs["dense"]).rename_columns({"target_prob": "new_p"})
    pq.write_table(table.append_column("note", pa.array(["x"] * len(table))), tmp_path / "log.parquet")
    folder = str(tmp_path / "shards")
    assert main(["shard", str(tmp_path / "log.parquet"), "--out", folder, "--column", "target_prob=new_p"]) == 0
    assert (
        "left out, because they have no role: 'note' (--column ROLE=NAME gives one; shards hold one policy's"
        in capsys.readouterr().out
    )
    found = evaluate(folder, "target_prob", gamma=0.9, features=None, n_resamples=0)
    assert found.value == pytest.approx(
        evaluate(logs["dense"], gamma=0.9, features=None, n_resamples=0).value, rel=1e-9
    )


@pytest.mark.parametrize("name", ["sparse", "folder", "pattern"])
def test_fit_and_predict_give_the_values_of_the_dense_log(logs, name: str, tmp_path: Path, capsys) -> None:
    settings = ["--method", "LSTD", "--set", "alpha=0.01", "--gamma", "0.9", "--features", "raw", "--quiet"]
    for source in ("dense", name):
        assert main(["fit", logs[source], "--out", str(tmp_path / source), *settings]) == 0
        assert main(["predict", str(tmp_path / source), logs[source], "--out", str(tmp_path / f"{source}.csv")]) == 0
    values = [np.genfromtxt(tmp_path / f"{s}.csv", delimiter=",", names=True)["value"] for s in ("dense", name)]
    np.testing.assert_allclose(*values, rtol=1e-8)
    capsys.readouterr()


def test_a_model_refuses_hashes_that_none_of_its_features_has(tmp_path: Path, capsys) -> None:
    rng, n, model = np.random.default_rng(1), 300, str(tmp_path / "m.sparsetd")
    known = rng.integers(0, 60, (n, 3))
    for name, hashes in {"known": known, "others": known + 100}.items():
        lists = {"h": hashes.tolist(), "v": np.ones((n, 3)).tolist()}
        rows = pa.table({**lists, "uid": np.repeat(np.arange(n // 3), 3), "clicked": rng.random(n)})
        pq.write_table(rows, tmp_path / f"{name}.parquet")
    roles = [f"--column={role}" for role in ("indices=h", "values=v", "episode=uid", "reward=clicked")]
    source, folder = str(tmp_path / "known.parquet"), str(tmp_path / "shards")
    assert main(["shard", source, "--out", folder, *roles, "--n-features", "64"]) == 0
    assert main(["fit", folder, "--method", "TD", "--out", model]) == 0
    assert "no row is marked as terminated" in capsys.readouterr().err
    assert main(["predict", model, source]) == 0  # the roles that were named for the shards are known
    assert main(["fit", source, "--init", model, "--out", str(tmp_path / "n.sparsetd")]) == 0  # and so is the width
    capsys.readouterr()
    assert main(["predict", model, str(tmp_path / "others.parquet")]) == 2
    assert "outside 0 … 63" in capsys.readouterr().err


def test_a_fold_is_remembered_by_the_model(logs, tmp_path: Path, capsys) -> None:
    model, settings = str(tmp_path / "m"), ["--method", "LSTD", "--gamma", "0.9", "--features", "raw", "--quiet"]
    assert main(["fit", logs["folder"], "--out", model, "--buckets", "5", *settings]) == 0
    capsys.readouterr()
    assert main(["predict", model, logs["folder"], "--json"]) == 0
    log = dense(read(logs["sparse"], buckets=5))
    expected = ValueFunction(None, LSTD(gamma=0.9, fit_intercept=True)).fit(log).value(log.observation)
    np.testing.assert_allclose(json.loads(capsys.readouterr().out)["values"], expected, rtol=1e-8)


def test_a_feature_that_the_fit_never_saw_has_no_weight(logs, tmp_path: Path) -> None:
    assert main(["fit", logs["sparse"], "--out", str(tmp_path / "m"), "--method", "TDC", "--quiet"]) == 0
    model, rows = load(tmp_path / "m"), read(logs["sparse"]).observation
    wider = sp.hstack([rows, sp.csr_array(np.ones((rows.shape[0], 9)))], format="csr")
    np.testing.assert_array_equal(model.value(wider), model.value(rows))


@pytest.mark.parametrize("name", ["sparse", "folder"])
def test_evaluate_needs_few_columns_and_then_works(logs, name: str) -> None:
    with pytest.raises(ValueError, match="--buckets 512"):
        evaluate(shards(logs[name], n_features=100_000), gamma=0.9)
    for few in ({}, {"buckets": 8})[name == "folder" :]:  # 40 features of 360 rows are too many for shards
        expected = dense(read(logs["sparse"], **few))
        parts = shards(logs[name], **few)
        assert len(parts) == (3 if name == "folder" else 1)
        found, whole = evaluate(parts, gamma=0.9, n_resamples=0), evaluate(expected, gamma=0.9, n_resamples=0)
        np.testing.assert_allclose([found.value, *found.interval], [whole.value, *whole.interval], rtol=1e-6)


def test_the_command_folds_and_reports(logs, tmp_path: Path, capsys) -> None:
    page = tmp_path / "page.html"
    words = ["evaluate", logs["pattern"], "--target", "target_prob", "--gamma", "0.9", "--buckets", "8", "--quiet"]
    assert main([*words, "--report", str(page)]) == 0
    assert page.exists()
    assert main(["evaluate", logs["dense"], "--buckets", "8", "--quiet"]) == 2
    assert "leave it out" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["sparse", "folder"])
def test_inspect_counts_the_features(logs, name: str) -> None:
    found = inspect(logs[name])
    assert found.error is None
    assert "numbered 0 to 39." in found.understood[1]
    assert found.n_rows == inspect(logs["dense"]).n_rows


def test_a_pattern_is_a_stream_too(logs) -> None:
    streamed, whole = TDC(gamma=0.9), read(logs["sparse"])
    fit_stream(streamed, read_batches(logs["pattern"], n_features=WIDTH, batch_rows=37))
    discount = np.where(whole.terminated, 0.0, 0.9)
    columns = {"ratio": whole.importance_ratio(), "discount": discount, "start": whole.start}
    at_once = TDC(gamma=0.9).fit(whole.observation, whole.reward, whole.next_observation, **columns)
    np.testing.assert_array_equal(streamed.coef_, at_once.coef_)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"values": [[np.nan]]}, "must be finite"),
        ({"indices": [[-1]]}, "the index -1 in"),
        ({"indices": [[2**40]]}, "the index 1,099,511,627,776 in"),
    ],
)
def test_bad_lists_are_refused_by_row(change: dict, said: str, tmp_path: Path) -> None:
    rows = {"indices": [[0], [1]], "values": [[1.0], [2.0]], "reward": [0.0, 1.0], "terminated": [False, True]}
    rows |= {name: [rows[name][0], *entry] for name, entry in change.items()}
    pq.write_table(pa.table(rows), tmp_path / "log.parquet")
    with pytest.raises(ValueError, match=rf"{said}.*row 1"):
        read(tmp_path / "log.parquet")


ROWS = [[3, 1], [], [0, 4, 2]]


def written(path: Path, column, **more) -> Path:
    n = len(column)
    pq.write_table(pa.table({"indices": column, "reward": [1.0] * n, "terminated": [True] * n} | more), path)
    return path


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "log.parquet"


@pytest.mark.parametrize("entry", [pa.int8(), pa.int32(), pa.int64(), pa.uint8(), pa.uint64()])
@pytest.mark.parametrize("kind", [pa.list_, pa.large_list])
def test_every_type_of_index_is_read(path: Path, entry, kind) -> None:
    rows = read(written(path, pa.array(ROWS, type=kind(entry))), n_features=5).observation
    assert rows.indices.tolist() == [3, 1, 0, 4, 2]
    assert rows.indptr.tolist() == [0, 2, 2, 5]
    assert rows.indices.dtype == np.int32


def test_lists_of_one_length_and_lists_of_text_files_are_read(path: Path, tmp_path: Path) -> None:
    expected = [[0, 1, 0, 1, 0], [1, 0, 1, 0, 0]]
    fixed = read(written(path, pa.array([[3, 1], [2, 0]], type=pa.list_(pa.int32(), 2))), n_features=5)
    assert fixed.observation.toarray().tolist() == expected
    (tmp_path / "log.csv").write_text('indices,reward,done\n"[3, 1]",1,1\n"[2, 0]",1,1\n')
    lines = [json.dumps({"indices": row, "reward": 1, "done": 1}) for row in ([3, 1], [2, 0])]
    (tmp_path / "log.jsonl").write_text("\n".join(lines))
    for name in ("log.csv", "log.jsonl"):
        assert read(tmp_path / name, n_features=5).observation.toarray().tolist() == expected


@pytest.mark.parametrize("index", [5, -1, 2**32 + 1])
def test_an_index_out_of_range_is_refused(path: Path, index: int) -> None:
    rows = pa.array([[1], [2, 3], [4], [], [0, index], [index]], type=pa.list_(pa.int64()))
    with pytest.raises(ValueError, match=r"`indices` has the index .* in row 4, outside 0 … 4: hash"):
        list(read_batches(written(path, rows), batch_rows=3, n_features=5))


@pytest.mark.parametrize(
    ("column", "sentence"),
    [
        (
            pa.array([1, 2]),
            "`indices` has the type int64, but each of its rows must be a list of integers: store it as Parquet",
        ),
        (pa.array([[1.0], [2.0]]), "`indices` has the type list.*double.*, but its lists must hold integers"),
        (
            pa.array([[1], None]),
            r"`indices` has missing entries \(first in row 1\): a row without features is an empty",
        ),
        (pa.array([[1, None]]), r"`indices` has missing entries \(first in row 0\)"),
    ],
)
def test_what_is_no_list_of_integers_is_refused(path: Path, column, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        read(written(path, column))


def test_values_belong_to_indices_row_by_row(path: Path) -> None:
    log = read(written(path, pa.array(ROWS), values=[[0.5, 2.0], [], [1.0, 3.0, 4.0]]))
    assert log.observation.toarray()[2].tolist() == [1.0, 0, 4.0, 0, 3.0]
    with pytest.raises(ValueError, match="`values` and `indices` differ in length in row 1"):
        read(written(path, pa.array(ROWS), values=[[0.5, 2.0], [1.0], [3.0, 4.0]]))


@pytest.mark.parametrize("successors", [False, True])
def test_thirty_files_of_hashes_become_shards_from_the_command_line(successors: bool, tmp_path: Path, capsys) -> None:
    """Rows in any order over thirty files, episodes across files, columns under other names."""
    log, full = columns(np.random.default_rng(1))
    at = [np.flatnonzero(row) for row in full]
    log |= {"feat_hashes": at, "weights": [row[i] for row, i in zip(full, at, strict=True)]}
    roles = ["--column", "indices=feat_hashes", "--column", "values=weights"]
    if successors:
        log |= {"after": [*at[1:], at[0]]}
        roles += ["--column", "next_indices=after"]
    table = pa.table({name: pa.array(list(rows)) for name, rows in log.items()})
    table = table.take(np.random.default_rng(2).permutation(len(table)))
    for k in range(30):
        pq.write_table(table.take(np.arange(k, len(table), 30)), tmp_path / f"part-{k}.parquet")
    pattern, out = str(tmp_path / "*.parquet"), str(tmp_path / "out")
    assert main(["shard", pattern, "--out", out, "--shards", "4", *roles]) == 0
    parts = [part.read(sparse=True) for part in shards(out)]
    assert {part.observation.shape[1] for part in parts} == {WIDTH}
    whole = concatenate(parts)
    expected = read(pattern, indices="feat_hashes", values="weights", next_indices="after" if successors else None)
    episodes = {int(i): e for i, e in zip(expected.ids(), expected.episodes(), strict=True)}
    for i, episode in zip(whole.ids(), whole.episodes(), strict=True):
        np.testing.assert_array_equal(episode.observation.toarray(), episodes[int(i)].observation.toarray())
        np.testing.assert_array_equal(episode.next_observation.toarray(), episodes[int(i)].next_observation.toarray())
        np.testing.assert_array_equal(episode.reward, episodes[int(i)].reward)
    settings = ["--method", "TDC", "--gamma", "0.9", "--quiet"]
    assert main(["fit", out, "--out", str(tmp_path / "m"), *settings]) == 0
    assert main(["evaluate", out, "--target", "target_prob", "--gamma", "0.9", "--buckets", "8", "--quiet"]) == 0
    assert main(["inspect", out]) == 0
    folded = str(tmp_path / "folded")
    assert main(["shard", pattern, "--out", folded, "--buckets", "8", *roles]) == 0
    assert {part.read(sparse=True).observation.shape[1] for part in shards(folded)} == {8}
    capsys.readouterr()


def test_values_honour_episodes_and_their_ends(tmp_path: Path) -> None:
    """Episodes of two rows that pay 1 at their end: V = .9 at the start, whatever comes after in the file."""
    n = 4000
    table = pa.table(
        {"indices": [[i % 2] for i in range(n)], "reward": np.arange(n) % 2 * 1.0, "episode": np.arange(n) // 2}
    )
    table = table.append_column("terminated", pa.array(np.arange(n) % 2 == 1))
    pq.write_table(table, tmp_path / "log.parquet")
    model = fit_stream(TD(gamma=0.9, step_size=0.05), read_batches(tmp_path / "log.parquet", n_features=2))
    np.testing.assert_allclose(model.coef_, [0.9, 1.0], atol=0.01)


def test_rows_too_wide_for_pairs_name_ways_that_work(logs: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=r"`shards\(folder, buckets=512\)` of a folder .* from `read_batches\(log\)`"):
        evaluate(shards(logs["folder"], n_features=5000), gamma=0.9)
    folded = shards(logs["folder"], buckets=8)
    assert np.isfinite(evaluate(folded, gamma=0.9, features=None, n_resamples=0).value)
    assert fit_stream(TDC(), read_batches(logs["folder"], n_features=5000)).n_iter_ == EPISODES * STEPS
