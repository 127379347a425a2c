"""Sentences that nobody would say to a colleague: `python -m benchmarks.prose [FILE or FOLDER …]`.

The command reads the docstrings, comments and messages of Python files and the paragraphs of Markdown pages (`PLACES`
unless paths are given). It prints every inverted or telegraphic sentence that the table of patterns knows, and
names the private helpers with a docstring that only repeats their name. It ends with a count for every package, and
fails if it found anything.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
FUNCTIONS = ast.FunctionDef | ast.AsyncFunctionDef
DOCUMENTED = ast.Module | ast.ClassDef | FUNCTIONS
PLACES = ("src", "docs", "benchmarks", "reproduction", "examples", "README.md", "CHANGELOG.md", "CONTRIBUTING.md")
# What is wrong, and how it looks. A pattern is searched in one sentence, with code spans replaced by «code».
PATTERNS = {
    "a clause hangs on a preposition and its 'which'": (
        r"\b(?!none|some|both|each|most|all)[\w»]+,? of which\b|\b(at or (below|above)|beyond|than) which\b"
    ),
    "the words `what … leaves of` are a riddle": r"\bwhat\b[^.,;]{1,60}\bleaves? of\b",
    "the sentence ends with a preposition": r"(?<!made )\bof[.;:]( |$)",
    "the clause `that is none` says nothing": r"\b(that|which) (is|are|was|were) none\b",
    "the object stands before its subject": r"(^|[:;] )(More|Less|Fewer|Larger|Smaller) than [^,]{1,30} (it|they|one) ",
    "the sentence begins with an inversion": r"^(Of (?!course\b|[a-z0-9 ]{1,25}, )|Whose\b|Than\b)",
    "the words 'Return what' do not say what": r"^Returns? what\b",
    "the words `but for` are old-fashioned": r"(?<!, )\bbut for\b|\b([Aa]ll|[Ee]very|[Nn]one)\b[^.;]*, but for\b",
    "an adverb comes from a contract": r"\b(there|where|here)(of|in|by)\b",
    "the words `say otherwise of` are a riddle": r"\b(says?|said) (nothing|anything) of\b|\botherwise of\b",
    "a verb stands before its subject": (
        r"(^|, |; )([Nn]or|and so) (is|are|was|were|does|do|did|can|may|has|have|will|would) "
    ),
    "the word `away` is torn from its verb": r"\b[Ee]xplain(s|ed)? (?!away)[^.,;:]{3,90} away\b",
    "a clause hangs on a preposition and its 'whose'": r"\b(in|of|by|with|from|on) whose\b",
    "the words `nothing but` are a riddle": r"\bnothing but\b",
    "a participle has no subject": (
        r"^(Killed|Given|Left|Asked|Held|Seen|Taken)\b(?!-)[^,.:]{0,60}, (the|a|an|it|they|we|you) "
    ),
    "the subject is a clause that ends with a preposition": (
        r"^What [^?.,]{1,60} (by|of|for|from|with) (is|are|was|were)\b"
    ),
    "the words `as … as its use` are a riddle": r"\bas \w+ as its use\b",
}
STOP_WORDS = frozenset(("a", "an", "the", "of", "and", "or", "to", "in", "for", "with", "from", "by", "is", "are"))


def complaints(text: str) -> Iterator[tuple[str, str]]:
    """(what is wrong, sentence) for every sentence of a text."""
    plain = re.sub(r"``[^`]*``|`[^`]*`", "«code»", " ".join(text.split()))
    for sentence in re.split(r"(?<=[.!?])\s+(?=[A-Z«(])", plain):
        yield from ((what, sentence) for what, pattern in PATTERNS.items() if re.search(pattern, sentence))


def of_python(source: str) -> Iterator[tuple[str, str]]:
    """The complaints about docstrings, comments and messages of a file."""
    tree = ast.parse(source)
    docstrings = set()
    for node in ast.walk(tree):
        if isinstance(node, DOCUMENTED) and (text := ast.get_docstring(node)) is not None:
            docstrings.add(id(node.body[0].value))  # type: ignore[attr-defined]
            for paragraph in _paragraphs(text):
                yield from complaints(paragraph)
            if isinstance(node, FUNCTIONS) and _repeats(node.name, text):
                yield "the docstring only repeats the name", f"{node.name}: {text}"
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            yield from complaints(node.value)
    for comment in _comments(source):
        yield from complaints(comment)


def of_markdown(text: str) -> Iterator[tuple[str, str]]:
    """The complaints about the paragraphs of a page; code, headings and tables are left out."""
    without_blocks = re.sub(r"^(```|:::)[\s\S]*?^\1$", "", text, flags=re.MULTILINE)
    prose = re.sub(r"^\s*[|#].*$|^ {4}.*$|\]\([^)]*\)", "", without_blocks, flags=re.MULTILINE)
    for paragraph in re.split(r"\n\s*\n|^\s*[-*] ", prose, flags=re.MULTILINE):
        yield from complaints(paragraph)


def found_in(path: Path) -> list[tuple[str, str]]:
    """All complaints about a file."""
    text = path.read_text(encoding="utf-8")
    return list(of_python(text) if path.suffix == ".py" else of_markdown(text))


def _paragraphs(docstring: str) -> list[str]:
    """Paragraphs without examples and formulas, which are indented."""
    examples = (">>>", "...", "    ")
    return re.split(r"\n\s*\n", "\n".join(line for line in docstring.splitlines() if not line.startswith(examples)))


def _comments(source: str) -> list[str]:
    """Comments; those that fill neighbouring lines are one."""
    found: list[str] = []
    last = -1
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            (line, column), words = token.start, token.string.lstrip("# ")
            fills = not token.line[:column].strip()
            if fills and line == last + 1:
                found[-1] += f" {words}"
            else:
                found.append(words)
            last = line if fills else -1
    return found


def _repeats(name: str, docstring: str) -> bool:
    """Whether every word of a private helper's one line is in its name already."""
    if not name.startswith("_") or name.startswith("__") or "\n" in docstring:
        return False
    said = {word[:4] for word in re.findall(r"[a-z]+", docstring.lower()) if word not in STOP_WORDS}
    return said <= {word[:4] for word in name.lower().split("_") if word}


def files(paths: list[Path]) -> list[Path]:
    """The Python files and pages under some paths."""
    found = [file for path in paths for file in ([path] if path.is_file() else sorted(path.rglob("*")))]
    return [file for file in found if file.suffix in (".py", ".md") and "_build" not in file.parts]


def main() -> int:
    """Print the complaints and their counts; return 1 if there are any."""
    paths = [Path(word) for word in sys.argv[1:]] or [ROOT / place for place in PLACES]
    counts: Counter[str] = Counter()
    for file in files(paths):
        for what, sentence in found_in(file):
            print(f"{file}: {what}: {sentence}")
            counts[str(file.parent)] += 1
    for folder, count in counts.most_common():
        print(f"{count:5d}  {folder}")
    return int(bool(counts))


if __name__ == "__main__":
    sys.exit(main())
