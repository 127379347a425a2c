from __future__ import annotations

import importlib

import pytest


@pytest.fixture(scope="session")
def toy():
    """The module toy.py, importable by worker processes too, whichever test started them (see `pythonpath`)."""
    return importlib.import_module("toy")
