"""Names as releases before the database kept them: a tree of small files."""

import json
import os
from collections.abc import Mapping
from pathlib import Path


def record(file: int | None, **fields: object) -> bytes:
    known = {"file": file, "layout": [1, 65536, 0], "mode": 0o640, "mtime": 1_000, "stamp": 7, "key": 3}
    return json.dumps(known | {"uid": None, "gid": None} | fields).encode().ljust(511) + b"\n"


def write_old_names(folder: Path, files: Mapping[str, int], **fields: object) -> None:
    """Write the names of these files, with their ids, and of the folders above them."""
    for name in ("names", "ids", "unlinked", "temp"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    put_folder(folder / "names")
    for path, file in files.items():
        place = folder / "names" / path
        for above in reversed(place.relative_to(folder / "names").parents[:-1]):
            put_folder(folder / "names" / above)
        place.write_bytes(record(file, **fields))
        link(folder, place, file)


def put_folder(place: Path) -> None:
    place.mkdir(exist_ok=True)
    (place / ".forebay-folder").write_bytes(record(None, mode=0o750, layout=[2, 131072, -1]))


def link(folder: Path, place: Path, file: int) -> None:
    by_id = folder / "ids" / f"{file:016x}"[:2] / f"{file:016x}"
    by_id.parent.mkdir(exist_ok=True)
    os.link(place, by_id)
