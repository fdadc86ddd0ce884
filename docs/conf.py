"""The documentation as a site: `make docs`. Nothing in it is loaded from elsewhere, so it works on a closed network."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

DOCS = Path(__file__).absolute().parent
sys.path.insert(0, str(DOCS))

from forebay import __version__  # noqa: E402
from generate import write_all  # noqa: E402
from generate.files import relinked  # noqa: E402

project, author, release = "Forebay", "the Forebay authors", __version__
extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["_build", "plugin", "generate"]
nitpicky = True
myst_heading_anchors = 4
myst_enable_extensions = ["deflist"]
highlight_language = "text"

html_theme = "furo"
html_title = f"Forebay {release}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = html_show_sourcelink = html_show_copyright = html_show_sphinx = False
pygments_style, pygments_dark_style = "tango", "github-dark"


def setup(app: Any) -> None:
    write_all(DOCS)
    app.connect("source-read", _link_to_files)


def _link_to_files(_: Any, name: str, source: list[str]) -> None:
    page = DOCS / f"{name}.md"
    source[0] = relinked(source[0], page, page, DOCS)
