"""The page that says where things are names files that are there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROWS = [line for line in (ROOT / "docs/where.md").read_text().splitlines() if line.startswith("| ")][1:]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.split("|")[1].strip())
def test_every_file_named_is_there(row: str) -> None:
    paths = re.findall(r"`([^`]+)`", row.split("|")[2])
    assert paths
    folder = ROOT / "src/forebay"
    for path in paths:  # a name without a folder is beside the path before it
        place = folder / path if "/" not in path else ROOT / "src/forebay" / path
        assert place.exists(), path
        folder = place if place.is_dir() else place.parent
