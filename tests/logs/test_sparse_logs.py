"""A log of sparse rows (lists of indices and values) is the same log as its dense columns, in every command."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from sparsetd import LSTD, ValueFunction, evaluate, load
from sparsetd.cli import main
from sparsetd.logs import concatenate, inspect, read, read_batches, shards
from sparsetd.logs.sparse_lists import folded
from sparsetd.logs.sparse_parquet import sparse_parquet

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
    dense, sparse = read(logs["dense"]), read(logs[name])
    np.testing.assert_array_equal(sparse.observation.toarray(), dense.observation)
    np.testing.assert_array_equal(sparse.next_observation.toarray(), dense.next_observation)
    for column in ("reward", "terminated", "episode", "start", "target_prob"):
        np.testing.assert_array_equal(getattr(sparse, column), getattr(dense, column))
    batches = concatenate(list(read_batches(logs[name], batch_rows=37)))
    np.testing.assert_array_equal(batches.observation.toarray(), dense.observation)
    narrow = read(logs[name], buckets=7)
    np.testing.assert_allclose(narrow.observation, dense.observation @ np.eye(7)[np.arange(WIDTH) % 7], atol=1e-12)
    assert len(sparse.to_frame()) == len(dense)


@pytest.mark.parametrize("name", ["sparse", "folder", "pattern"])
def test_fit_and_predict_give_the_values_of_the_dense_log(logs, name: str, tmp_path: Path, capsys) -> None:
    settings = ["--method", "LSTD", "--set", "alpha=0.01", "--gamma", "0.9", "--features", "raw", "--quiet"]
    for source in ("dense", name):
        assert main(["fit", logs[source], "--out", str(tmp_path / source), *settings]) == 0
        assert main(["predict", str(tmp_path / source), logs[source], "--out", str(tmp_path / f"{source}.csv")]) == 0
    values = [np.genfromtxt(tmp_path / f"{s}.csv", delimiter=",", names=True)["value"] for s in ("dense", name)]
    np.testing.assert_allclose(*values, rtol=1e-8)
    capsys.readouterr()


def test_a_fold_is_remembered_by_the_model(logs, tmp_path: Path, capsys) -> None:
    model, settings = str(tmp_path / "m"), ["--method", "LSTD", "--gamma", "0.9", "--features", "raw", "--quiet"]
    assert main(["fit", logs["folder"], "--out", model, "--buckets", "5", *settings]) == 0
    capsys.readouterr()
    assert main(["predict", model, logs["folder"], "--json"]) == 0
    log = read(logs["sparse"], buckets=5)
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
        evaluate(logs[name], gamma=0.9)
    dense = read(logs["sparse"], buckets=8)
    parts = shards(logs[name], buckets=8)
    assert len(parts) == (3 if name == "folder" else 1)
    found, whole = evaluate(parts, gamma=0.9, n_resamples=0), evaluate(dense, gamma=0.9, n_resamples=0)
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
    batches = list(sparse_parquet(logs["pattern"], WIDTH, values="values"))
    assert len(batches) == 3
    assert folded(batches[0]["X"], WIDTH).shape == (EPISODES * STEPS // 3, WIDTH)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"values": [[np.nan]]}, "must be finite"),
        ({"indices": [[-1]]}, "index outside"),
        ({"indices": [[2**40]]}, "out"),
    ],
)
def test_bad_lists_are_refused_by_row(change: dict, said: str, tmp_path: Path) -> None:
    rows = {"indices": [[0], [1]], "values": [[1.0], [2.0]], "reward": [0.0, 1.0], "terminated": [False, True]}
    rows |= {name: [rows[name][0], *entry] for name, entry in change.items()}
    pq.write_table(pa.table(rows), tmp_path / "log.parquet")
    with pytest.raises(ValueError, match=rf"{said}.*row 1"):
        read(tmp_path / "log.parquet")
