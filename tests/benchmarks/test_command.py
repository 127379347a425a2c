"""`python -m benchmarks NAME …` finds every benchmark, passes options on and refuses other names in one sentence."""

from __future__ import annotations

import importlib.util

import pytest

from benchmarks.__main__ import MODULES, NAMES, main


@pytest.mark.parametrize("name", NAMES)
def test_every_name_is_a_module(name):
    assert importlib.util.find_spec(f"benchmarks.{MODULES.get(name, name)}") is not None


def test_options_are_passed_on_and_the_exit_code_comes_back(capsys, monkeypatch):
    monkeypatch.setattr("sys.argv", ["untouched"])
    assert main(["trust", "--set", "report", "--list"]) == 0
    assert "well posed" in capsys.readouterr().out
    assert main(["trust", "--no-such-option"]) == 2


def test_another_name_gets_one_sentence(capsys):
    assert main(["sped"]) == 2
    err = capsys.readouterr().err
    assert "there is no benchmark 'sped': choose one of speed, quality" in err
    assert err.count("\n") == 1


def test_without_a_name_the_benchmarks_are_listed(capsys):
    assert main([]) == 0
    told = capsys.readouterr().out
    assert all(name in told for name in NAMES)
