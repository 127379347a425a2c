"""Ask `evaluate` about one log, and write down what it said as one row of plain data."""

from __future__ import annotations

import datetime
import inspect
import platform
import signal
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from zlib import crc32

import numpy as np
import scipy
import sklearn

import sparsetd
from benchmarks.trust.case import Case, Cell
from benchmarks.trust.names import f1, jaccard, originals
from benchmarks.trust.plain import start_value
from benchmarks.trust.rivals import boosting_value, kernel_value
from benchmarks.trust.selection import probed
from sparsetd import evaluate
from sparsetd.evaluation.target import pose
from sparsetd.logs import Transitions

Row = dict[str, Any]
LIMIT = 300  # seconds that one question may take


def generator(entropy: int | None, cell: str, number: int) -> np.random.Generator:
    """The stream of log `number` of a cell: the same wherever and in whatever order the logs are run."""
    if entropy is None:
        return np.random.default_rng(number)
    return np.random.default_rng(np.random.SeedSequence([entropy, crc32(cell.encode()), number]))


def made_with() -> dict[str, Any]:
    """The date, the versions and the settings behind a row; nothing that depends on the machine."""
    versions = {"sparsetd": sparsetd.__version__, "Python": platform.python_version()}
    libraries = {module.__name__: module.__version__ for module in (np, scipy, sklearn)}
    return {"date": str(datetime.date.today()), **versions, **libraries, **_quick()}


def judged(
    cell: Cell, entropy: int | None, number: int, probe: bool, boosted: bool = False, kernel: bool = True
) -> Row:
    """One log of a cell. With `probe` the same log is asked again with episodes in another order, and rescaled."""
    rng = generator(entropy, cell.name, number)
    case = cell.draw(rng)
    said = answer(case.log, case.gamma)
    row = {"cell": cell.name, "entropy": entropy, "log": number, "truth": case.truth, "rows": len(case.log), **said}
    row |= {"episodes": case.log.n_episodes, "made_with": made_with()}
    row |= _beside(case, said)
    if cell.rivals:
        row |= _rivals(case, boosted, kernel)
    if case.relevant is not None and said["kept"] is not None:
        row["f1"] = f1(originals(said["kept"]), set(case.relevant))
    idle = [name for name in case.log.names or () if name.startswith("noise_")]
    if idle and said["kept"] is not None:
        row["dropped"] = 1 - len(set(idle) & set(said["kept"])) / len(idle)
    return row | (_probes(case, said, rng) if probe and said["value"] is not None else {})


def _probes(case: Case, said: Row, rng: np.random.Generator) -> Row:
    """The same question about the same log with its episodes in another order, and with its columns in other units."""
    again = {"permuted": permuted(case.log, rng), "rescaled": rescaled(case.log, rng)}
    out: Row = {kind: _moved(said, answer(log, case.gamma)) for kind, log in again.items()}
    if case.relevant is not None and case.log.behavior_prob is not None:
        out["estimator"] = _selection(case, **again)
    return out


def _selection(case: Case, **again: Transitions) -> Row:
    """`SparseTDSelect` alone; one that finds no end within a minute keeps nothing."""
    try:
        with _silent(), _time_limit(LIMIT // 5):
            return probed(case, **again)
    except (TimeoutError, ValueError) as problem:
        return {"f1": 0.0, "permuted": 0.0, "rescaled": 0.0, "failed": str(problem)[:300]}


def answer(log: Transitions, gamma: float) -> Row:
    """Value, interval, features, cautions and CPU seconds; a refusal in a sentence counts as a red caution."""
    begun = time.process_time()
    out: Row = {"value": None, "low": None, "high": None, "kept": None, "severity": "", "codes": [], "failed": ""}
    try:
        with _silent(), _time_limit(LIMIT):
            out |= _read(evaluate(log, gamma=gamma, **_quick()))
    except ValueError as refusal:
        out |= {"severity": "red", "codes": ["refused"], "refusal": str(refusal)[:300]}
    except Exception as problem:
        out["failed"] = f"{type(problem).__name__}: {problem}"[:300]
    return out | {"cpu": round(time.process_time() - begun, 3)}


def permuted(log: Transitions, rng: np.random.Generator) -> Transitions:
    """The same episodes in another order."""
    bounds = np.append(np.flatnonzero(log.start), len(log))
    order = rng.permutation(len(bounds) - 1)
    rows = np.concatenate([np.arange(bounds[i], bounds[i + 1]) for i in order])
    return replace(log[rows], episode=np.repeat(np.arange(len(order)), np.diff(bounds)[order]))


def rescaled(log: Transitions, rng: np.random.Generator) -> Transitions:
    """The same columns in other units: each times a power of ten between 10⁻⁶ and 10⁶."""
    units = 10.0 ** rng.integers(-6, 7, size=log.observation.shape[1])
    return replace(log, observation=log.observation * units, next_observation=log.next_observation * units)


def _quick() -> Row:
    """No resampled logs: they only print frequencies."""
    return {"n_resamples": 0} if "n_resamples" in inspect.signature(evaluate).parameters else {}


def _read(result: Any) -> Row:
    low, high = result.interval
    cautions = list(result.warnings)
    return {
        "value": float(result.value),
        "low": float(low),
        "high": float(high),
        "kept": [f.name for f in result.features],
        "severity": getattr(result, "severity", None) or ("amber" if cautions else ""),
        "codes": [str(getattr(w, "code", str(w)[:40])) for w in cautions],
    }


def _beside(case: Case, said: Row) -> Row:
    """What LSTD on the features kept, and on all features, says about the same log."""
    log = case.log
    if said["kept"] is None:
        return {"selected": None, "all": None}
    with _silent():
        ratio = pose(log).log.importance_ratio() if log.behavior_prob is None else log.importance_ratio()
    names = list(log.names or ())
    chosen = np.array([names.index(name) for name in said["kept"]], dtype=np.intp)
    return {
        "selected": start_value(log, case.gamma, ratio, chosen),
        "all": start_value(log, case.gamma, ratio, np.arange(len(names))),
    }


def _rivals(case: Case, boosted: bool, kernel: bool) -> Row:
    """What the rivals say about the same log, and the CPU seconds they take."""
    out: Row = {}
    with _silent():
        if kernel:
            ratio = pose(case.log).log.importance_ratio()
            begun = time.process_time()
            out["kernel"] = kernel_value(case.log, case.gamma, ratio)
            out["kernel_cpu"] = round(time.process_time() - begun, 3)
        if boosted and case.policy is not None:
            begun = time.process_time()
            out["boosting"] = boosting_value(case.log, case.gamma, case.policy)
            out["boosting_cpu"] = round(time.process_time() - begun, 3)
    return out


def _moved(before: Row, after: Row) -> Row:
    """Jaccard of the supports, and the move of the value as a share of the interval's width."""
    if after["value"] is None:
        return {"jaccard": 0.0, "shift": None}
    width = before["high"] - before["low"]
    shift = abs(after["value"] - before["value"]) / width if width else float(after["value"] != before["value"])
    same = after["severity"] == before["severity"]
    return {
        "jaccard": jaccard(originals(before["kept"]), originals(after["kept"])),
        "shift": shift,
        "same_severity": same,
    }


@contextmanager
def _silent() -> Iterator[None]:
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        yield


@contextmanager
def _time_limit(seconds: int) -> Iterator[None]:
    def stop(*_: Any) -> None:
        raise TimeoutError(f"no answer within {seconds} s")

    previous = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, previous)
