"""Tables of odd contents, made by decisions: byte mutations of a Parquet file mostly die in its footer.

Most columns stay as they are in a valid log or are left out; some have another type, nulls, lists, huge numbers or
another name. The table is read as a Parquet file, an Arrow file or stream, a folder of two
parts, a frame or a mapping.
"""

from __future__ import annotations

import datetime
import decimal
import io
import random
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from fuzz import seed_log
from fuzz.mutations import Choices
from fuzz.oracle import FOLDER, check_log, file

NUMBERS = [0, 1, 2, -1, 0.5, 1.5, 1e308, -1e308, 5e-324, 1e-310, float("nan"), float("inf"), 2**53 + 1, 2**62, -(2**63)]
ODD = [None, "a", "", "1", "x\ny", "z" * 400, b"\xff", True, [], [1.0], [1, 2], [[1], [2]], [None], {"a": 1}, 2**64]
OTHERS = [
    decimal.Decimal("1.5"),
    datetime.datetime(2020, 1, 1),
    datetime.date(2020, 1, 1),
    datetime.time(1),
    datetime.timedelta(1),
]
NUMERIC = [pa.int8(), pa.uint8(), pa.int64(), pa.uint64(), pa.float16(), pa.float32(), pa.float64(), pa.bool_()]
TEXT = [pa.string(), pa.large_string(), pa.binary(), pa.binary(1), pa.string_view(), pa.null(), pa.decimal128(9, 2)]
TIMES = [pa.timestamp("s"), pa.timestamp("ns", "UTC"), pa.date32(), pa.time64("us"), pa.duration("ms")]
NAMES = [*seed_log.NAMES, "", " ", "a\nb", "`", "é", "obs_" + "x" * 2000]


def kind(choose: Choices, depth: int = 0) -> Any:
    """A type, nested at most three deep; no maps, of which pyarrow cannot build every one without aborting."""
    if depth == 3 or not choose.odd(3):
        return choose.one([*NUMERIC, *NUMERIC, *TEXT, *TIMES])
    inner = kind(choose, depth + 1)
    makers = [
        lambda: pa.list_(inner),
        lambda: pa.large_list(inner),
        lambda: pa.list_(inner, choose.number(4)),
        lambda: pa.list_view(inner),
        lambda: pa.struct([("a", inner)]),
        lambda: pa.dictionary(pa.int8(), inner),
        lambda: pa.run_end_encoded(pa.int16(), inner),
    ]
    return choose.one(makers)()


def entry(choose: Choices, kind: Any) -> Any:
    """A value that may suit the type."""
    if pa.types.is_nested(kind) and hasattr(kind, "value_type") and not choose.odd(8):
        length = kind.list_size if hasattr(kind, "list_size") else choose.one([2, 2, 2, 1, 0])
        return [entry(choose, kind.value_type) for _ in range(length)]
    return choose.one([*NUMBERS, *NUMBERS, *ODD, *OTHERS])


def odd_column(choose: Choices, n: int) -> Any:
    """n entries of a type; where the values do not suit it, of the type that they suit, if any."""
    chosen = kind(choose)
    values = [entry(choose, chosen) for _ in range(n)]
    for type_ in (chosen, None):
        try:
            return pa.array(values, type_)
        except (pa.ArrowException, ValueError, TypeError, OverflowError):
            continue
    return pa.array(np.arange(n) % 2)


def columns(choose: Choices) -> tuple[list[str], list[Any]]:
    """Names and columns of a table."""
    valid = choose.one([seed_log.columns, seed_log.list_columns])()
    n = choose.one([seed_log.N, seed_log.N, seed_log.N, 3, 1, 0])
    names, arrays = [], []
    for name, values in valid.items():
        if choose.odd(3):
            continue
        column = odd_column(choose, n) if choose.odd(4) else pa.array(values[:n])
        names.append(choose.one(NAMES) if choose.odd(8) else name)
        arrays.append(column.dictionary_encode() if choose.odd(16) and _plain(column) else column)
    return names, arrays


def _plain(column: Any) -> bool:
    return pa.types.is_primitive(column.type) or pa.types.is_string(column.type)


def one_input(data: bytes) -> None:
    choose = Choices(data)
    form = choose.one([arrow_table, folder, mapping, mapping, arrow, parquet, pandas_frame, polars_frame])
    try:
        names, arrays = columns(choose)
        source = form(choose, pa.Table.from_arrays(arrays, names))
    except (
        pa.ArrowException,
        pl.exceptions.PolarsError,
        ValueError,
        TypeError,
        OverflowError,
        NotImplementedError,
        IndexError,
    ):
        return  # this table has no such form
    check_log(source, data)


def parquet(choose: Choices, table: Any) -> Any:
    """Without lists of the fixed length 0: pyarrow aborts while it writes some of them."""
    table = table.select([i for i, kind in enumerate(table.schema.types) if "[0]" not in str(kind)])
    out = io.BytesIO()
    codec = choose.one(["none", "snappy", "zstd"])
    pq.write_table(table, out, compression=codec, row_group_size=choose.one([100, 2]), use_dictionary=choose.odd(2))
    return file(".parquet", out.getvalue())


def arrow(choose: Choices, table: Any) -> Any:
    out = io.BytesIO()
    options = pa.ipc.IpcWriteOptions(compression=choose.one([None, "lz4", "zstd"]))
    with choose.one([pa.ipc.new_file, pa.ipc.new_stream])(out, table.schema, options=options) as writer:
        writer.write_table(table, max_chunksize=choose.one([100, 2]))
    return file(".arrow", out.getvalue())


def folder(choose: Choices, table: Any) -> Any:
    """Two parts, one column of which differ."""
    changed = choose.number(max(table.num_columns, 1))
    other = table.set_column(changed, table.schema.names[changed], odd_column(choose, table.num_rows))
    directory = Path(FOLDER, "parts")
    directory.mkdir(exist_ok=True)
    for i, part in enumerate((table, other)):
        with pa.ipc.new_stream(directory / f"{i}.arrow", part.schema) as writer:
            writer.write_table(part)
    return directory


def arrow_table(_: Choices, table: Any) -> Any:
    return table


def mapping(choose: Choices, table: Any) -> Any:
    """Lists, some of them shorter."""
    return {
        name: column.to_pylist()[: None if not choose.odd(16) else -1]
        for name, column in zip(table.schema.names, table.columns, strict=True)
    }


def pandas_frame(choose: Choices, table: Any) -> Any:
    """Without runs: pyarrow aborts while it turns runs of times into a frame, before they are ours."""
    kept = [i for i, kind in enumerate(table.schema.types) if "run_end_encoded" not in str(kind)]
    return table.select(kept).to_pandas(types_mapper=pd.ArrowDtype if choose.odd(3) else None)


def polars_frame(_: Choices, table: Any) -> Any:
    """Of plain columns only: Polars panics on some nested ones, before they are ours."""
    plain = [i for i, column in enumerate(table.columns) if _plain(column)]
    return pl.from_arrow(table.select(plain))


SEEDS = [bytes([form, *random.Random(form).randbytes(120)]) for form in range(8)]
SEEDS += [bytes([form]) + bytes(120) for form in range(8)]
TOKENS: list[bytes] = []
