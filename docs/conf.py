"""Sphinx settings. Built strictly (`-W`): a broken reference or a malformed docstring fails the build."""

from __future__ import annotations

import sys
from importlib.metadata import version as installed_version
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "extensions"))

project = "sparsetd"
author = copyright = "The sparsetd developers"
release = version = installed_version("sparsetd")

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "numpydoc",
    "myst_parser",
    "inherited_parameters",
    "plain_mathematics",
]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
exclude_patterns = ["_build"]
templates_path = ["templates"]
nitpicky = False
default_role = "code"

myst_enable_extensions = ["dollarmath", "amsmath", "deflist"]
myst_heading_anchors = 3

# A package is documented by its `__all__`: a new operator, penalty or solver appears here by its one export line.
autosummary_generate = True
autosummary_ignore_module_all = False
autosummary_imported_members = True
autodoc_typehints = "none"
autodoc_member_order = "bysource"
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False

html_theme = "alabaster"
html_theme_options = {
    "description": "Sparse, off-policy-convergent linear value learning",
    "fixed_sidebar": True,
    "page_width": "1080px",
    "body_max_width": "820px",
}
html_show_sourcelink = False
