"""Copies files into a job's space before it starts and out of it afterwards, with the user's rights.

It follows no link inside the space, and creates no link that leads out of the copied tree.
"""

import errno
import os
import pwd
import stat
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from itertools import dropwhile
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from forebay.act.files import open_folder
from forebay.model.errors import BadInput, UserError, name_errors, why

KEPT = ".forebay-kept"
"""A file that marks a volume whose stage-out failed. The volume outlives its job, so that no data is lost."""
_PIECE = 1 << 20
_NEW = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
_NO_RANGES = frozenset({errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.EBADF})


class _Entry(NamedTuple):
    """A name in an open folder; `path` is its full path, for messages."""

    folder: int
    name: str
    path: str

    def mode(self) -> int:
        """Return its mode, or 0 if it does not exist."""
        try:
            return os.stat(self.name, dir_fd=self.folder, follow_symlinks=False).st_mode
        except OSError:
            return 0


def become_user(uid: int, gid: int) -> None:
    """Switch to that user permanently, with only that user's groups."""
    if uid == 0 or gid == 0:
        raise BadInput("uid", "must not be root's: files are copied only as an ordinary user")
    if os.geteuid() != 0:
        if (os.getuid(), os.getgid()) != (uid, gid):
            raise UserError(f"only root can copy as another user (uid {uid}), not uid {os.getuid()}; run it as root")
        return
    try:
        groups = os.getgrouplist(pwd.getpwuid(uid).pw_name, gid)
    except KeyError:
        groups = [gid]
    os.setgroups([group for group in groups if group != 0])
    os.setresgid(gid, gid, gid)
    os.setresuid(uid, uid, uid)


def stage_in(volume: Path, pairs: Sequence[tuple[str, str]]) -> None:
    """Copy each path on this machine to a name in the volume."""
    with _open_volume(volume) as root:
        for source, name in pairs:
            if not PurePosixPath(source).is_absolute():
                raise BadInput(source, "must be an absolute path")
            real = PurePosixPath(os.path.realpath(source))
            if not real.name:
                raise BadInput(source, "is the root folder; name a file or folder in it")
            with _find_in_volume(root, volume, name, make=True) as target, _open_folder(str(real.parent)) as folder:
                _copy(_Entry(folder, real.name, str(real)), target, depth=0)


def stage_out(volumes: Sequence[Path], pairs: Sequence[tuple[str, str]]) -> None:
    """Copy each name in the volumes to a path on this machine. If a copy fails, mark the first volume to be kept.

    If several volumes have a folder of that name, merge their files. A file that is in two volumes is an error, as one
    would overwrite the other.
    """
    with ExitStack() as stack:
        roots = [(stack.enter_context(_open_volume(volume)), volume) for volume in volumes]
        try:
            for name, target in pairs:
                _copy_all_out(roots, name, target)
        except UserError as error:
            with suppress(OSError):
                os.close(os.open(KEPT, _NEW, 0o600, dir_fd=roots[0][0]))
            places = ", ".join(map(str, volumes))
            raise UserError(f"{error}; the data stays in {places} until the grant ends") from None


def _copy_all_out(roots: Sequence[tuple[int, Path]], name: str, target: str) -> None:
    holders = [(root, volume) for root, volume in roots if os.path.lexists(volume / name)] or list(roots[:1])
    known: dict[str, Path] = {}
    for _, volume in holders if len(holders) > 1 else ():
        tree = os.walk(volume / name) if (volume / name).is_dir() else [(str(volume), [], [name])]
        for file in (os.path.relpath(f"{folder}/{each}", volume) for folder, _, names in tree for each in names):
            if file in known:
                raise BadInput(file, f"is in {known[file]} and in {volume}; give them different names")
            known[file] = volume
    place = PurePosixPath(target)
    if not place.is_absolute() or not place.name:
        raise BadInput(target, "must be an absolute path")
    for root, volume in holders:
        with _find_in_volume(root, volume, name) as source, _open_folder(str(place.parent)) as folder:
            _copy(source, _Entry(folder, place.name, target), depth=0)


def _open_volume(volume: Path) -> AbstractContextManager[int]:
    if not volume.is_absolute():
        raise BadInput(str(volume), "must be an absolute path")
    if not os.path.lexists(volume):
        raise BadInput(str(volume), "is not on this machine; run this where the volume is mounted")
    return _open_folder(str(volume), os.O_NOFOLLOW)


@contextmanager
def _open_folder(path: str, flags: int = 0) -> Iterator[int]:
    """Open a folder; its path may lead through links, as it is outside volumes."""
    with ExitStack() as stack:
        with name_errors(path):
            folder = stack.enter_context(open_folder(path, flags))
        yield folder


@contextmanager
def _find_in_volume(root: int, volume: Path, name: str, *, make: bool = False) -> Iterator[_Entry]:
    """Give the entry of a name in the volume. Open its folders one by one; none of them may be a link."""
    parts = PurePosixPath(name).parts
    if not parts or parts[0] == "/" or ".." in parts:
        raise BadInput(name, "must be a path inside the burst buffer")
    with ExitStack() as stack:
        folder, path = root, volume
        for part in parts[:-1]:
            path /= part
            folder = _enter(_Entry(folder, part, str(path)), stack, make=make)
        yield _Entry(folder, parts[-1], str(volume / name))


def _enter(entry: _Entry, stack: ExitStack, *, make: bool = False) -> int:
    """Open the folder, or create it with `make` if it is missing; the stack closes it."""
    try:
        if make:
            with suppress(FileExistsError):
                os.mkdir(entry.name, 0o700, dir_fd=entry.folder)
        folder = os.open(entry.name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=entry.folder)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR) and stat.S_ISLNK(entry.mode()):
            raise BadInput(entry.path, "is a link; staging does not follow links") from None
        raise BadInput(entry.path, why(error)) from None
    stack.callback(os.close, folder)
    return folder


def _copy(source: _Entry, target: _Entry, *, depth: int) -> None:
    """Copy an entry and everything in it; `depth` is its depth in the copied tree."""
    with name_errors(source.path):
        status = os.stat(source.name, dir_fd=source.folder, follow_symlinks=False)
    if stat.S_ISDIR(status.st_mode):
        _copy_folder(source, target, status, depth)
    elif stat.S_ISREG(status.st_mode):
        _copy_file(source, target)
    elif stat.S_ISLNK(status.st_mode):
        _copy_link(source, target, depth)
    else:
        raise BadInput(source.path, "is not a file, folder or link; leave it out")


def _copy_folder(source: _Entry, target: _Entry, status: os.stat_result, depth: int) -> None:
    with ExitStack() as stack:
        below, inside = _enter(source, stack), _enter(target, stack, make=True)
        with name_errors(source.path):
            names = sorted(os.listdir(below))  # noqa: PTH208 - of an open folder
        for name in names:
            inner = _Entry(below, name, f"{source.path}/{name}"), _Entry(inside, name, f"{target.path}/{name}")
            _copy(*inner, depth=depth + 1)
        _copy_status(inside, status, target.path)


def _copy_link(source: _Entry, target: _Entry, depth: int) -> None:
    with name_errors(source.path):
        destination = os.readlink(source.name, dir_fd=source.folder)
    if not is_inside(destination, depth):
        raise BadInput(source.path, f"is a link to {destination!r}, outside the copied tree; remove the link")
    with name_errors(target.path):
        if stat.S_ISLNK(target.mode()):
            os.unlink(target.name, dir_fd=target.folder)
        os.symlink(destination, target.name, dir_fd=target.folder)


def is_inside(destination: str, depth: int) -> bool:
    """Return whether a link in a folder `depth - 1` levels below the top leads to something below the top.

    Allow `..` only at the beginning: after a name, which may be a link itself, its destination is unknown.

    >>> is_inside("data/x", 1), is_inside("../x", 2), is_inside("../x", 1), is_inside("/etc/passwd", 9)
    (True, True, False, False)
    >>> is_inside("a/../x", 5)
    False
    """
    parts = [part for part in destination.split("/") if part not in ("", ".")]
    below = list(dropwhile(lambda part: part == "..", parts))
    return not destination.startswith("/") and ".." not in below and len(parts) - len(below) < depth


def _copy_file(source: _Entry, target: _Entry) -> None:
    """Copy under another name and rename the complete copy, so that no program reads an incomplete file."""
    part = f".{target.name[:200]}.{os.getpid()}.forebay"
    with ExitStack() as stack:
        with name_errors(source.path):
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            reader = os.open(source.name, flags, dir_fd=source.folder)
        stack.callback(os.close, reader)
        with name_errors(target.path):
            writer = os.open(part, _NEW | os.O_EXCL, 0o600, dir_fd=target.folder)
            stack.callback(os.close, writer)
            try:
                _copy_bytes(reader, writer)
                _copy_status(writer, os.fstat(reader), target.path)
                os.rename(part, target.name, src_dir_fd=target.folder, dst_dir_fd=target.folder)
            except BaseException:
                with suppress(OSError):
                    os.unlink(part, dir_fd=target.folder)
                raise


def _copy_bytes(reader: int, writer: int) -> None:
    try:
        while os.copy_file_range(reader, writer, 1 << 30):
            pass
    except OSError as error:
        if error.errno not in _NO_RANGES:
            raise
    # Copy what is left from where the kernel stopped; usually nothing.
    while piece := os.read(reader, _PIECE):
        left = memoryview(piece)
        while left:
            left = left[os.write(writer, left) :]


def _copy_status(copy: int, status: os.stat_result, path: str) -> None:
    """Give the copy the mode and the times of the original."""
    with name_errors(path):
        os.fchmod(copy, stat.S_IMODE(status.st_mode))
        os.utime(copy, ns=(status.st_atime_ns, status.st_mtime_ns))
