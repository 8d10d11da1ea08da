"""The documentation site, built by `./xoff docs`. Its source folder is the repository's root, so that a link between
pages is the same on the site and in a repository's browser."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "docs")]

import testbed  # noqa: E402

project = "Xoff"
copyright = "The Xoff contributors, Apache-2.0"
version = release = testbed.__version__
root_doc = "docs/index"
extensions = ["myst_parser", "sphinx.ext.autodoc", "site_extension"]
source_suffix = {".md": "markdown"}
include_patterns = [
    *("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", "CODE_OF_CONDUCT.md"),
    *("docs/**", "lessons/**"),
]
exclude_patterns = ["**/__pycache__", "docs/_*"]
smartquotes = False  # -- is an option

myst_enable_extensions = ["colon_fence", "attrs_block"]
myst_heading_anchors = 4

default_role = "code"  # docstrings are written with single backquotes
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
autodoc_mock_imports = ["mininet"]
"""Mininet is only in the lab."""

html_theme = "furo"
html_title = f"Xoff {release}"
html_static_path = ["_static"]
html_css_files = ["xoff.css"]
html_copy_source = False
html_show_sourcelink = False
html_theme_options = {"navigation_with_keys": True}
pygments_style = "default"
pygments_dark_style = "github-dark"
