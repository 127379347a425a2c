"""The page of the cautions is made of their table: `python docs/extensions/cautions_page.py > docs/cautions.md`."""

from __future__ import annotations

from sparsetd.evaluation.cautions import RULES


def page() -> str:
    """The table as a page of the documentation."""
    lines = [
        "# Cautions",
        "",
        "Every answer of `evaluate`, `compare`, `improve` and `sensitivity` runs all rules of this table that apply to",
        "it. **Red** means: do not use the answer. **Amber**: read it with this in mind. A **note** is worth knowing.",
        "The page is made from the table in `sparsetd.evaluation.cautions`. What no rule can test is on the page",
        "[Assumptions](assumptions.md).",
        "",
    ]
    for row in RULES:
        lines += [f"## {row.code}", "", row.means, "", f"*When:* {row.when}", "", f"*What to do:* {row.remedy}", ""]
    return "\n".join(lines)


if __name__ == "__main__":
    print(page(), end="")
