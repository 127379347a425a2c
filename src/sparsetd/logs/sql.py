"""A table or a query of an SQLite file, by Python's own `sqlite3`, read-only.

    sqlite:visits.db?table=visits      sqlite:visits.db?sql=SELECT * FROM visits ORDER BY day

DuckDB and other databases need nothing here: whatever has `__arrow_c_stream__` is a source.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

from sparsetd.logs.checks import reason, show
from sparsetd.logs.files import Opened, Raw
from sparsetd.logs.schema import check_names
from sparsetd.logs.text import typed

READING = {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE}


def open_sqlite(source: str) -> Opened:
    """The rows that a query of an SQLite file returns, or those of a table."""
    path, query = _parts(source)
    with _connected(path) as connection, closing(connection.execute(query)) as cursor:
        names = [column[0] for column in cursor.description or ()]
    check_names(names)

    def batches(columns: Sequence[str], rows: int, texts: Sequence[str]) -> Iterator[Raw]:
        place = {name: names.index(name) for name in columns}
        with _connected(path) as connection, closing(connection.execute(query)) as cursor:
            while found := cursor.fetchmany(rows):
                yield {name: typed([row[j] for row in found], name in texts) for name, j in place.items()}

    return Opened(names, batches)


def _parts(source: str) -> tuple[Path, str]:
    name, _, asked = source.removeprefix("sqlite:").partition("?")
    kind, equals, text = asked.partition("=")
    if kind not in ("table", "sql") or not equals or not text.strip():
        raise ValueError(f"{show(source)} must look like sqlite:file.db?table=NAME or sqlite:file.db?sql=SELECT ….")
    if not Path(name).is_file():
        raise FileNotFoundError(f"{name} does not exist: check the path.")
    quoted = text.replace('"', '""')
    return Path(name), text if kind == "sql" else f'SELECT * FROM "{quoted}"'


def _allowed(action: int, *_: Any) -> int:
    return sqlite3.SQLITE_OK if action in READING else sqlite3.SQLITE_DENY


@contextmanager
def _connected(path: Path) -> Iterator[Any]:
    """A connection that can read and do nothing else; what SQLite says of the file or the query is one sentence."""
    try:
        with closing(sqlite3.connect(f"file:{quote(str(path))}?mode=ro", uri=True)) as connection:
            connection.set_authorizer(_allowed)
            yield connection
    except (sqlite3.Error, sqlite3.Warning, UnicodeDecodeError) as error:
        raise ValueError(f"{path.name} cannot be asked that ({reason(error)}): check the table or the query.") from None
