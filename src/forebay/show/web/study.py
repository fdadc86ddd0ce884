"""A finished study as the page shows it: what it concluded, its figures, its report, its tables."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from forebay.model.errors import BadInput

Document = dict[str, Any]
_KINDS = (".png", ".html", ".csv", ".json", ".parquet", ".pdf")
_FIGURE = re.compile(r"figure-(\w+?)-(.+)\.png")


class Study:
    """The folder that `forebay study` wrote."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        try:
            self._told = json.loads((folder / "results.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            raise BadInput(str(folder), "has no results.json of a study") from None
        if not isinstance(self._told, dict):
            raise BadInput(str(folder / "results.json"), "is not of a study")

    def answer(self, path: str, _: Mapping[str, str]) -> Document | None:
        return {"reading": self._reading()} if path == "/v1/page" else None

    def _reading(self) -> Document:
        files = sorted(path.name for path in self._folder.iterdir() if path.suffix in _KINDS)
        figures = [{"file": name, "title": title(name)} for name in files if _FIGURE.fullmatch(name)]
        return {
            "kind": "study",
            "name": self._folder.absolute().name,
            "study": str(self._told.get("study", "")),
            "conclusions": self._told.get("conclusions") or [],
            "settings": self._told.get("settings") or {},
            "figures": figures,
            "files": files,
        }

    def file(self, name: str) -> Path | None:
        """One of the study's own files."""
        path = self._folder / name
        return path if "/" not in name and path.suffix in _KINDS and path.is_file() else None


def title(name: str) -> str:
    """
    >>> title("figure-05-mean-io-slowdown.png")
    'Figure 5: mean io slowdown'
    """
    match = _FIGURE.fullmatch(name)
    assert match is not None
    return f"Figure {match[1].lstrip('0') or '0'}: {match[2].replace('-', ' ')}"
