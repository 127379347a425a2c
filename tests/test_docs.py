"""The documentation cannot rot: its code runs, and the names it mentions exist."""

from __future__ import annotations

import ast
import contextlib
import doctest
import functools
import importlib
import io
import re
import runpy
import shlex
import subprocess
import sys
import tomllib
import types
from dataclasses import dataclass
from pathlib import Path

import pytest

import benchmarks.__main__
import reproduction.__main__
from sparsetd.cli import main

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
PAPER_MAP, ERRATA = ROOT / "docs" / "paper-map.md", ROOT / "docs" / "errata.md"
PROGRAMS = {
    "sparsetd ": main,
    "python -m reproduction ": reproduction.__main__.main,
    "python -m benchmarks ": benchmarks.__main__.main,
}
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, its text, its line and the output that the page promises for it."""

    language: str
    text: str
    line: int
    output: str | None


def blocks(page: Path) -> list[Block]:
    text = page.read_text()
    found = list(FENCE.finditer(text))
    following = [*found[1:], None]
    return [
        Block(this[1], this[2], text.count("\n", 0, this.start()) + 1, _promised(text, this, after))
        for this, after in zip(found, following, strict=False)
    ]


def _promised(text: str, this: re.Match[str], after: re.Match[str] | None) -> str | None:
    """The next block, if it is `text` and nothing but space stands in between."""
    adjacent = after is not None and after[1] == "text" and not text[this.end() : after.start()].strip()
    return after[2] if adjacent else None


def commands(block: Block) -> list[str]:
    """The lines of a shell block that call this repository's programs: other lines install things."""
    return [line for line in block.text.splitlines() if line.startswith(tuple(PROGRAMS))]


def call(line: str) -> int:
    """Run such a line in this process and return its exit code."""
    program = next(words for words in PROGRAMS if line.startswith(words))
    return PROGRAMS[program](shlex.split(line.removeprefix(program), comments=True))


def runnable(page: Path) -> bool:
    return any(block.language == "python" or (block.language == "bash" and commands(block)) for block in blocks(page))


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", [page for page in PAGES if runnable(page)], ids=name)
def test_the_blocks_of_a_page_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In order, in one folder, sharing their names: as a reader would type them. What a page promises is printed."""
    monkeypatch.chdir(tmp_path)
    script = types.ModuleType("__main__")  # what a block defines can be pickled, as in a script
    monkeypatch.setitem(sys.modules, "__main__", script)
    for block in blocks(page):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            if block.language == "python":
                padded = "\n" * block.line + block.text  # so that a traceback shows the line of the page
                exec(compile(padded, str(page), "exec"), vars(script))  # noqa: S102 (our own pages)
            elif block.language == "bash":
                for line in commands(block):
                    assert call(line) == 0, line
        if block.output is not None:
            assert printed.getvalue() == block.output, f"{name(page)}:{block.line} prints something else"


def modules_with_examples() -> list[str]:
    source = ROOT / "src"
    files = [file for file in sorted(source.rglob("*.py")) if ">>>" in file.read_text()]
    return [".".join(file.relative_to(source).with_suffix("").parts) for file in files]


@pytest.mark.parametrize("module", modules_with_examples())
def test_examples_in_docstrings_are_true(module: str) -> None:
    failed, tried = doctest.testmod(importlib.import_module(module))
    assert tried
    assert not failed


def test_the_page_of_a_package_index_has_no_relative_links(monkeypatch: pytest.MonkeyPatch) -> None:
    names = ["hatchling", "metadata", "plugin", "interface"]
    for i in range(len(names)):  # the builder is installed where the package is built
        monkeypatch.setitem(sys.modules, ".".join(names[: i + 1]), types.ModuleType(names[i]))
    sys.modules[".".join(names)].MetadataHookInterface = object  # type: ignore[attr-defined]
    for_index = runpy.run_path(str(ROOT / "hatch_build.py"))["for_index"]
    relative, text = re.compile(r"\]\((?!https?:)"), (ROOT / "README.md").read_text()
    assert relative.search(text)
    assert not relative.search(for_index(text, ""))
    linked = for_index(text, "https://example.org/blob/main")
    assert not relative.search(linked)
    assert "(https://example.org/blob/main/docs/_static/demo.png?raw=true)" in linked
    assert "(https://example.org/blob/main/docs/install.md)" in linked


def test_ci_runs_the_test_command_of_the_readme() -> None:
    [command] = [line for block in blocks(ROOT / "README.md") for line in block.text.splitlines() if "pytest" in line]
    assert command in (ROOT / ".ci" / "run").read_text().splitlines()
    assert command in (ROOT / "docs" / "install.md").read_text().splitlines()


def test_the_tests_that_ci_names_exist() -> None:
    arrays = re.findall(r"^\w+=\((.*?)\)$", (ROOT / ".ci" / "run").read_text(), re.MULTILINE | re.DOTALL)
    shown = subprocess.run(
        ["bash", "-c", f"printf '%s\\n' {' '.join(arrays)}".replace("\n", " ")],
        capture_output=True,
        text=True,
        check=True,
    )
    named = shown.stdout.split()
    assert len(named) > 10
    assert not [name for name in named if not (ROOT / name).exists()]


def test_the_layers_that_contributors_read_are_those_that_are_checked() -> None:
    contract = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"][0]
    text = " ".join((ROOT / "CONTRIBUTING.md").read_text().split())
    assert " > ".join(contract["layers"]) in text


def test_the_demo_command_is_the_same_everywhere() -> None:
    [command] = [line for line in (ROOT / "README.md").read_text().splitlines() if line.endswith("/sparsetd demo")]
    assert command in (ROOT / "docs" / "install.md").read_text().splitlines()


def backticked(text: str) -> list[str]:
    return re.findall(r"`([^`]+)`", text)


def mentioned_functions(page: Path) -> list[str]:
    return sorted({word for word in backticked(page.read_text()) if re.fullmatch(r"sparsetd(\.\w+)+", word)})


def mentioned_tests(page: Path) -> list[str]:
    return sorted({word for word in backticked(page.read_text()) if re.match(r"tests/[\w/]+\.py", word)})


@pytest.mark.parametrize("page", [PAPER_MAP, ERRATA, ROOT / "docs" / "deviations.md"], ids=name)
def test_mentioned_functions_exist(page: Path) -> None:
    missing = [path for path in mentioned_functions(page) if not _resolves(path)]
    assert not missing, f"{name(page)} names {missing}, which cannot be imported"


@pytest.mark.parametrize("page", [PAPER_MAP, ERRATA, ROOT / "docs" / "deviations.md"], ids=name)
def test_mentioned_tests_exist(page: Path) -> None:
    missing = [path for path in mentioned_tests(page) if not _is_a_test(path)]
    assert not missing, f"{name(page)} names {missing}, which pytest would not collect"


def _resolves(path: str) -> bool:
    """Whether `sparsetd.a.b.c` is a module, a member of one or an attribute of such a member."""
    parts = path.split(".")
    for split in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:split]))
        except ModuleNotFoundError:
            continue
        try:
            functools.reduce(getattr, parts[split:], found)
        except AttributeError:
            return False
        return True
    return False


def _is_a_test(path: str) -> bool:
    """Whether `tests/….py` exists and, after `::`, defines that function or class (or method of it)."""
    file, *inside = path.split("::")
    if not (ROOT / file).is_file():
        return False
    scope = _definitions(ROOT / file)
    return not inside or "::".join(inside) in scope


@functools.cache
def _definitions(file: Path) -> frozenset[str]:
    kinds = (ast.FunctionDef, ast.ClassDef)
    top = [node for node in ast.parse(file.read_text()).body if isinstance(node, kinds)]
    inner = [f"{node.name}::{item.name}" for node in top for item in node.body if isinstance(item, kinds)]
    return frozenset([node.name for node in top] + inner)


def test_every_erratum_names_its_test() -> None:
    sections = re.split(r"^## E(\d+)\. ", ERRATA.read_text(), flags=re.MULTILINE)[1:]
    texts = dict(zip(map(int, sections[::2]), sections[1::2], strict=True))
    assert sorted(texts) == list(range(1, 24))
    untested = [number for number, text in texts.items() if "tests/" not in text]
    assert untested == [22]  # a remark that corrects nothing


def test_every_label_of_the_paper_is_mapped() -> None:
    """The labels of the LaTeX source, written down here because the source does not travel with the library."""
    labels = {"mspbe", "linearproximal", "l2proj", "twothreshold", "TH1"}
    labels |= {"fig:notationmsma", "fig:STAR", "tab:mcar", "table1", "alg: RO-TD", "alg: RO-GQ"}
    labels |= {"eq:w", "eq:TDCupdate", "eq:0", "eq:1gw", "eq:minimax", "eq:minimaxFOM", "eq:abc", "eq:UNIFY"}
    labels |= {"eq:lossfunc", "eq:regminimax", "eq:RO-TD", "eq:averaging", "eq:ytAt", "eq:Atxt-bt", "eq:gq"}
    labels |= {"eq:gqObj", "eq:gqAb", "eq:gqcase", "eq:formula2", "eq:ROTD2"}
    assert not labels - set(backticked(PAPER_MAP.read_text()))


def test_every_public_module_is_in_the_reference(monkeypatch: pytest.MonkeyPatch) -> None:
    """The build itself fails for a single name without a page; this finds a whole module that was left out."""
    monkeypatch.syspath_prepend(str(ROOT / "docs" / "extensions"))
    reference = importlib.import_module("complete_reference")
    listed = set(re.findall(r"^ +(sparsetd[.\w]+)$", (ROOT / "docs" / "api.md").read_text(), re.MULTILINE))
    assert len(reference.modules()) > 10
    assert not set(reference.modules()) - listed


def test_every_extra_is_explained() -> None:
    import tomllib

    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    table = [line for line in (ROOT / "docs" / "install.md").read_text().splitlines() if line.startswith("| `")]
    explained = {word for line in table for word in backticked(line.split("|")[1])}
    assert explained == set(extras)
