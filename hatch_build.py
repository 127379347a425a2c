"""The README as a package index shows it, where neither the project's files nor its pictures are found.

`home` in pyproject.toml is the address under which the files of the project can be read, and relative links and
pictures then point there. While it is empty, a link is its words and a picture its description.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

RELATIVE = re.compile(r"(?P<picture>!?)\[(?P<words>[^\]]*)\]\((?!\w+:|#)(?P<path>[^)\s]+)\)")


class CustomMetadataHook(MetadataHookInterface):
    def update(self, metadata: dict[str, Any]) -> None:
        text = Path(self.root, "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {"content-type": "text/markdown", "text": for_index(text, self.config["home"])}


def for_index(text: str, home: str) -> str:
    """The text with absolute links to files under `home`; without links where it is empty."""

    def resolved(found: re.Match[str]) -> str:
        picture, words, path = found["picture"], found["words"], found["path"]
        if not home:
            return f"*Picture: {words}.*" if picture else words
        return f"{picture}[{words}]({home.rstrip('/')}/{path}{'?raw=true' if picture else ''})"

    return RELATIVE.sub(resolved, text)
