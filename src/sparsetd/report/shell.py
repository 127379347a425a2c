"""The frame of all pages: one style sheet, one short script, no outside resource.

The policy in `CSP` makes a browser refuse any request the page might make: it can be opened in a hospital. The fixed
words of the pages are in `texts.toml`.
"""

from __future__ import annotations

import tomllib
from html import escape
from importlib.resources import files
from typing import Any

CSP = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"


def _resource(name: str) -> str:
    return files("sparsetd.report").joinpath(name).read_text("utf-8")


TEXTS: dict[str, Any] = tomllib.loads(_resource("texts.toml"))
SAY: dict[str, str] = TEXTS["sentences"]


def shell(title: str, body: str) -> str:
    """A page of this look around a body whose header has the id `answer`."""
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f'<meta http-equiv="Content-Security-Policy" content="{CSP}">'
        f"<title>{escape(title)}</title><style>\n{_resource('page.css')}</style></head>"
        f'<body><a class="skip" href="#answer">Skip to the answer</a><main>{body}</main>'
        f'<div id="tip" aria-hidden="true" hidden></div><script>\n{_resource("page.js")}</script></body></html>\n'
    )
