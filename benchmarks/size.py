"""How large the tree is: `python -m benchmarks.size [FOLDER …]` (`make size`).

Prints lines of code, lines of docstrings and files by package. A line counts as code if it holds anything but a
comment or a docstring; blank lines and comments count as nothing.
"""

from __future__ import annotations

import ast
import io
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
TREES = ("src/sparsetd", "reproduction", "benchmarks", "tests")
LAYOUT = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
DOCUMENTED = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def docstring_lines(text: str) -> set[int]:
    """Numbers of the lines that belong to docstrings."""
    nodes = [node for node in ast.walk(ast.parse(text)) if isinstance(node, DOCUMENTED)]
    strings = [node.body[0] for node in nodes if ast.get_docstring(node, clean=False) is not None]
    return {line for string in strings for line in range(string.lineno, (string.end_lineno or 0) + 1)}


def code_lines(text: str) -> set[int]:
    """Numbers of the lines with a token that is more than layout, docstrings included."""
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    spans = [(token.start[0], token.end[0]) for token in tokens if token.type not in LAYOUT]
    return {line for first, last in spans for line in range(first, last + 1)}


def sizes(tree: Path) -> dict[str, Counter[str]]:
    """Code, docstrings and files of each package of a tree; the files at its top are one package."""
    found: dict[str, Counter[str]] = {}
    for file in sorted(tree.rglob("*.py")):
        text = file.read_text(encoding="utf-8")
        documented = docstring_lines(text)
        parts = file.relative_to(tree).parts
        package = parts[0] if len(parts) > 1 else "(top)"
        counts = {"code": len(code_lines(text) - documented), "docstrings": len(documented), "files": 1}
        found.setdefault(package, Counter()).update(counts)
    return found


def table(tree: str) -> Iterator[str]:
    """The lines of one tree's table, largest package first."""
    packages = sizes(ROOT / tree)
    yield f"{tree:28s}{'code':>8s}{'docstrings':>12s}{'files':>7s}"
    total = sum(packages.values(), Counter())
    rows = sorted(packages.items(), key=lambda item: -item[1]["code"])
    for name, counts in [*rows, ("total", total)]:
        yield f"  {name:26s}{counts['code']:8,d}{counts['docstrings']:12,d}{counts['files']:7,d}"


if __name__ == "__main__":
    for folder in sys.argv[1:] or TREES:
        print("\n".join(table(folder)), end="\n\n")
