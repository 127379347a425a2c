"""Run the units of an experiment in parallel, keeping what is finished.

Every finished unit is an entry of the library's `Cache`, a Parquet file of tidy rows that is written all at once. Its
name carries a fingerprint of the settings: with `resume`, units whose file can be read are skipped, and rows of other
settings are never mixed in. Work is handed to joblib, so a cluster backend (`joblib.parallel_config`) can take over.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sparsetd
from reproduction.experiment import Experiment, Figure, Summary, Unit
from reproduction.settings import Settings
from sparsetd._tools.workers import delayed, in_processes
from sparsetd.storage.atomic import replace_file
from sparsetd.storage.cache import Cache

EVERY = 10.0  # seconds between two sentences of progress
Tell = Callable[[str], None]


@dataclass(frozen=True)
class Finished:
    """A finished experiment: everything that its report needs."""

    experiment: Experiment
    settings: Settings
    rows: Any
    summary: Summary
    figures: list[Figure]
    folder: Path

    @property
    def versions(self) -> list[str]:
        """The versions of the library that made the rows; rows of 0.2.0 and before do not say."""
        if "version" not in self.rows:
            return ["0.2.0 or earlier"]
        return sorted(set(self.rows["version"].fillna("0.2.0 or earlier")))


def fingerprint(settings: Settings, unit: Unit) -> str:
    """Eight hexadecimal digits of everything a unit's rows depend on (not of the number of seeds).

    `key_of` is not used here because it also holds the version of the library: the rows of the GPU experiments, which
    took days and are kept in the repository, must outlive a release. They say their version in a column instead.
    """
    values = {k: v for k, v in dataclasses.asdict(settings).items() if k not in settings.carried}
    text = json.dumps([values, unit.name, unit.seed, unit.params], sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def unit_file(folder: Path, settings: Settings, unit: Unit) -> Path:
    return Cache(folder / "rows").file(f"{unit.label}-{fingerprint(settings, unit)}", ".parquet")


def execute(
    experiment: Experiment,
    settings: Settings,
    out: Path,
    *,
    n_jobs: int = 1,
    resume: bool = False,
    tell: Tell = lambda _: None,
) -> Finished:
    """Run what is not finished, then judge all of it. Rows go to `out`/<name of the experiment>/rows.

    `tell` receives a sentence of progress at most every ten seconds.
    """
    folder = Path(out) / experiment.name
    (folder / "rows").mkdir(parents=True, exist_ok=True)
    units = list(experiment.units(settings))
    files = [unit_file(folder, settings, unit) for unit in units]
    todo = [(u, f) for u, f in zip(units, files, strict=True) if not (resume and _is_finished(f))]
    run_units(experiment, settings, todo, n_jobs, len(units), tell)
    rows = gather(files)
    summary, figures = experiment.summarize(settings, rows), experiment.plot(settings, rows)
    return Finished(experiment, settings, rows, summary, figures, folder)


def run_units(
    experiment: Experiment, settings: Settings, todo: list[tuple[Unit, Path]], n_jobs: int, total: int, tell: Tell
) -> None:
    """Each unit writes its own file as soon as it is finished; those of an earlier run count as progress."""
    calls = (delayed(_run_one)(experiment, settings, unit, file) for unit, file in todo)
    told = time.perf_counter()
    for k, _ in enumerate(in_processes(calls, n_jobs, ordered=False), start=total - len(todo) + 1):
        if time.perf_counter() - told >= EVERY:
            told = time.perf_counter()
            tell(f"{experiment.name}: {k:,} of {total:,}")


def _run_one(experiment: Experiment, settings: Settings, unit: Unit, file: Path) -> None:
    began = time.perf_counter()
    rows = experiment.run(settings, unit)
    frame = _pandas().DataFrame(rows)
    frame.insert(0, "unit", unit.name)
    frame.insert(1, "seed", unit.seed)
    frame["unit_seconds"] = time.perf_counter() - began
    frame["version"] = sparsetd.__version__
    replace_file(file, frame.to_parquet(index=False))


def _is_finished(file: Path) -> bool:
    """Whether the rows of a unit are there and whole; a file that was cut short is computed again."""
    import pyarrow
    import pyarrow.parquet

    try:
        return pyarrow.parquet.read_table(file).num_rows > 0
    except (OSError, pyarrow.ArrowException):
        return False


def gather(files: list[Path]) -> Any:
    """One frame out of the files of all units."""
    pandas = _pandas()
    return pandas.concat([pandas.read_parquet(file) for file in files], ignore_index=True)


def _pandas() -> Any:
    try:
        import pandas
        import pyarrow  # noqa: F401  (pandas writes Parquet through it)
    except ImportError as error:  # pragma: no cover
        raise ImportError("Experiments store their rows as Parquet: pip install pandas") from error
    return pandas
