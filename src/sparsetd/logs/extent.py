"""How large a log is, told before it is read: by the footer of a Parquet file, or by the first rows of a text."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sparsetd.logs.arrow import require_pyarrow, unreadable
from sparsetd.logs.parts import Parts
from sparsetd.logs.schema import infer_schema
from sparsetd.logs.sources import chunks, files_of
from sparsetd.logs.sparse_lists import column_names

HEAD = 2**16  # bytes whose lines stand for all of a text
PARQUET, TEXT = (".parquet", ".pq"), (".csv", ".tsv", ".jsonl", ".ndjson")


def extent(source: Any, **columns: Any) -> tuple[int, int]:
    """Rows and observed numbers in each; about so many in a text, and none where only reading would tell."""
    files = [(file, file.suffix.lower()) for file in files_of(source)]
    found = [_of_parquet(file, columns) for file, ending in files if ending in PARQUET]
    found += [_of_text(file, columns) for file, ending in files if ending in TEXT]
    return sum(rows for rows, _ in found), max((width for _, width in found), default=0)


def _of_parquet(path: Path, columns: Mapping[str, Any]) -> tuple[int, int]:
    """The footer counts the values of every column, so those of lists too."""
    pa = require_pyarrow()
    import pyarrow.parquet as pq

    try:
        footer = pq.read_metadata(path)
        observed = infer_schema(column_names(footer.schema.to_arrow_schema()), **columns).observation
    except (pa.ArrowException, OSError) as error:
        raise unreadable(path.name, "Parquet", error) from None
    groups = [footer.row_group(i) for i in range(footer.num_row_groups)]
    leaves = [group.column(j) for group in groups for j in range(group.num_columns)]
    numbers = sum(leaf.num_values for leaf in leaves if leaf.path_in_schema.split(".")[0] in {*observed})
    return footer.num_rows, columns.get("buckets") or numbers // max(footer.num_rows, 1)


def _of_text(path: Path, columns: Mapping[str, Any]) -> tuple[int, int]:
    with path.open("rb") as file:
        head = file.read(HEAD)
    rows = path.stat().st_size * head.count(b"\n") // max(len(head), 1)
    return rows, next(iter(Parts(chunks(path, 3), columns))).observation.shape[1]
