"""Folders of the user that runs Forebay."""

import os
from pathlib import Path


def cache_folder(name: str) -> Path:
    """The folder for data that Forebay can compute again. Raises RuntimeError if the user has no home."""
    base = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (base if base.is_absolute() else Path.home() / ".cache") / "forebay" / name
