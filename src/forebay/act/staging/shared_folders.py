"""Folders and files of a shared file system, through an I/O node of the copier's own."""

from __future__ import annotations

import errno
import os
import secrets
import shutil
import stat
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from forebay.act.command import Child
from forebay.act.files import open_folder, open_secret
from forebay.act.forward.clients.channel import Identity, identify
from forebay.act.forward.clients.requests import Place
from forebay.act.forward.clients.sync import Client, File
from forebay.act.forward.net.address import parse_address
from forebay.act.forward.net.payloads import ROOT, AttributesRequest, FileStatus
from forebay.act.staging.folders import Status
from forebay.model.errors import BadInput, UserError

_START = 30.0  # seconds for the I/O node to start
_GRACE = 5.0
_PATIENCE = 60.0  # seconds to wait for a data server that is being restarted


class Layer:
    """Connections to the I/O node: one for each thread, so that no file is opened twice."""

    def __init__(self, address: str, key: str) -> None:
        self._nodes, self._key = [parse_address(address)], key.encode()
        self._who: Identity = identify("forebay-staging")
        self._threads, self._clients = threading.local(), list[Client]()

    @property
    def client(self) -> Client:
        client: Client | None = getattr(self._threads, "client", None)
        if client is None:
            client = Client(
                self._nodes, self._key, who=self._who, patience=1.5 * _PATIENCE, timeout=2 * _PATIENCE, connections=1,
                checked=True,
            )  # fmt: skip
            self._threads.client = client
            self._clients.append(client)
        return client

    def close(self) -> None:
        for client in self._clients:
            client.close()


class SharedFile:
    def __init__(self, layer: Layer, file: File) -> None:
        self._layer, self._handle = layer, file.handle
        self._files = {file._client: file}

    @property
    def number(self) -> int:
        return self._handle.file

    def status(self) -> Status:
        return _status_of(self._layer.client.stat(self._handle))

    def read(self, size: int, offset: int) -> bytes:
        return self._file.pread(size, offset)

    def write(self, data: bytes, offset: int) -> None:
        self._file.pwrite(data, offset)

    def truncate(self, size: int) -> None:
        self._file.truncate(size)

    def set_status(self, mode: int, mtime: int, atime: int) -> None:
        self._layer.client.set_attributes(self._handle, AttributesRequest(mode=mode, mtime=mtime, atime=atime))

    def close(self) -> None:
        for file in self._files.values():
            file.close()

    @property
    def _file(self) -> File:
        client = self._layer.client
        file = self._files.get(client)
        if file is None:
            file = self._files[client] = File(client, self._handle)
        return file


class SharedFolder:
    """A folder by its id: nobody can lead its names elsewhere."""

    def __init__(self, layer: Layer, number: int, path: str) -> None:
        self._layer, self._number, self.path = layer, number, path

    def list_names(self) -> list[tuple[str, int]]:
        return [(entry.name, stat.S_IFMT(entry.mode)) for entry in self._layer.client.readdir(Place(self._number))]

    def status(self, name: str) -> Status:
        return _status_of(self._layer.client.stat(self._place(name)))

    def enter(self, name: str, *, make: bool = False) -> SharedFolder:
        path, client = f"{self.path.rstrip('/')}/{name}", self._layer.client
        if make:
            with suppress(FileExistsError):
                client.mkdir(self._place(name), 0o700)
        status = client.stat(self._place(name))
        if stat.S_ISLNK(status.mode):
            raise BadInput(path, "is a link; staging does not follow links")
        if not status.is_folder:
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
        return SharedFolder(self._layer, status.file or 0, path)

    def open(self, name: str) -> SharedFile:
        return SharedFile(self._layer, self._layer.client.open(self._place(name), os.O_RDONLY))

    def create(self, name: str, *, afresh: bool) -> SharedFile:
        flags = os.O_RDWR | os.O_CREAT | (os.O_TRUNC if afresh else 0)
        return SharedFile(self._layer, self._layer.client.open(self._place(name), flags, 0o600))

    def read_link(self, name: str) -> str:
        return os.fsdecode(self._layer.client.readlink(self._place(name)))

    def make_link(self, name: str, destination: str) -> None:
        self._layer.client.symlink(destination, self._place(name))

    def rename(self, name: str, new: str) -> None:
        self._layer.client.rename(self._place(name), self._place(new))

    def remove(self, name: str) -> None:
        self._layer.client.unlink(self._place(name))

    def set_status(self, mode: int, mtime: int, atime: int) -> None:
        request = AttributesRequest(mode=mode, mtime=mtime, atime=atime)
        self._layer.client.set_attributes(Place(self._number), request)

    def sync(self) -> None:
        """Put the names onto the disk; each storage node syncs its own volume."""
        self._layer.client.sync_names()

    def _place(self, name: str) -> Place:
        return Place(self._number, os.fsencode(name))


def _status_of(status: FileStatus) -> Status:
    return Status(status.mode, status.size, status.mtime, status.atime, status.file or 0)


@contextmanager
def open_shared(folder: Path, servers: Sequence[str], secret: str, uid: int, gid: int) -> Iterator[SharedFolder]:
    """Start an I/O node in front of the data servers, and give the root folder of the file system.

    The I/O node gives up its rights too, so that it ends with this process: the kernel lets no process of a user, nor
    its death, end one of root. `folder` is a new folder for its socket, which only the user can reach.
    """
    shutil.rmtree(folder, ignore_errors=True)  # an I/O node that is ending may still have its socket there
    folder.mkdir(0o700, parents=True)
    with open_folder(folder) as inside:  # the user may not be able to enter the folders above it
        place, errors = f"/proc/self/fd/{inside}/ion", folder / "errors"
        with open_secret(f"{secret}\n") as key:
            command = (
                *(sys.executable, "-m", "forebay", "forward", "ion", "--listen", f"unix:{place}"),
                *("--name", f"staging {secrets.token_hex(8)}", "--user", f"{uid}:{gid}"),
                *("--key", f"/proc/self/fd/{key}", "--patience", f"{_PATIENCE:g} s"),
                *(word for server in servers for word in ("--server", server)),
            )
            node = Child(command, descriptors=(key, inside), errors=errors)
        try:
            if node.await_ready(_START) != "ready":
                lines = errors.read_text(errors="replace").splitlines()
                reason = lines[-1].removeprefix("forebay: ") if lines else f"not ready within {_START:g} s"
                raise UserError(f"cannot start an I/O node: {reason}")
            (folder / "ion").chmod(0o666)
            os.chown(folder, uid, gid)
            layer = Layer(f"unix:{place}", secret)
            try:
                yield SharedFolder(layer, ROOT, "")
            finally:
                layer.close()
        finally:
            node.stop(_GRACE)
