"""The paths of the nodes that the kernel knows: in front of another file system, folders have no ids."""

import errno

from forebay.act.forward.net.payloads import ROOT


class NodePaths:
    """The paths of the nodes that the kernel knows."""

    def __init__(self) -> None:
        self._names: dict[int, tuple[int, bytes]] = {}  # by node: folder and name
        self._lookups: dict[int, int] = {}

    def path(self, node: int, name: bytes = b"") -> bytes:
        names = [name] if name else []
        while node != ROOT:
            try:
                node, above = self._names[node]
            except KeyError:
                raise OSError(errno.ESTALE, "the file has no known path") from None
            names.append(above)
        return b"/".join(reversed(names))

    def add(self, node: int, folder: int, name: bytes) -> None:
        self._names[node] = folder, name
        self._lookups[node] = self._lookups.get(node, 0) + 1

    def forget(self, node: int, lookups: int) -> None:
        if node in self._lookups:
            self._lookups[node] -= lookups
            if self._lookups[node] <= 0:
                del self._lookups[node]
                self._names.pop(node, None)

    def rename(self, old: tuple[int, bytes], new: tuple[int, bytes]) -> None:
        for node, place in list(self._names.items()):
            if place == old:
                self._names[node] = new
            elif place == new:  # replaced, or exchanged: the next lookup tells
                del self._names[node]
