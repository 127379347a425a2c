"""A small share of what the fuzzer runs, in every test run, without atheris."""

from __future__ import annotations

import random
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from fuzz.mutations import mutated

RUNS = 600
NAMES = [
    "arrow_log",
    "csv_log",
    "jsonl_log",
    "manifests",
    "minari_episodes",
    "model_files",
    "npz_log",
    "parquet_log",
    "rules",
    "sparse_rows",
    "tables",
]


@pytest.fixture(params=NAMES)
def target(request: pytest.FixtureRequest) -> Any:
    return import_module(f"fuzz.{request.param}")


def test_every_target_is_listed() -> None:
    modules = Path(__file__).parent.glob("*.py")
    assert sorted(path.stem for path in modules if "\ndef one_input" in path.read_text(encoding="utf-8")) == NAMES


def test_mutated_files_are_read_or_refused_in_one_sentence(target: Any) -> None:
    rng = random.Random(0)
    for seed in target.SEEDS:
        target.one_input(seed)
    for _ in range(RUNS):
        target.one_input(mutated(target.SEEDS, target.TOKENS, rng))
