"""Sphinx settings: the Markdown pages of this directory as HTML."""

project = "Motet"
author = copyright = "The Motet authors"
extensions = ["myst_parser"]
html_theme = "alabaster"
html_theme_options = {"description": "a semantic event cloud", "page_width": "1100px"}
exclude_patterns = ["build"]
myst_heading_anchors = 3
suppress_warnings = ["misc.highlighting_failure"]  # ``` blocks of the motet language have no lexer
