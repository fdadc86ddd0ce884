"""Mounts a file system: connects the kernel to it through /dev/fuse, and unmounts it again."""

import ctypes
import errno
import os
import signal
import socket
import stat
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

from forebay.act.command import CommandFailed, inherited_descriptors, run
from forebay.act.forward.mount.file_system import FileSystem
from forebay.act.forward.mount.fuse import LONGEST, ROOM
from forebay.act.forward.mount.kernel import Kernel, Validity
from forebay.act.forward.mount.turns import Turn
from forebay.act.volumes.mounts import mounted_at
from forebay.model.errors import UserError

_NOSUID, _NODEV, _DETACH = 2, 4, 2
_ENDS = {signal.SIGTERM, signal.SIGINT, signal.SIGHUP}
_TIMEOUT = 30.0
_HELPER = "fusermount3"


class CantMount(UserError):
    """FUSE is not available, or the mount point cannot be used."""


def check_mount_point(folder: Path) -> None:
    """Raise CantMount unless something can be mounted there."""
    try:
        if not folder.is_dir():
            raise CantMount(f"{folder}: {'not a folder' if folder.exists() else 'no such folder'}")
    except OSError as error:
        if error.errno not in (errno.ENOTCONN, errno.ECONNABORTED):
            raise CantMount(f"{folder}: {os.strerror(error.errno or 0).lower()}") from None
        reason = "the process that mounted this folder is gone; unmount it first: fusermount3 -u"
        raise CantMount(f"{folder}: {reason} {folder}") from None
    if folder.is_mount():
        raise CantMount(f"{folder}: something is already mounted there; unmount it or choose another folder")
    if not os.access("/dev/fuse", os.R_OK | os.W_OK):
        raise CantMount("/dev/fuse is missing or not accessible; load the kernel's FUSE module: modprobe fuse")


def clear_dead_mount(folder: Path) -> None:
    """Unmount what a process that is gone had mounted there."""
    try:
        folder.stat()
    except OSError as error:
        if error.errno in (errno.ENOTCONN, errno.ECONNABORTED):
            _unmount(folder)


def mount(
    files: FileSystem,
    folder: Path,
    ready: Callable[[], None],
    *,
    foreground: bool = True,
    threads: int = 8,
    cache: float = 0.0,
    everybody: bool = False,
    validity: Validity | None = None,
    begin: Callable[[Kernel], None] = lambda _: None,
    turn: Turn | None = None,
) -> None:
    """Serve until the folder is unmounted; SIGTERM, SIGINT and SIGHUP unmount it.

    Calls `ready` once programs can use the folder. Without `foreground`, the caller's process then ends, and a child
    serves. The kernel may cache names and attributes for `cache` seconds, or as long as `validity` says. The serving
    process calls `begin` first. A request that may wait for others must pass on the `turn`.
    """
    check_mount_point(folder)
    folder = folder.absolute()
    device = _connect(folder, everybody)
    mine = mounted_at(folder)
    try:
        if not foreground:
            _continue_in_background(ready)
            ready = _do_nothing
        kernel = Kernel(files, cache, ready, partial(os.writev, device), validity)
        _serve(kernel, device, threads, partial(begin, kernel), turn or Turn())
    finally:
        if mounted_at(folder) == mine:  # somebody may have unmounted it, and mounted something else
            _unmount(folder)


def _serve(kernel: Kernel, device: int, threads: int, begin: Callable[[], None], turn: Turn) -> None:
    """Answer the kernel until a signal arrives or the folder is unmounted."""
    signal.pthread_sigmask(signal.SIG_BLOCK, _ENDS)  # in all threads that start now
    begin()

    def answer_requests() -> None:
        try:
            _answer_requests(kernel, device, turn)
        finally:
            os.kill(os.getpid(), signal.SIGTERM)  # wakes the main thread

    for _ in range(threads):
        threading.Thread(target=answer_requests, daemon=True).start()
    signal.sigwait(_ENDS)


def _answer_requests(kernel: Kernel, device: int, turn: Turn) -> None:
    request, room = memoryview(bytearray(ROOM)), memoryview(bytearray(LONGEST))
    buffers, answer = [request], kernel.answer
    while True:
        turn.take()
        try:
            length = os.readv(device, buffers)
        except OSError as error:
            if error.errno == errno.ENODEV:  # unmounted
                return
            if error.errno in (errno.ENOENT, errno.EINTR, errno.EAGAIN):  # the program gave up
                continue
            raise
        with suppress(FileNotFoundError):  # the program gave up
            answer(request[:length], room)


def _connect(folder: Path, everybody: bool) -> int:
    """Mount the folder, and return the descriptor of the kernel's requests."""
    options = f"default_permissions,max_read={LONGEST}" + (",allow_other" if everybody else "")
    return _mount_as_root(folder, options) if os.geteuid() == 0 else _mount_with_helper(folder, options)


def _mount_as_root(folder: Path, options: str) -> int:
    device = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
    kind = stat.S_IFDIR
    data = f"fd={device},rootmode={kind:o},user_id={os.getuid()},group_id={os.getgid()},{options}"
    library = ctypes.CDLL(None, use_errno=True)
    arguments = b"forebay", os.fsencode(folder), b"fuse.forebay", ctypes.c_ulong(_NOSUID | _NODEV), data.encode()
    if library.mount(*arguments):
        reason = os.strerror(ctypes.get_errno()).lower()
        os.close(device)
        raise CantMount(f"{folder}: the kernel cannot mount it: {reason}")
    return device


def _mount_with_helper(folder: Path, options: str) -> int:
    """Let the program that libfuse installs for users mount the folder; it sends the descriptor."""
    mine, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    with mine, its:
        os.environ["_FUSE_COMMFD"] = str(its.fileno())
        inherited_descriptors.add(its.fileno())
        try:
            run((_HELPER, "-o", f"{options},fsname=forebay,subtype=forebay", "--", str(folder)), timeout=_TIMEOUT)
            _, descriptors, _, _ = socket.recv_fds(mine, 1, 1)
        except CommandFailed as error:
            raise CantMount(f"{folder}: {error}; on Debian, {_HELPER} is in the package fuse3") from None
        finally:
            inherited_descriptors.discard(its.fileno())
            del os.environ["_FUSE_COMMFD"]
    if not descriptors:
        raise CantMount(f"{folder}: {_HELPER} did not mount it")
    os.set_inheritable(descriptors[0], False)
    return descriptors[0]


def _unmount(folder: Path) -> None:
    """Unmount the folder, if it is still mounted; programs that use it get errors."""
    if os.geteuid() == 0:
        ctypes.CDLL(None).umount2(os.fsencode(folder), _DETACH)
    else:
        with suppress(CommandFailed):
            run((_HELPER, "-u", "-z", "-q", "--", str(folder)), timeout=_TIMEOUT)


def _continue_in_background(ready: Callable[[], None]) -> None:
    """Continue in a child, away from the terminal; this process reports that the folder is ready, and ends."""
    sys.stdout.flush()
    if os.fork():
        ready()
        sys.stdout.flush()
        os._exit(0)
    os.setsid()
    os.chdir("/")
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in range(3):
        os.dup2(null, descriptor)
    os.close(null)


def _do_nothing() -> None:
    """The parent has reported that the folder is ready."""
