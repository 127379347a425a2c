"""The page of the command line is made of what `sparsetd COMMAND --help` prints."""

from __future__ import annotations

from pathlib import Path

from sphinx.application import Sphinx

INTRODUCTION = """\
# Command line

Every command prints its answer on standard output and its progress on standard error. `--json` turns the answer into
one JSON object. The exit code is 0 for success, 1 for a failure and 2 for wrong input.
"""


def page() -> str:
    """The help of every command, one section each."""
    from sparsetd.cli.command import COMMANDS, build_parser

    sections = [INTRODUCTION]
    for name in COMMANDS:
        parser = build_parser([name])
        [verbs] = [action for action in parser._actions if action.dest == "verb"]
        sections.append(f"## {name}\n\n```text\n{verbs.choices[name].format_help().rstrip()}\n```\n")
    return "\n".join(sections)


def write(app: Sphinx) -> None:
    path = Path(app.srcdir) / "api" / "generated" / "command-line.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(page())


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("builder-inited", write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
