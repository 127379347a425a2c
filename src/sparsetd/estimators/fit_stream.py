"""Fit from an iterator of batches that together need not fit in memory, one estimator or several in one pass."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from sparsetd._tools.progress import track
from sparsetd.estimators.validation import check_parameters
from sparsetd.storage import checkpoint as files
from sparsetd.storage import container
from sparsetd.storage.atomic import remove_file
from sparsetd.system import Batch, rows_of

COLUMNS = ("ratio", "discount", "start", "interest")

# Of the last level of cache, a part that leaves room for the states. A smaller block would fit a core's own cache, but
# then every model's state would have to be fetched more often.
BLOCK_BYTES = 2**22


def fit_stream(
    estimators: Any,
    batches: Iterable[Mapping[str, Any]],
    *,
    checkpoint: str | Path | None = None,
    batches_per_save: int = 100,
    keep_checkpoint: bool = False,
) -> Any:
    """Fit on batches {"X": …, "y": …}, with "X_next" and the columns of `fit` where there are any; returns what it got.

    Without "X_next" the rows of all batches are one stream in which a row's successor is the next row, across the
    border between two batches too: the last row waits for its successor. The very last row, and a row before a start,
    terminate. How the rows are divided into batches does not change a bit of the result.

    Parameters
    ----------
    estimators : estimator or sequence of estimators
        Several are trained in the same pass, so that every batch is read and checked once: paths and sweeps, also over
        one batch that holds a log in memory. Each gets the coefficients of its own `fit`; n_passes must be 1.
    batches : iterable of mappings
        `sparse_parquet` makes one of a Parquet file; a generator that reads a log is another. All of them have the same
        columns.
    checkpoint : path or None
        The state is saved here every `batches_per_save` batches and taken up again if the file exists; the batches that
        it covers are then skipped, not trained on, and refused if they are not those it was saved for. The file is
        removed at the end.
    keep_checkpoint : bool
        Keep the file instead, with all batches in it: the same call with more batches after these goes on from here.
    """
    models = list(estimators) if isinstance(estimators, Sequence) else [estimators]
    for model in models:
        if model._passes != 1:
            raise ValueError(f"{type(model).__name__} has n_passes={model._passes}, but a stream is read once: use 1")
    held: dict[str, Any] = {}
    begun, skip, names = False, _position(checkpoint), set[str]()
    mark = "" if checkpoint is None else _settings(models)
    for number, batch in enumerate(track(batches, "batches")):
        if number >= skip and not begun:
            held, names = _begin(models, batch, checkpoint if skip else None, mark), _names(batch)
            begun = True
        if checkpoint is not None:
            mark = _followed_by(mark, batch)
        if number >= skip:
            if odd := _names(batch) ^ names:
                raise ValueError(
                    f"only one of batch {number} and the first has {', '.join(sorted(odd))}: give all the same columns"
                )
            parts, held = _complete(held, batch)
            for rows in parts:
                _take(models, rows)
            if checkpoint is not None and (number + 1) % batches_per_save == 0:
                files.save(checkpoint, _kept(models, held), position=number + 1, fingerprint=mark)
    if not begun:
        raise ValueError(_too_few(checkpoint, skip))
    if checkpoint is not None and keep_checkpoint:
        files.save(checkpoint, _kept(models, held), position=number + 1, fingerprint=mark)
    if held:
        _take(models, {**held, "X_next": held["X"], "discount": np.zeros(1)})
    for model in models:
        model._finish(model._run(model.n_features_in_ + int(model.fit_intercept)))
    if checkpoint is not None and not keep_checkpoint:
        remove_file(checkpoint)
    return estimators


def _begin(models: list[Any], batch: Mapping[str, Any], saved: str | Path | None, mark: str) -> dict[str, Any]:
    """Fresh states, or those of a checkpoint; returns the row that waits for its successor."""
    X, y = _first(batch["X"]), batch["y"][:1]  # the shape, the names and the type; the rows are checked when taken
    for model in models:
        check_parameters(model.get_params(deep=False))
        model._begin(model._batch(X, y, X, *(None,) * 4, reset=True))
    if saved is None:
        return {}
    kept, _ = files.load(saved, _kept(models, {}), fingerprint=mark)
    for model, known in zip(models, kept["models"], strict=True):
        model._state, model.history_, model._last = known["state"], known["history"], known["last"]
    return dict(kept["held"])


def _names(batch: Mapping[str, Any]) -> set[str]:
    return {name for name, values in batch.items() if values is not None}


def _first(X: Any) -> Any:
    return X.tocsr()[:1] if sp.issparse(X) else X[:1]


def _take(models: list[Any], rows: Mapping[str, Any]) -> None:
    """Every model takes a block of rows before the next block: the first brings it into the cache for the others."""
    if len(rows["y"]) == 0:
        return
    batches = _checked(models, rows)
    runs = [model._run(batch.n_features) for model, batch in zip(models, batches, strict=True)]
    for block in _blocks(batches[0]) if len(models) > 1 else [slice(None)]:
        for model, batch, run in zip(models, batches, runs, strict=True):
            taken = batch if block == slice(None) else batch[block]
            model._take(taken, run, seen=taken.n_entries >= taken.n_features)


def _checked(models: list[Any], rows: Mapping[str, Any]) -> list[Batch]:
    """The rows as each model takes them, checked once for all that treat them alike."""
    known: dict[tuple[float, bool], Batch] = {}
    for model in models:
        alike = model.gamma, model.fit_intercept
        if alike not in known:
            columns = [rows.get(name) for name in COLUMNS]
            terminal, discount = rows.get("terminal"), rows.get("discount")
            if terminal is not None:
                columns[1] = np.where(terminal, 0.0, model.gamma if discount is None else discount)
            known[alike] = model._batch(rows["X"], rows["y"], rows.get("X_next"), *columns, reset=False)
    return [known[model.gamma, model.fit_intercept] for model in models]


def _blocks(batch: Batch) -> list[slice]:
    """Rows of φ and φ' that the cache holds while all models take them; CSR rows are so short that it makes no odds."""
    if batch.is_sparse:
        return [slice(None)]
    size = max(1, BLOCK_BYTES // (2 * batch.phi.itemsize * batch.n_features))
    return [slice(first, first + size) for first in range(0, len(batch), size)]


def _complete(held: dict[str, Any], batch: Mapping[str, Any]) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Rows whose successors are known, and the last row, which has to wait for its own.

    The row that waited comes as a part of its own: to put it before the others would copy them all.
    """
    if batch.get("X_next") is not None:
        return [dict(batch)], {}
    X = batch["X"]
    columns = {"X": X.tocsr() if sp.issparse(X) else X, "y": np.asarray(batch["y"])}
    columns |= {name: np.asarray(batch[name]) for name in COLUMNS if batch.get(name) is not None}
    n = len(columns["y"])
    if n == 0:
        return [], held
    border = [{name: _stack(held[name], rows_of(rows, slice(0, 1))) for name, rows in columns.items()}] if held else []
    return [_pairs(rows) for rows in (*border, columns)], {name: rows[n - 1 :] for name, rows in columns.items()}


def _pairs(columns: dict[str, Any]) -> dict[str, Any]:
    """All rows but the last, with their successors."""
    n = len(columns["y"])
    rows = {name: rows_of(values, slice(0, n - 1)) for name, values in columns.items()}
    rows["X_next"] = rows_of(columns["X"], slice(1, n))
    if "start" in columns:
        rows["terminal"] = columns["start"][1:].astype(bool)
    return rows


def _stack(above: Any, below: Any) -> Any:
    return sp.vstack([above, below], format="csr") if sp.issparse(below) else np.concatenate([above, below])


def _kept(models: list[Any], held: dict[str, Any]) -> dict[str, Any]:
    return {"models": [files.kept(model) for model in models], "held": held}


def _settings(models: list[Any]) -> str:
    return files.fingerprint([[type(model).__name__, model.get_params(deep=False)] for model in models])


def _followed_by(mark: str, batch: Mapping[str, Any]) -> str:
    """The fingerprint of the settings and all batches up to this one: a checkpoint of other rows is refused."""
    columns = {name: values if sp.issparse(values) else np.asarray(values) for name, values in batch.items()}
    return files.fingerprint(mark, {name: values for name, values in columns.items() if batch[name] is not None})


def _too_few(checkpoint: Any, skip: int) -> str:
    if skip:
        return f"{checkpoint} covers {skip} batches, but there are no more than that; remove it to start afresh"
    return "batches is empty; give at least one batch of rows"


def _position(checkpoint: str | Path | None) -> int:
    """How many batches a checkpoint covers."""
    if checkpoint is None or not files.exists(checkpoint):
        return 0
    meta, _ = container.read(checkpoint, files.KIND)
    return int(meta["position"])
