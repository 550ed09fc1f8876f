"""Sphinx settings: the Markdown pages of this directory as HTML, with references made from the source."""

import sys
from pathlib import Path

from sphinx.application import Sphinx

DOCS = Path(__file__).parent
sys.path[:0] = [str(DOCS), str(DOCS.parent / "src")]

project = "Motet"
author = copyright = "The Motet authors"
extensions = ["myst_parser", "sphinx.ext.autodoc"]
html_theme = "alabaster"
html_theme_options = {"description": "a semantic event cloud", "page_width": "1100px", "sidebar_collapse": True}
exclude_patterns = ["build"]
myst_enable_extensions = ["deflist"]
myst_heading_anchors = 3
autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"
suppress_warnings = ["misc.highlighting_failure"]  # ``` blocks of the motet language have no lexer


def add_commands(_: Sphinx, page: str, source: list[str]) -> None:
    """Append the reference of all commands, made from their parsers, to the page of that name."""
    if page == "commands":
        from command_reference import command_reference

        source[0] += "\n" + command_reference()


def setup(app: Sphinx) -> None:
    app.connect("source-read", add_commands)
