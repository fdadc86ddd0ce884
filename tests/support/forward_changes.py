"""What mounts do in folders that one of them may have alone, beside what a plain folder does."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import strategies as st

from forebay.act.forward.mount.file_system import Attributes, Change, User
from forebay.act.forward.net.payloads import ROOT
from support.forward_mounts import ME, ROOM, Mount
from support.forward_nodes import NodeThread
from support.processes import wait_until

NEVER = 3600.0
ADMIN, USER, OTHER = User(0, 0, os.getpid()), User(4711, 4711, 1 << 22), User(4712, 4712, 1 << 22)


def create(mount: Mount, folder: int, name: str, user: User = ME) -> int:
    attributes, handle = mount.files.create(user, folder, name.encode(), os.O_WRONLY | os.O_EXCL, 0o666)
    mount.files.write(attributes.node, handle, memoryview(name.encode()), 0, False)
    mount.files.release(handle)
    return attributes.node


def wait_until_closed(layer: NodeThread, mount: Mount, file: int) -> None:
    """The layer has heard that nobody has the file open."""
    mount.files.keep_house()
    servers = [server._names._names for server in layer.servers.values()]
    wait_until(lambda: not any(each._open_files.is_open(file) for each in servers), "the file is not closed")


def names(mount: Mount, folder: int) -> list[str]:
    return sorted(os.fsdecode(name) for name, _, _ in mount.files.readdir(ME, folder))


def raises(number: int) -> pytest.RaisesExc[OSError]:
    return pytest.raises(OSError, check=lambda error: error.errno == number)


LOOKS: dict[str, Callable[[Mount, int, int], object]] = {
    "lookup": lambda mount, folder, _: mount.lookup("a", folder),
    "list": lambda mount, folder, _: names(mount, folder),
    "open": lambda mount, folder, _: mount.open("a", folder=folder),
    "create": lambda mount, folder, _: create(mount, folder, "a"),
    "status of the folder": lambda mount, folder, _: mount.files.getattr(ME, folder),
    "lookup of the folder": lambda mount, _, __: mount.lookup("d"),
    "status of the file": lambda mount, _, file: mount.files.getattr(ME, file),
    "open of the file": lambda mount, _, file: mount.files.open(ME, file, os.O_RDWR),
    "link": lambda mount, _, file: mount.files.link(ME, file, ROOT, b"link"),
    "rename": lambda mount, folder, _: mount.files.rename(ME, folder, b"a", ROOT, b"new", 0),
    "unlink": lambda mount, folder, _: mount.files.unlink(ME, folder, b"a"),
    "chmod": lambda mount, _, file: mount.files.setattr(ME, file, Change(mode=0o600)),
    "attribute": lambda mount, _, file: mount.files.setxattr(ME, file, b"user.x", b"y", 0),
    "removal of the folder": lambda mount, _, __: mount.files.rmdir(ME, ROOT, b"d"),
    "new folder inside": lambda mount, folder, _: mount.files.mkdir(ME, folder, b"below", 0o755),
}


def outcome(work: Callable[[], object]) -> object:
    try:
        return work()
    except OSError as error:
        return errno.errorcode[error.errno or 0]


def end_leases(layer: NodeThread, mount: Mount) -> None:
    """The leases of a mount end, though it has not told what it has removed."""
    for server in layer.servers.values():
        layer.thread.call(server._names._names._leases.end, mount.watch._holder)


# Random operations of two mounts


def _create(path: Path) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    os.write(handle, path.name.encode())
    os.close(handle)


def _extend(path: Path) -> None:
    handle = os.open(path, os.O_WRONLY)
    os.pwrite(handle, b"end", 5)
    os.close(handle)


def _place(mount: Mount, path: str) -> tuple[int, bytes]:
    *folders, name = path.split("/")
    node = ROOT
    for folder in folders:
        attributes = mount.lookup(folder, node)
        if not attributes.is_folder:
            raise OSError(errno.ENOTDIR, "")
        node = attributes.node
    return node, name.encode()


def _node(mount: Mount, path: str) -> int:
    folder, name = _place(mount, path)
    return mount.files.lookup(ME, folder, name).node


def _describe(mount: Mount, path: str) -> tuple[bool, int, int]:
    shown = mount.files.getattr(ME, _node(mount, path))
    return (True, 0, 0) if shown.is_folder else (False, shown.links, shown.size)


def _describe_plain(path: Path) -> tuple[bool, int, int]:
    return (True, 0, 0) if path.is_dir() else (False, path.stat().st_nlink, path.stat().st_size)


def _read(mount: Mount, path: str) -> bytes:
    handle = mount.files.open(ME, _node(mount, path), os.O_RDONLY)
    try:
        return bytes(ROOM[: mount.files.read(handle, ROOM, 0)])
    finally:
        mount.files.release(handle)


def _begin(mount: Mount, path: str) -> tuple[Attributes, bytes, int]:
    folder, name = _place(mount, path)
    with suppress(FileNotFoundError):  # as a kernel does
        mount.files.lookup(ME, folder, name)
    made, handle = mount.files.create(ME, folder, name, os.O_WRONLY | os.O_EXCL, 0o644)
    return made, name, handle


def _make_and_release(mount: Mount, path: str) -> None:
    made, name, handle = _begin(mount, path)
    mount.files.write(made.node, handle, memoryview(name), 0, False)
    mount.files.release(handle)


def _make_slowly(mount: Mount, path: str) -> None:
    """The layer hears of the file while it is open."""
    made, name, handle = _begin(mount, path)
    mount.files.write(made.node, handle, memoryview(b"?" * len(name)), 0, False)
    mount.files.reports.settle_all()
    mount.files.write(made.node, handle, memoryview(name), 0, False)
    mount.files.release(handle)


def _write_end(mount: Mount, path: str) -> None:
    node = _node(mount, path)
    handle = mount.files.open(ME, node, os.O_WRONLY)
    mount.files.write(node, handle, memoryview(b"end"), 5, False)
    mount.files.release(handle)


def _rename(mount: Mount, path: str, to: str) -> None:
    source, target = _place(mount, path), _place(mount, to)
    if not mount.files.lookup(ME, *source).is_folder:
        mount.files.rename(ME, *source, *target, 0)


def _link(mount: Mount, path: str, to: str) -> None:
    source = mount.files.lookup(ME, *_place(mount, path))
    if not source.is_folder:
        mount.files.link(ME, source.node, *_place(mount, to))


OPERATIONS: dict[str, tuple[Callable[..., object], Callable[..., object]]] = {
    "create": (_create, _make_and_release),
    "create slowly": (_create, _make_slowly),
    "extend": (_extend, _write_end),
    "unlink": (os.unlink, lambda mount, path: mount.files.unlink(ME, *_place(mount, path))),
    "status": (_describe_plain, _describe),
    "read": (Path.read_bytes, _read),
    "list": (lambda path: sorted(os.listdir(path)), lambda mount, path: names(mount, _node(mount, path))),  # noqa: PTH208
    "link": (lambda path, to: None if path.is_dir() else os.link(path, to), _link),
    "rename": (lambda path, to: None if path.is_dir() else os.rename(path, to), _rename),  # noqa: PTH104
}  # fmt: skip
PATHS = st.sampled_from(["a", "b", "d/a", "d/b", "d/c", "e/a", "e/b"])
STEPS = st.one_of(
    st.tuples(st.sampled_from(["create", "create slowly", "unlink", "unlink", "status", "read", "extend"]), PATHS),
    st.tuples(st.just("list"), st.sampled_from(["d", "e", "."])),
    st.tuples(st.sampled_from(["link", "rename"]), PATHS, PATHS),
)


def compare(
    mounts: tuple[Mount, Mount],
    base: str,
    first: Sequence[tuple[int, tuple[str, ...]]],
    steps: Sequence[tuple[int, tuple[str, ...]]],
) -> None:
    """Do the same in two folders of mounts and in a plain folder, and compare every outcome."""
    top = mounts[0].files.mkdir(ME, ROOT, base.encode(), 0o755).node
    for folder in (b"d", b"e"):
        mounts[0].files.mkdir(ME, top, folder, 0o755)
    with tempfile.TemporaryDirectory() as made:
        plain = Path(made)
        for name in "de":
            (plain / name).mkdir()
        for turn, (mount, (what, *paths)) in enumerate((*first, *steps)):
            on_plain, on_mount = OPERATIONS[what]
            expected = outcome(lambda: on_plain(*(plain / path for path in paths)))  # noqa: B023
            places = [f"{base}/{path}" if path != "." else base for path in paths]
            assert outcome(lambda: on_mount(mounts[mount], *places)) == expected, (turn, what, paths)  # noqa: B023
        for each in mounts:
            each.files.reports.settle_all()
            for place in (".", "d", "e"):
                shown = names(each, _node(each, base if place == "." else f"{base}/{place}"))
                assert shown == sorted(os.listdir(plain / place))  # noqa: PTH208
