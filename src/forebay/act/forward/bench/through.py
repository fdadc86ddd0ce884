"""How the benchmark's processes come to their files: through the layer's own client library."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

from forebay.act.forward.clients.identity import Identity, identify
from forebay.act.forward.clients.sync import Client, File
from forebay.act.forward.net.address import Address


class Opened:
    """A file, and the client that only this process has."""

    def __init__(self, client: Client, file: File) -> None:
        self._client, self._file = client, file

    def pread_into(self, room: memoryview, offset: int) -> int:
        return self._file.preadinto(room, offset)

    def pwrite(self, data: memoryview, offset: int) -> int:
        return self._file.pwrite(data, offset)

    def fsync(self) -> None:
        self._file.fsync()

    def close(self) -> None:
        self._file.close()
        self._client.close()


@dataclass(frozen=True, slots=True)
class Through:
    """Process p begins with I/O node p modulo their number, as compute nodes do; files are in `folder`."""

    nodes: Sequence[Address]
    key: bytes
    folder: str = ""
    who: Identity | None = None

    def __call__(self, process: int, name: str, *, write: bool) -> Opened:
        first = process % len(self.nodes)
        client = self.client(first)
        flags = os.O_RDWR | os.O_CREAT if write else os.O_RDONLY
        return Opened(client, client.open(f"{self.folder}/{name}", flags))

    def client(self, first: int = 0) -> Client:
        """One that prefers I/O node `first`."""
        order = (*self.nodes[first:], *self.nodes[:first])
        return Client(order, self.key, who=self.who or identify("bench"), connections=1)
