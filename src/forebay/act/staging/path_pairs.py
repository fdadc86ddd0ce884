"""Finds what a staging's pairs of paths mean: entries of folders outside the space, and in it."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath

from forebay.act.staging.copier import Tree
from forebay.act.staging.folders import Entry, Folder
from forebay.act.staging.local_folders import LocalFolder
from forebay.model.errors import BadInput, name_errors
from forebay.model.staging import Pairs, Way, check_pairs


def open_volume(path: str) -> LocalFolder:
    """Open the top folder of a volume."""
    if not PurePosixPath(path).is_absolute():
        raise BadInput(path, "must be an absolute path")
    if not os.path.lexists(path):
        raise BadInput(path, "is not on this machine; run this where the volume is mounted")
    with name_errors(path):
        return LocalFolder.open_path(path, is_link_allowed=False)


def find_trees(way: Way, pairs: Pairs, roots: Sequence[Folder]) -> tuple[list[Tree], list[int]]:
    """The trees to copy, and the numbers of pairs of whose source there is nothing here.

    Into the space, files go below the first of the `roots`. Out of it they come from all of them; a file that is below
    two of them is an error, as one copy would overwrite the other.
    """
    check_pairs(way, pairs)
    if way == "in":
        sources = [_open_outside(os.path.realpath(source)) for source, _ in pairs]
        targets = [_find_inside(roots[0], name, make=True) for _, name in pairs]
        missing = [number for number, source in enumerate(sources) if not _is_there(source)]
        ends = enumerate(zip(sources, targets, strict=True))
        return [Tree(*end, str(number)) for number, end in ends if number not in missing], missing
    trees, missing = list[Tree](), list[int]()
    for number, (name, target) in enumerate(pairs):
        entries = [entry for root in roots if (entry := _look_inside(root, name)) is not None]
        if not entries:
            missing.append(number)
            continue
        if len(entries) > 1:
            _check_apart(entries, name)
        place = _open_outside(target)
        trees += [Tree(entry, place, str(number)) for entry in entries]
    return trees, missing


def find_targets(way: Way, pairs: Pairs, roots: Sequence[Folder]) -> dict[str, Entry]:
    """The targets of the trees by their labels."""
    if way == "out":
        return {str(number): _open_outside(target) for number, (_, target) in enumerate(pairs)}
    return {str(number): _find_inside(roots[0], name) for number, (_, name) in enumerate(pairs)}


def _is_there(entry: Entry) -> bool:
    with name_errors(entry.path):
        try:
            entry.folder.status(entry.name)
        except FileNotFoundError:
            return False
    return True


def _open_outside(path: str) -> Entry:
    place = PurePosixPath(path)
    folder = str(place.parent)
    with name_errors(folder):
        return Entry(LocalFolder.open_path(folder), place.name)


def _find_inside(root: Folder, name: str, *, make: bool = False) -> Entry:
    """Find the entry of a name in the space. Open its folders one by one; none of them may be a link."""
    folder, names = root, PurePosixPath(name).parts
    for part in names[:-1]:
        with name_errors(f"{folder.path.rstrip('/')}/{part}"):
            folder = folder.enter(part, make=make)
    return Entry(folder, names[-1])


def _look_inside(root: Folder, name: str) -> Entry | None:
    """Find a name that exists in the space; None if it does not."""
    folder, names = root, PurePosixPath(name).parts
    for part in names[:-1]:
        with name_errors(f"{folder.path.rstrip('/')}/{part}"):
            try:
                folder = folder.enter(part)
            except FileNotFoundError:
                return None
    entry = Entry(folder, names[-1])
    return entry if _is_there(entry) else None


def _check_apart(entries: Sequence[Entry], name: str) -> None:
    known: dict[str, Entry] = {}
    for entry in entries:
        for file in _list_files(entry, name):
            other = known.setdefault(file, entry)
            if other is not entry:
                first, second = (each.path.removesuffix(f"/{name}") for each in (other, entry))
                raise BadInput(file, f"is in {first} and in {second}; give them different names")


def _list_files(entry: Entry, path: str) -> Iterator[str]:
    with name_errors(entry.path):
        if not stat.S_ISDIR(entry.folder.status(entry.name).mode):
            yield path
            return
        folder = entry.folder.enter(entry.name)
        for name, _ in folder.list_names():
            yield from _list_files(Entry(folder, name), f"{path}/{name}")
