"""Files into a job's space before it starts, and out of it afterwards: copied as the user, who may read what they may.

Nothing is reached through a link inside the space, and no link that leads out of what is copied is made.
"""

from __future__ import annotations

import errno
import os
import pwd
import stat
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path, PurePosixPath

from forebay.model.errors import BadInput, UserError, why

KEPT = ".forebay-kept"
"""A file in a volume whose stage-out failed: it is not given back with its job, so that nothing of it is lost."""
_PIECE = 1 << 20
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NO_RANGES = frozenset({errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.EBADF})


def become(uid: int, gid: int) -> None:
    """Be that user from now on, with the groups of that user and no others. There is no way back."""
    if uid == 0 or gid == 0:
        raise BadInput("uid", "nothing is copied as root")
    if os.geteuid() != 0:
        if (os.getuid(), os.getgid()) != (uid, gid):
            raise UserError(f"only root can copy as another user (uid {uid}); this is uid {os.getuid()}")
        return
    try:
        groups = os.getgrouplist(pwd.getpwuid(uid).pw_name, gid)
    except KeyError:
        groups = [gid]
    os.setgroups([group for group in groups if group != 0])
    os.setresgid(gid, gid, gid)
    os.setresuid(uid, uid, uid)


def stage_in(volume: Path, pairs: Sequence[tuple[str, str]]) -> None:
    """Copy each path of this machine to a name in the volume."""
    with _volume(volume) as root:
        for source, name in pairs:
            place = PurePosixPath(source)
            if not place.is_absolute():
                raise BadInput(source, "must be a path from / on")
            with _parent_in(root, volume, name, make=True) as (folder, last):
                _copy_named(os.path.realpath(source), folder, last, str(volume / name))


def stage_out(volumes: Sequence[Path], pairs: Sequence[tuple[str, str]]) -> None:
    """Copy each name in the volumes to a path of this machine. If one fails, the first volume is marked to be kept.

    Where several volumes have a folder of that name, what is in all of them goes there; a file that two of them have is
    an error, as one would overwrite the other.
    """
    with ExitStack() as stack:
        roots = [(stack.enter_context(_volume(volume)), volume) for volume in volumes]
        try:
            for name, target in pairs:
                _copy_all_out(roots, name, target)
        except UserError as error:
            with suppress(OSError):
                flags = os.O_CREAT | os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC
                os.close(os.open(KEPT, flags, 0o600, dir_fd=roots[0][0]))
            places = ", ".join(map(str, volumes))
            raise UserError(f"{error}; what is there stays in {places} for a while") from None


def _copy_all_out(roots: Sequence[tuple[int, Path]], name: str, target: str) -> None:
    having = [(root, volume) for root, volume in roots if os.path.lexists(volume / name)] or list(roots[:1])
    known: dict[str, Path] = {}
    for _, volume in having if len(having) > 1 else ():
        for path in _files(str(volume / name)):
            file = os.path.relpath(path, volume)
            if file in known:
                raise BadInput(file, f"is in {known[file]} and in {volume}; give them different names")
            known[file] = volume
    for root, volume in having:
        _copy_out(root, volume, name, target)


def _files(top: str) -> Iterator[str]:
    """All that is no folder, at or below a path."""
    if not Path(top).is_dir():
        yield top
    for folder, _, names in os.walk(top):
        yield from (f"{folder}/{name}" for name in names)


def _copy_out(root: int, volume: Path, name: str, target: str) -> None:
    place = PurePosixPath(target)
    if not place.is_absolute() or not place.name:
        raise BadInput(target, "must be a path from / on")
    with _parent_in(root, volume, name) as (source, last), _opened(str(place.parent)) as folder:
        _copy(source, last, folder, place.name, str(volume / name), target, depth=0)


@contextmanager
def _volume(volume: Path) -> Iterator[int]:
    if not volume.is_absolute():
        raise BadInput(str(volume), "must be a path from / on")
    try:
        root = os.open(volume, _FOLDER)
    except FileNotFoundError:
        raise BadInput(str(volume), "is not on this machine, so nothing can be copied to or from it here") from None
    except OSError as error:
        raise BadInput(str(volume), why(error)) from None
    try:
        yield root
    finally:
        os.close(root)


@contextmanager
def _opened(path: str) -> Iterator[int]:
    """A folder outside, which may be reached through links."""
    with _told(path):
        folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield folder
    finally:
        os.close(folder)


@contextmanager
def _told(path: str) -> Iterator[None]:
    """What the system says of a path is said with its whole name."""
    try:
        yield
    except OSError as error:
        raise BadInput(path, why(error)) from None


@contextmanager
def _parent_in(root: int, volume: Path, name: str, *, make: bool = False) -> Iterator[tuple[int, str]]:
    """The folder in which a name of the volume is, and the last part of the name; nothing on the way may be a link."""
    parts = PurePosixPath(name).parts
    if not parts or parts[0] == "/" or ".." in parts:
        raise BadInput(name, "must be a path inside the burst buffer")
    folder = os.dup(root)
    try:
        for at, part in enumerate(parts[:-1]):
            shown = str(volume.joinpath(*parts[: at + 1]))
            if make:
                with suppress(FileExistsError), _told(shown):
                    _mkdir(folder, part)
            below = _enter(folder, part, shown)
            os.close(folder)
            folder = below
        yield folder, parts[-1]
    finally:
        os.close(folder)


def _mkdir(folder: int, name: str) -> None:
    with suppress(FileExistsError):
        os.mkdir(name, 0o700, dir_fd=folder)


def _enter(folder: int, name: str, shown: str) -> int:
    try:
        return os.open(name, _FOLDER, dir_fd=folder)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR) and stat.S_ISLNK(_mode(folder, name)):
            raise BadInput(shown, "is a link; nothing is reached through one") from None
        raise BadInput(shown, why(error)) from None


def _mode(folder: int, name: str) -> int:
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
    except OSError:
        return 0


def _copy_named(source: str, folder: int, name: str, shown: str) -> None:
    path = PurePosixPath(source)
    if not path.name:
        raise BadInput(source, "is the whole machine")
    with _opened(str(path.parent)) as parent:
        _copy(parent, path.name, folder, name, source, shown, depth=0)


def _copy(source: int, name: str, target: int, new: str, at: str, to: str, *, depth: int) -> None:
    """One thing with all that is in it; `at` and `to` are their names for people, `depth` how deep it is in a tree."""
    with _told(at):
        found = os.stat(name, dir_fd=source, follow_symlinks=False)
    if stat.S_ISDIR(found.st_mode):
        _copy_folder(source, name, target, new, at, to, found, depth)
    elif stat.S_ISREG(found.st_mode):
        _copy_file(source, name, target, new, at, to)
    elif stat.S_ISLNK(found.st_mode):
        _copy_link(source, name, target, new, at, to, depth)
    else:
        raise BadInput(at, "is neither a file nor a folder nor a link")


def _copy_folder(
    source: int, name: str, target: int, new: str, at: str, to: str, found: os.stat_result, depth: int
) -> None:
    below = _enter(source, name, at)
    try:
        with _told(to):
            _mkdir(target, new)
        inside = _enter(target, new, to)
        try:
            with _told(at):
                names = sorted(os.listdir(below))  # noqa: PTH208 - of an open folder
            for each in names:
                _copy(below, each, inside, each, f"{at}/{each}", f"{to}/{each}", depth=depth + 1)
            _keep(inside, found, to)
        finally:
            os.close(inside)
    finally:
        os.close(below)


def _copy_link(source: int, name: str, target: int, new: str, at: str, to: str, depth: int) -> None:
    with _told(at):
        points = os.readlink(name, dir_fd=source)
    if not is_inside(points, depth):
        raise BadInput(at, f"is a link to {points!r}, which leads out of what is copied")
    with _told(to):
        if stat.S_ISLNK(_mode(target, new)):
            os.unlink(new, dir_fd=target)
        os.symlink(points, new, dir_fd=target)


def is_inside(points: str, depth: int) -> bool:
    """Whether a link in a folder that is `depth - 1` below the top leads to something below the top.

    Parts that go up count only at the beginning: after a name, which may be a link itself, nobody knows where they go.

    >>> is_inside("data/x", 1), is_inside("../x", 2), is_inside("../x", 1), is_inside("/etc/passwd", 9)
    (True, True, False, False)
    >>> is_inside("a/../x", 5)
    False
    """
    parts = [part for part in points.split("/") if part not in ("", ".")]
    up = 0
    while up < len(parts) and parts[up] == "..":
        up += 1
    return not points.startswith("/") and ".." not in parts[up:] and up < depth


def _copy_file(source: int, name: str, target: int, new: str, at: str, to: str) -> None:
    """Under another name until it is whole, so that nobody takes a part for it."""
    part = f".{new[:200]}.{os.getpid()}.forebay"
    with _told(at):
        reader = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=source)
    try:
        with _told(to):
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            writer = os.open(part, flags, 0o600, dir_fd=target)
        try:
            with _told(to):
                _copy_bytes(reader, writer)
                _keep(writer, os.fstat(reader), to)
                os.rename(part, new, src_dir_fd=target, dst_dir_fd=target)
        except BaseException:
            with suppress(OSError):
                os.unlink(part, dir_fd=target)
            raise
        finally:
            os.close(writer)
    finally:
        os.close(reader)


def _copy_bytes(reader: int, writer: int) -> None:
    try:
        while os.copy_file_range(reader, writer, 1 << 30):
            pass
    except OSError as error:
        if error.errno not in _NO_RANGES:
            raise
    # What there is to copy by hand begins where the kernel stopped; usually nothing is left.
    while piece := os.read(reader, _PIECE):
        left = memoryview(piece)
        while left:
            left = left[os.write(writer, left) :]


def _keep(copy: int, found: os.stat_result, shown: str) -> None:
    """The mode and the times of what was copied."""
    with _told(shown):
        os.fchmod(copy, stat.S_IMODE(found.st_mode))
        os.utime(copy, ns=(found.st_atime_ns, found.st_mtime_ns))
