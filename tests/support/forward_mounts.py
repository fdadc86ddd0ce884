"""Mounts without a kernel, of which a test sees what each keeps and asks."""

from __future__ import annotations

import os

from forebay.act.forward.clients.channel import identify
from forebay.act.forward.clients.recall_watch import LeaseWatch
from forebay.act.forward.clients.sync import Client
from forebay.act.forward.mount.file_system import Attributes, User
from forebay.act.forward.mount.layer_files import LayerFiles
from forebay.act.forward.mount.lease_upkeep import as_holder
from forebay.act.forward.net.payloads import ROOT
from support.forward import KEY
from support.forward_nodes import NodeThread

ME = User(os.getuid(), os.getgid(), os.getpid())
ROOM = memoryview(bytearray(100_000))


class Mount:
    """A mount without a kernel."""

    def __init__(self, layer: NodeThread, watches: bool = True) -> None:
        who, nodes = as_holder(identify()), layer.nodes[0].addresses
        self.client = Client(nodes, KEY, who=who, patience=10, closes_later=True)
        self.keeper = Client(nodes, KEY, who=who, patience=10, connections=1)
        self.files = LayerFiles(self.client, keeper=self.keeper)
        self.watch = LeaseWatch(nodes, KEY, who, recalled=self.give_up, lost=self.lose, begun=self.files.cache.resume)
        self.recalled: list[int] = []
        self.losses = 0
        if watches:
            self.watch.start()

    def give_up(self, nodes: list[int]) -> None:
        self.recalled += nodes
        self.files.give_up(nodes)

    def lose(self) -> None:
        self.losses += 1
        self.files.give_up_all()

    def close(self) -> None:
        self.watch.close()
        self.client.close()
        self.keeper.close()

    def lookup(self, name: str, folder: int = ROOT) -> Attributes:
        return self.files.lookup(ME, folder, name.encode())

    def open(self, name: str, flags: int = os.O_RDONLY, folder: int = ROOT) -> int:
        return self.files.open(ME, self.lookup(name, folder).node, flags)

    def create(self, name: str, data: bytes = b"", folder: int = ROOT) -> int:
        """Create a file, and return its node."""
        attributes, handle = self.files.create(ME, folder, name.encode(), os.O_WRONLY | os.O_EXCL, 0o644)
        if data:
            self.files.write(attributes.node, handle, memoryview(data), 0, False)
        self.files.release(handle)
        return attributes.node

    def rewrite(self, name: str, data: bytes, offset: int = 0) -> None:
        handle = self.open(name, os.O_WRONLY)
        self.files.write(self.lookup(name).node, handle, memoryview(data), offset, False)
        self.files.release(handle)

    def read(self, name: str) -> bytes:
        handle = self.open(name)
        try:
            return bytes(ROOM[: self.files.read(handle, ROOM, 0)])
        finally:
            self.files.release(handle)
