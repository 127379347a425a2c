"""What `import sparsetd` offers, and what it costs."""

from __future__ import annotations

import inspect
import subprocess
import sys
import tomllib
from importlib import import_module
from importlib.resources import files
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import sparsetd
from sparsetd import estimators, problems, selection


@pytest.mark.parametrize("name", sparsetd.__all__)
def test_every_public_name_loads(name: str) -> None:
    assert getattr(sparsetd, name) is not None
    assert name in dir(sparsetd)


def test_the_top_level_holds_what_people_look_for_and_the_packages_the_rest() -> None:
    assert {"TDC", "ROTD", "LSTD", "LinearTD", "read", "evaluate", "compare", "save"} <= set(sparsetd.__all__)
    assert {"RALP", "LCPTD", "fit_stream"} <= set(estimators.__all__)
    assert len(sparsetd.__all__) <= 46
    assert sorted(dir(sparsetd)) == sparsetd.__all__


def _packages() -> list[str]:
    found = [f"sparsetd.{name}" for name in sparsetd.__all__ if isinstance(getattr(sparsetd, name), ModuleType)]
    return ["sparsetd", *(name for name in found if hasattr(import_module(name), "__path__"))]


@pytest.mark.parametrize("package", _packages())
def test_dir_of_a_package_shows_public_names_only(package: str) -> None:
    assert dir(import_module(package)) == sorted(import_module(package).__all__)


def _old_names() -> list[tuple[str, str]]:
    known = tomllib.loads(files("sparsetd._tools").joinpath("old_names.toml").read_text())
    return [(package, name) for package, names in known.items() if package.startswith("sparsetd") for name in names]


@pytest.mark.parametrize(("package", "old"), _old_names())
def test_an_old_name_says_where_it_is_now(package: str, old: str) -> None:
    """Also as a module, and in the form `from … import`, which drops the sentence of an AttributeError."""
    sentence = f"{package}.{old} is now .+"
    with pytest.raises(ModuleNotFoundError, match=sentence):
        import_module(f"{package}.{old}")
    if old in dir(import_module(package)):  # a function in the place of a module
        return
    with pytest.raises(ModuleNotFoundError, match=sentence):
        __import__(package, fromlist=[old])  # this is what `from package import old` runs
    with pytest.raises(AttributeError, match=sentence):
        getattr(import_module(package), old)


@pytest.mark.parametrize(
    ("function", "old", "new"),
    [
        (sparsetd.evaluate, "seed", "random_state"),
        (sparsetd.evaluate, "policy", "target"),
        (sparsetd.compare, "policies", "targets"),
        (sparsetd.compare, "n_splits", "n_folds"),
        (sparsetd.improve, "rng", "random_state"),
        (sparsetd.sensitivity, "cv", "n_folds"),
        (sparsetd.sweep, "jobs", "n_jobs"),
        (sparsetd.sweep, "seeds", "n_runs"),
        (sparsetd.LSTD, "rho_theta", "alpha"),
        (sparsetd.SparseTDSelect, "cv", "n_folds"),
        (selection.stability_selection, "n_halves", "n_resamples"),
        (selection.summary, "n_halves", "n_resamples"),
        (selection.value_interval, "method", "leave it out"),
        (estimators.fit_stream, "batches_per_save", "seconds_per_save"),
        (problems.random_walk, "basis", "reproduction.walk_bases.walk"),
    ],
)
def test_an_old_argument_says_what_to_write(function: Any, old: str, new: str) -> None:
    with pytest.raises(TypeError, match=f"has no parameter {old} since version 0.3: .*{new}"):
        function(**{old: 1})


def test_an_argument_that_never_was_is_refused_as_python_does() -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument 'seed'"):
        sparsetd.TDC(seed=1)  # type: ignore[call-arg]  # it has no random_state either


def test_every_estimator_says_what_it_solves_first() -> None:
    for name in estimators.__all__:
        if inspect.isclass(value := getattr(estimators, name)):  # a dataclass without a docstring gets its signature
            assert not (value.__doc__ or f"{name}(").startswith(f"{name}("), name


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'NoSuchThing'"):
        _ = sparsetd.NoSuchThing


def test_importing_the_package_imports_nothing_heavy() -> None:
    code = "import sys, sparsetd; print(sorted({'numba', 'sklearn', 'scipy', 'numpy'} & set(sys.modules)))"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


def test_the_version_is_the_same_everywhere() -> None:
    root = Path(__file__).parents[1]
    declared = tomllib.loads((root / "pyproject.toml").read_text())["project"]["version"]
    assert sparsetd.__version__ == declared
    assert f"## [{declared}]" in (root / "CHANGELOG.md").read_text()
    assert f"version: {declared}" in (root / "CITATION.cff").read_text()


def test_a_type_checker_sees_a_misspelt_parameter(tmp_path: Path) -> None:
    mypy = pytest.importorskip("mypy.api")
    script = tmp_path / "typed.py"
    script.write_text("from sparsetd import TDC\nTDC(gamma=0.9).fit([[1.0]], [1.0]).predict([[1.0]])\nTDC(gama=0.9)\n")
    config = str(Path(__file__).parents[1] / "pyproject.toml")
    said, _, status = mypy.run(["--config-file", config, str(script)])
    assert status == 1
    assert 'typed.py:3: error: Unexpected keyword argument "gama" for "TDC"' in said
    assert "Found 1 error" in said
