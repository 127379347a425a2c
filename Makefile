# What people do. `make` alone lists them.
PYTHON ?= .venv/bin/python
export OPENBLAS_NUM_THREADS = 1

.PHONY: help setup test check docs coverage size docstrings
help:           ## list these targets
	@grep -E '^[a-z]+: .*##' Makefile | sed 's/: *## */\t/'
setup:          ## make .venv with everything that working on the library needs
	python3 -m venv .venv && .venv/bin/pip install -q -e ".[dev]" && .venv/bin/pre-commit install
test:           ## run the tests
	$(PYTHON) -m pytest -n 2
check:          ## style, types and import layers
	$(PYTHON) -m ruff check . && $(PYTHON) -m ruff format --check . && $(PYTHON) -m mypy && .venv/bin/lint-imports
docs:           ## build the site strictly into docs/_build/html
	$(PYTHON) -m sphinx -W --keep-going -q -b html docs docs/_build/html
coverage:       ## run the tests and fail if they reach too few lines (the floor is in pyproject.toml)
	$(PYTHON) -m pytest -n 2 --cov --cov-report=term
size:           ## lines of code, docstrings and files by package
	@$(PYTHON) -m benchmarks.size
docstrings:     ## public names without a sentence or without an example that runs
	$(PYTHON) -m benchmarks.docstrings
