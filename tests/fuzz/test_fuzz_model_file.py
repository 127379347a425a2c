"""A small share of what the fuzzer runs, in every test run."""

from __future__ import annotations

import importlib.util
from pathlib import Path

spec = importlib.util.spec_from_file_location("fuzz_model_file", Path(__file__).with_name("fuzz_model_file.py"))
fuzz = importlib.util.module_from_spec(spec)
spec.loader.exec_module(fuzz)


def test_mutated_headers_are_loaded_or_refused():
    fuzz.plain(3000)


def test_the_seeds_themselves_load():
    for seed, kind in zip(fuzz.SEEDS, ("model", "model", "checkpoint"), strict=True):
        fuzz.container.unpack(seed, kind)
