"""The mounts that can be reached through an I/O node, to recall their leases."""

from typing import Protocol

from forebay.act.forward.net.wire import Message


class Watcher(Protocol):
    """The session of a mount that watches."""

    def recall(self, message: Message) -> None:
        """Pass a recall on to the mount."""

    def end_watch(self) -> None:
        """Disconnect: the mount then drops all that it keeps, and watches anew."""


class Watchers:
    def __init__(self) -> None:
        self._by_holder: dict[int, Watcher] = {}

    @property
    def holders(self) -> list[int]:
        return list(self._by_holder)

    def add(self, holder: int, watcher: Watcher) -> None:
        self._by_holder[holder] = watcher

    def remove(self, holder: int, watcher: Watcher) -> bool:
        """Return whether the watcher was the one of this mount."""
        if self._by_holder.get(holder) is not watcher:
            return False
        del self._by_holder[holder]
        return True

    def recall(self, message: Message) -> None:
        watcher = self._by_holder.get(message.file)
        if watcher is not None:
            watcher.recall(message)

    def end_all(self) -> None:
        """The server of the names is lost, and with it the way on which leases are recalled."""
        watchers = list(self._by_holder.values())
        self._by_holder.clear()
        for watcher in watchers:
            watcher.end_watch()
