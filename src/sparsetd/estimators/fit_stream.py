"""Fit from an iterator of batches that together need not fit in memory, one estimator or several in one pass."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from sparsetd._tools.lazy_names import renamed
from sparsetd._tools.progress import track
from sparsetd.estimators.validation import check_parameters, refuse_states
from sparsetd.logs import Transitions
from sparsetd.logs.checks import joined
from sparsetd.storage.cache import SECONDS, Checkpoint, key_of
from sparsetd.system import COLUMNS, Batch, rows_of

# A part of the last level of cache, which leaves room for the states. A smaller block would fit a core's own cache, but
# then every model's state would have to be fetched more often.
BLOCK_BYTES = 2**22


@renamed
def fit_stream(
    estimators: Any,
    batches: Iterable[Mapping[str, Any] | Transitions],
    *,
    checkpoint: str | Path | None = None,
    seconds_per_save: float = SECONDS,
    keep_checkpoint: bool = False,
) -> Any:
    """Fit estimators on a stream of batches, which need not fit in memory, and return them.

    A batch is {"X": …, "y": …}, with "X_next" and the columns of `fit` where there are any.

    An estimator that was fitted before, or loaded from a file, goes on learning from where it was, as with
    `partial_fit`: `fit_stream(load("yesterday.sparsetd"), today)`. A copy by `sklearn.base.clone` begins afresh.

    Without "X_next" the rows of all batches are one stream in which a row's successor is the next row, across the
    border between two batches too: the last row waits for its successor. The very last row, and a row before a start,
    terminate. How the rows are divided into batches does not change a bit of the result.

    Parameters
    ----------
    estimators : estimator or sequence of estimators
        Several are trained in the same pass, so that every batch is read and checked once: paths and sweeps, also over
        one batch that holds a log in memory. Each gets the coefficients of its own `fit`; n_passes must be 1.
    batches : iterable of mappings or Transitions
        `read_batches` reads a log in any form, sparse rows with `n_features`; a generator of mappings is another. All
        of them have the same columns.
    checkpoint : folder or None
        The state is saved here every `seconds_per_save` seconds. A run that was stopped and is called again continues
        from there: the batches before are skipped, not trained on, and refused if they are not those of the first run.
        At the end the folder is cleared.
    keep_checkpoint : bool
        Keep the state of all batches instead: the same call with more batches after these goes on from here.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsetd import LSTD
    >>> from sparsetd.estimators import fit_stream
    >>> rng = np.random.default_rng(0)
    >>> X, y = rng.normal(size=(300, 3)), rng.normal(size=300)
    >>> batches = ({'X': X[k : k + 100], 'y': y[k : k + 100]} for k in (0, 100, 200))
    >>> model = fit_stream(LSTD(gamma=0.9), batches)
    >>> np.allclose(model.coef_, LSTD(gamma=0.9).fit(X, y).coef_)
    True
    """
    models = list(estimators) if isinstance(estimators, Sequence) else [estimators]
    for model in models:
        if not hasattr(model, "_passes"):
            raise TypeError(
                f"{type(model).__name__} holds more than an estimator: a model of `sparsetd fit` goes on with its own "
                "`partial_fit(log)`, or on the command line with `sparsetd fit --init`."
            )
        if model._passes != 1:
            raise ValueError(f"{type(model).__name__} has n_passes={model._passes}, but a stream is read once: use 1")
    total = len(batches) if isinstance(batches, Sequence) else None
    _stream(
        models, (_columns_for(models, log) for log in batches), total, checkpoint, seconds_per_save, keep_checkpoint
    )
    return estimators


def _columns_for(models: list[Any], log: Mapping[str, Any] | Transitions) -> dict[str, Any]:
    columns = columns_of(log)
    if isinstance(log, Transitions):
        for model in models:
            refuse_states(model, columns["ratio"])
    return columns


def columns_of(log: Any) -> dict[str, Any]:
    """The columns that estimators take, those that are None left out; the observations of transitions are features."""
    if isinstance(log, Transitions):
        features = {"X": log.observation, "y": log.reward, "X_next": log.next_observation}
        log = features | {"start": log.start, "terminal": log.terminated, "ratio": log.importance_ratio()}
    if not isinstance(log, Mapping):
        what = f"a batch is {{'X': …, 'y': …}} or Transitions, not a {type(log).__name__}"
        raise TypeError(f"{what}: pass a list of batches, or `read_batches(…)`, which reads any log in batches")
    if absent := [name for name in ("X", "y") if log.get(name) is None]:
        has = ", ".join(map(str, log))
        raise ValueError(f"a batch lacks {' and '.join(absent)}; it has {has}: X holds the features and y the rewards")
    given = {name: values for name, values in log.items() if values is not None}
    return {name: values.tocsr() if sp.issparse(values) else values for name, values in given.items()}


def fit_in_parts(
    model: Any,
    X: Any,
    y: Any,
    X_next: Any = None,
    *,
    checkpoint: str | Path,
    seconds_per_save: float = SECONDS,
    rows: int = 100_000,
    warm_start: bool = False,
    **columns: Any,
) -> Any:
    """`model.fit(X, y, X_next, **columns)` with a checkpoint after every so many rows, if it is time for one.

    A run that was stopped and is called again continues where it was, and ends with the same bits. With `warm_start` a
    fitted model goes on, as with `partial_fit`.
    """
    start = np.zeros(len(y), dtype=bool) if columns.get("start") is None else np.array(columns["start"], dtype=bool)
    start[:1] = True  # so that no trace carries over from the end of a pass to the beginning of the next
    if not warm_start:
        vars(model).pop("_state", None)
    whole = columns_of({"X": X, "y": y, "X_next": X_next, **columns, "start": start})
    once = [{name: rows_of(v, slice(a, a + rows)) for name, v in whole.items()} for a in range(0, len(y), rows)]
    _stream([model], chain.from_iterable([once] * model._passes), None, checkpoint, seconds_per_save, False)
    return model


def _stream(
    models: list[Any],
    batches: Iterable[dict[str, Any]],
    total: int | None,
    folder: str | Path | None,
    seconds: float,
    keep: bool,
) -> None:
    """Skip the batches that the checkpoint covers, take the others, and finish."""
    several = iter(batches)
    first = next(several, None)
    if first is None:
        raise ValueError("batches is empty; give at least one batch of rows")
    _begin(models, first)
    mark = "" if folder is None else key_of([[type(m).__name__, m.get_params(deep=False), m._state] for m in models])
    kept = Checkpoint(folder, mark, "batches", seconds=seconds)
    known, skip = kept.load(_kept(models, {}, ""))
    held, number = {} if known is None else dict(known["held"]), 0
    for model, state in zip(models, [] if known is None else known["models"], strict=known is not None):
        vars(model).update(state)
    for number, batch in enumerate(track(chain([first], several), "batches", total), start=1):
        if folder is not None:  # the key of the settings and of all batches up to this one
            mark = key_of(mark, {name: v if sp.issparse(v) else np.asarray(v) for name, v in batch.items()})
        if odd := batch.keys() ^ first.keys():
            which = ", ".join(sorted(odd))
            raise ValueError(f"only one of batch {number - 1} and the first has {which}: give all the same columns")
        if number == skip and mark != known["rows"]:
            raise ValueError(f"{folder} covers {skip} batches of other rows: remove it to start afresh")
        if number > skip:
            parts, held = _complete(held, batch)
            for rows in parts:
                _take(models, rows)
            kept.save(lambda held=held, mark=mark: _kept(models, held, mark), number)  # type: ignore[misc]
    if number < skip:
        raise ValueError(f"{folder} covers {skip} batches, but there are only {number}: remove it to start afresh")
    if keep:
        kept.save(lambda: _kept(models, held, mark), number, now=True)
    if held:  # the very last row has no successor, so it terminates
        _take(models, {**held, "X_next": held["X"], "discount": np.zeros(1)})
    for model in models:
        model._finish(model._run(model.n_features_in_ + int(model.fit_intercept)))
    if not keep:
        kept.cache.clear()


def _begin(models: list[Any], batch: dict[str, Any]) -> None:
    """A fresh state for every model that was not fitted before; the others must be able to learn on."""
    X, y = batch["X"][:1], batch["y"][:1]  # the shape, the names and the type; the rows are checked when taken
    for model in models:
        check_parameters(model.get_params(deep=False))
        if hasattr(model, "_state"):
            getattr(model._state, "t", 0)  # a model from a file without its state says here that it cannot go on
            model._batch(X, y, X, reset=False)
        else:
            model._begin(model._batch(X, y, X, reset=True))


def _take(models: list[Any], rows: dict[str, Any]) -> None:
    """Every model takes a block of rows before the next block: the first brings it into the cache for the others."""
    if len(rows["y"]) == 0:
        return
    batches = _checked(models, rows)
    runs = [model._run(batch.n_features) for model, batch in zip(models, batches, strict=True)]
    for block in _blocks(batches[0]) if len(models) > 1 else [slice(None)]:
        for model, batch, run in zip(models, batches, runs, strict=True):
            taken = batch if block == slice(None) else batch[block]
            model._take(taken, run, seen=taken.n_entries >= taken.n_features)


def _checked(models: list[Any], rows: dict[str, Any]) -> list[Batch]:
    """The rows as each model takes them, checked once for all that treat them alike."""
    known: dict[tuple[float, bool], Batch] = {}
    for model in models:
        alike = model.gamma, model.fit_intercept
        if alike not in known:
            columns = {name: rows.get(name) for name in COLUMNS}
            terminal, discount = rows.get("terminal"), rows.get("discount")
            if terminal is not None:
                columns["discount"] = np.where(terminal, 0.0, model.gamma if discount is None else discount)
            known[alike] = model._batch(rows["X"], rows["y"], rows.get("X_next"), **columns, reset=False)
    return [known[model.gamma, model.fit_intercept] for model in models]


def _blocks(batch: Batch) -> list[slice]:
    """Blocks of rows that stay in the cache while all models take them; for CSR rows, which are short, a single one."""
    if batch.is_sparse:
        return [slice(None)]
    size = max(1, BLOCK_BYTES // (2 * batch.phi.itemsize * batch.n_features))
    return [slice(first, first + size) for first in range(0, len(batch), size)]


def _complete(held: dict[str, Any], batch: dict[str, Any]) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Rows whose successors are known, and the last row, which has to wait for its own.

    The row that waited comes as a part of its own, because putting it before the others would copy them all.
    """
    if "X_next" in batch:
        return [batch], {}
    columns = {name: np.asarray(batch[name]) for name in ("y", *COLUMNS) if name in batch} | {"X": batch["X"]}
    n = len(columns["y"])
    if n == 0:
        return [], held
    border = (
        [{name: joined([held[name], rows_of(rows, slice(0, 1))]) for name, rows in columns.items()}] if held else []
    )
    return [_pairs(rows) for rows in (*border, columns)], {name: rows[n - 1 :] for name, rows in columns.items()}


def _pairs(columns: dict[str, Any]) -> dict[str, Any]:
    """All rows but the last, with their successors."""
    n = len(columns["y"])
    rows = {name: rows_of(values, slice(0, n - 1)) for name, values in columns.items()}
    rows["X_next"] = rows_of(columns["X"], slice(1, n))
    if "start" in columns:
        rows["terminal"] = columns["start"][1:].astype(bool)
    return rows


def _kept(models: list[Any], held: dict[str, Any], mark: str) -> dict[str, Any]:
    """The memory of a stream under way; `mark` says which rows it has seen."""
    states = [
        {"_state": m._state, "history_": m.history_, "_last": m._last, "_watch": m._watch.rested()} for m in models
    ]
    return {"models": states, "held": held, "rows": mark}
