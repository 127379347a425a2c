"""What `import sparsetd` offers, and what it costs."""

from __future__ import annotations

import inspect
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import sparsetd
from sparsetd import control, estimators, features, metrics, problems


@pytest.mark.parametrize("name", sparsetd.__all__)
def test_every_public_name_loads(name: str) -> None:
    assert getattr(sparsetd, name) is not None
    assert name in dir(sparsetd)


def test_the_top_level_holds_what_people_look_for_and_the_packages_the_rest() -> None:
    assert {"TDC", "ROTD", "LSTD", "LinearTD", "read", "evaluate", "compare", "save"} <= set(sparsetd.__all__)
    assert {"RALP", "LCPTD", "fit_stream"} <= set(estimators.__all__)
    assert len(sparsetd.__all__) <= 46
    assert sorted(dir(sparsetd)) == sparsetd.__all__


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("RALP", "sparsetd.estimators.RALP"),
        ("checks", "tests/laws"),
        ("testing", "check_estimator"),
        ("transitions", "logs"),
        ("SparseTDCV", "SparseTDSelect"),
    ],
)
def test_an_old_name_says_where_it_is_now(old: str, new: str) -> None:
    with pytest.raises(AttributeError, match=f"sparsetd.{old} is now .*{new}"):
        getattr(sparsetd, old)


def test_what_moved_to_the_reproduction_says_so() -> None:
    moved = ((control, "actor_critic"), (control, "SoftmaxActor"), (problems, "triple_link"), (metrics, "duality_gap"))
    for package, name in moved:
        with pytest.raises(AttributeError, match=f"{name} is now reproduction.* in a clone"):
            getattr(package, name)


def test_what_another_name_does_as_well_says_which() -> None:
    for package, name, new in (
        (features, "ActionBlocks", "action_blocks"),
        (metrics, "ExactSystem", "FiniteMDP.chain"),
    ):
        with pytest.raises(AttributeError, match=f"{name} is now .*{new}"):
            getattr(package, name)


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
