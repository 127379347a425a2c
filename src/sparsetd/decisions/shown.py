"""How decisions are shown: a sentence where they are looked at, a page for people who do not program."""

from __future__ import annotations

import os
from importlib import import_module
from typing import Any, ClassVar

from sparsetd.storage.atomic import replace_file


class Decision:
    """What `Comparison` and `Improvement` share. The pages lie in a layer above, so they are looked up by name."""

    _page: ClassVar[str]

    def sentence(self) -> str:
        raise NotImplementedError

    def to_dict(self) -> dict[str, Any]:
        raise NotImplementedError

    def __repr__(self) -> str:
        return self.sentence()

    def save_report(self, path: str | os.PathLike[str]) -> None:
        """Write the page: one HTML file without anything beside it."""
        replace_file(path, self.page())

    def page(self, **settings: Any) -> str:
        """The page as text; `settings` stand at its end."""
        make = getattr(import_module("sparsetd.report.decision_page"), self._page)
        return str(make({**self.to_dict(), "settings": settings}))
