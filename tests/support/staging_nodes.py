"""Two nodes that stage files into a shared file system."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from forebay.act.staging.copier import Copier
from forebay.act.staging.folders import Folder
from forebay.act.staging.journal import Journal
from forebay.act.staging.path_pairs import find_trees
from forebay.act.staging.shared_folders import SharedFolder, open_shared
from forebay.model.layout import GRAIN

SERVERS, TAG, PIECE = 4, "tag.forebay", GRAIN + 1000
HERE = ((0, 1), (2, 3))
"""The servers whose volumes each of two nodes has."""
Status = tuple[int, int, object]


class Space:
    """The data servers of a shared file system, whose files are striped over all of them."""

    def __init__(self, folder: Path, key: str) -> None:
        self.folder, self.key = folder, key

    def volume(self, number: int) -> Path:
        return self.folder / f"data{number}"

    @contextmanager
    def opened(self, here: tuple[int, ...], journal: Journal, name: str = "other") -> Iterator[SharedFolder]:
        servers = [f"unix:{self.folder}/s{number}" for number in range(SERVERS)]
        volumes = {number: self.volume(number) for number in here}
        with open_shared(servers, self.key, name, volumes, journal, 20.0) as root:
            yield root

    def stage_in(self, source: Path, target: str, journals: tuple[int | None, int | None] = (None, None)) -> None:
        """As the agents of two nodes do it: all copy, and then the first one completes it."""
        with ExitStack() as stack:
            copiers = []
            for number, here in enumerate(HERE):
                journal = Journal(journals[number])
                root = stack.enter_context(self.opened(here, journal, f"node {number}"))
                trees, missing = find_trees("in", ((str(source), target),), [root])
                assert not missing
                copiers.append((Copier(journal, TAG, number=number, nodes=len(HERE)), trees))
                copiers[-1][0].copy(trees)
            copiers[0][0].settle(copiers[0][1])

    def stage_out(self, name: str, target: Path, here: tuple[int, ...] = ()) -> None:
        journal = Journal()
        with self.opened(here, journal) as root:
            trees, _ = find_trees("out", ((name, str(target)),), [root])
            made = Copier(journal, TAG)
            made.copy(trees)
            made.settle(trees)

    def names(self) -> dict[str, int]:
        """All files, by their paths, with their numbers; 0 of a folder."""
        found: dict[str, int] = {}

        def look(folder: Folder, path: str) -> None:
            for name, kind in folder.list_names():
                found[f"{path}{name}"] = folder.status(name).number
                if stat.S_ISDIR(kind):
                    look(folder.enter(name), f"{path}{name}/")

        with self.opened((), Journal()) as root:
            look(root, "")
        return found

    def objects(self) -> set[int]:
        """The numbers of all files that have objects."""
        return {int(path.name, 16) for number in range(SERVERS) for path in self.volume(number).glob("objects/*/*")}


def make_tree(path: Path) -> Path:
    (path / "folder").mkdir(parents=True)
    for number in range(5):
        (path / "folder" / f"small{number}").write_bytes(os.urandom(100 * number))
    (path / "large").write_bytes(os.urandom(5 * GRAIN + 17))
    (path / "holes").write_bytes(bytes(6 * GRAIN) + b"middle" + bytes(3 * GRAIN))
    (path / "folder" / "link").symlink_to("../large")
    (path / "large").chmod(0o640)
    (path / "folder").chmod(0o2750)
    os.utime(path / "folder", ns=(10**18, 10**18 + 7))
    return path


def tree(path: Path) -> dict[str, Status]:
    found: dict[str, Status] = {}
    for each in (path, *sorted(path.rglob("*"))):
        status = each.lstat()
        content = str(each.readlink()) if each.is_symlink() else each.read_bytes() if each.is_file() else None
        found[str(each.relative_to(path))] = (0 if each.is_symlink() else status.st_mtime_ns, status.st_mode, content)
    return found
