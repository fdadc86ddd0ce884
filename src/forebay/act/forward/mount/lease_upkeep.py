"""Keeps the leases of a mount: watches for recalls, and tells the layer from time to time what is open and closed."""

import secrets
import threading
import time
from collections.abc import Sequence
from dataclasses import replace

from forebay.act.forward.clients.channel import Identity
from forebay.act.forward.clients.recall_watch import LeaseWatch
from forebay.act.forward.mount.kernel import Kernel
from forebay.act.forward.mount.layer_files import LayerFiles
from forebay.act.forward.net.address import Address

_PERIOD = 0.1


def as_holder(who: Identity) -> Identity:
    """The identity of a mount that can have leases."""
    return replace(who, holder=secrets.randbits(62) | 1)


class LeaseUpkeep:
    """What a mount does besides answering its kernel."""

    def __init__(self, files: LayerFiles, nodes: Sequence[Address], key: bytes, who: Identity) -> None:
        self._files, self._nodes, self._key, self._who = files, nodes, key, who

    def start(self, kernel: Kernel) -> None:
        """Start the threads, in the process that serves the kernel."""
        files = self._files

        def give_up(nodes: list[int]) -> None:
            files.give_up(nodes)
            kernel.drop(nodes)

        def give_up_all() -> None:
            kernel.drop(files.give_up_all())

        files.reports.drop = kernel.drop
        threading.Thread(target=self._keep_house, name="house", daemon=True).start()
        if self._who.holder:
            LeaseWatch(
                self._nodes, self._key, self._who, recalled=give_up, lost=give_up_all, begun=files.cache.resume
            ).start()

    def _keep_house(self) -> None:
        while True:
            time.sleep(_PERIOD)
            self._files.keep_house()
