"""Sparse rows from Parquet: changed bytes of valid files, and tables of odd columns."""

from __future__ import annotations

import io
import random
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import scipy.sparse as sp

from fuzz.mutations import Choices
from fuzz.oracle import check_episodes, file, value_or_sentence
from fuzz.tables import odd_column
from sparsetd.logs import Transitions, read_batches

N, D = 6, 10
COLUMNS = {
    "indices": [[0, 3], [1], [], [9, 2, 4], [5], [0]],
    "values": [[1.0, 0.5], [2.0], [], [1.0, 1.0, -1.0], [3.0], [0.0]],
    "reward": [1.0, 0.0, 0.5, -1.0, 2.0, 0.25],
    "episode": [0, 0, 0, 1, 1, 1],
    "terminated": [False, False, True, False, False, True],
    "ratio": [1.0] * N,
}


def written(columns: list[Any], names: list[str], **options: Any) -> bytes:
    """Without lists of the fixed length 0: pyarrow aborts while it writes some of them."""
    table = pa.Table.from_arrays(columns, names)
    out = io.BytesIO()
    pq.write_table(
        table.select([i for i, kind in enumerate(table.schema.types) if "[0]" not in str(kind)]), out, **options
    )
    return out.getvalue()


def odd(data: bytes) -> bytes:
    """A file of a table in which some columns are not what they should be, or there twice."""
    choose = Choices(data)
    columns, names = [], []
    for name, values in COLUMNS.items():
        if not choose.odd(8):
            columns.append(odd_column(choose, N) if choose.odd(3) else pa.array(values))
            names.append(choose.one(list(COLUMNS)) if choose.odd(8) else name)
    return written(columns, names, row_group_size=choose.one([100, 2]))


SEEDS = [
    written([pa.array(values) for values in COLUMNS.values()], list(COLUMNS), compression="none", store_schema=False),
    written([pa.array(COLUMNS["indices"], pa.list_(pa.int32())), pa.array(COLUMNS["reward"])], ["indices", "reward"]),
    *(b"\0" + random.Random(i).randbytes(60) for i in range(4)),
]
TOKENS = [b"PAR1", *(name.encode() for name in COLUMNS), b"\xff" * 4, b"\x80\x80\x80\x80\x08", b"\0" * 8]


def one_input(data: bytes) -> None:
    if data[:1] == b"P":
        contents = data
    else:
        try:
            contents = odd(data[1:])
        except (pa.ArrowException, ValueError, TypeError, OverflowError, NotImplementedError):
            return  # this table has no such form
    path = file(".sparse.parquet", contents)
    columns = {} if len(data) % 4 else {"values": None}
    for batch in value_or_sentence(lambda: list(read_batches(path, batch_rows=4, n_features=D, **columns))) or ():
        check_batch(batch)


def check_batch(batch: Transitions) -> None:
    n = len(batch)
    for X in (batch.observation, batch.next_observation):
        assert isinstance(X, sp.csr_array), "the kind of matrix"
        X.check_format(full_check=True)
        assert X.shape == (n, D), "the shape"
        assert X.dtype == np.float64, "the type of the features"
        assert np.isfinite(X.data).all(), "finite features"
    for name, column in batch._columns().items():
        assert column.shape[0] == n, f"one {name} per row"
    check_episodes(batch, first=False)
