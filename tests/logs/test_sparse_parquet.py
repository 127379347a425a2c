"""Lists in a Parquet file become CSR rows, or one sentence that names the column."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sparsetd.logs.sparse_parquet import sparse_parquet

ROWS = [[3, 1], [], [0, 4, 2]]


def read(path, column, **options):
    pq.write_table(pa.table({"indices": column, "reward": [1.0] * len(column)} | options.pop("more", {})), path)
    return list(sparse_parquet(path, 5, **options))


@pytest.fixture
def path(tmp_path):
    return tmp_path / "log.parquet"


@pytest.mark.parametrize("entry", [pa.int32(), pa.int64(), pa.uint8(), pa.uint64()])
@pytest.mark.parametrize("kind", [pa.list_, pa.large_list])
def test_every_type_of_index_is_read(path, entry, kind):
    (batch,) = read(path, pa.array(ROWS, type=kind(entry)))
    assert batch["X"].indices.tolist() == [3, 1, 0, 4, 2]
    assert batch["X"].indptr.tolist() == [0, 2, 2, 5]
    assert batch["X"].indices.dtype == np.int32


def test_lists_of_one_length_are_read(path):
    (batch,) = read(path, pa.array([[3, 1], [2, 0]], type=pa.list_(pa.int32(), 2)))
    assert batch["X"].toarray().tolist() == [[0, 1, 0, 1, 0], [1, 0, 1, 0, 0]]


def test_batches_begin_at_their_own_rows(path):
    first, second = read(path, pa.array(ROWS), batch_rows=2)
    assert first["X"].indptr.tolist() == [0, 2, 2]
    assert second["X"].toarray().tolist() == [[1, 0, 1, 0, 1]]


@pytest.mark.parametrize("index", [5, -1, 2**32 + 1])
def test_an_index_out_of_range_is_refused(path, index):
    rows = pa.array([[1], [2, 3], [4], [], [0, index], [index]], type=pa.list_(pa.int64()))
    with pytest.raises(ValueError, match="indices has an index outside 0 … 4 in row 4; hash"):
        read(path, rows, batch_rows=3)


@pytest.mark.parametrize(
    ("column", "sentence"),
    [
        (pa.array([1, 2]), "indices has the type int64, but each of its rows must be a list of integers"),
        (pa.array([[1.0], [2.0]]), "indices has the type list.*double.*, but its lists must hold integers"),
        (
            pa.array([[1], None]),
            r"indices has missing entries \(first in row 1\); a row without features is an empty list",
        ),
        (pa.array([[1, None]]), r"indices has missing entries \(first in row 0\)"),
    ],
)
def test_what_is_no_list_of_integers_is_refused(path, column, sentence):
    with pytest.raises(ValueError, match=sentence):
        read(path, column)


def test_values_belong_to_indices_row_by_row(path):
    more = {"values": [[0.5, 2.0], [], [1.0, 3.0, 4.0]]}
    (batch,) = read(path, pa.array(ROWS), values="values", more=more)
    assert batch["X"].toarray()[2].tolist() == [1.0, 0, 4.0, 0, 3.0]
    shifted = {"values": [[0.5, 2.0], [1.0], [3.0, 4.0]]}
    with pytest.raises(ValueError, match="values and indices differ in length in row 1"):
        read(path, pa.array(ROWS), values="values", more=shifted)


def test_a_folder_is_read_file_after_file(tmp_path):
    for name, row in (("b", [1, 2]), ("a", [3])):
        pq.write_table(pa.table({"indices": [row], "reward": [0.0]}), tmp_path / f"{name}.parquet")
    assert [batch["X"].indices.tolist() for batch in sparse_parquet(tmp_path, 5)] == [[3], [1, 2]]
    pq.write_table(pa.table({"indices": [[0]]}), tmp_path / "c.parquet")
    batches = sparse_parquet(tmp_path, 5)
    assert len([next(batches), next(batches)]) == 2
    with pytest.raises(ValueError, match=r"c\.parquet has no column 'reward'"):
        next(batches)


def test_a_later_batch_may_be_larger(path):
    first, second = read(path, pa.array([[0], [0, 1, 2, 3, 4]]), batch_rows=1)
    assert first["X"].data.tolist() == [1.0]
    assert second["X"].data.tolist() == [1.0] * 5
