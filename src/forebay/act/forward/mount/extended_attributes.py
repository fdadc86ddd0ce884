"""Extended attributes of the files of a mount: those of users, and the layout of a folder."""

import errno
from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from forebay.act.filesystems.forebay_mount import LAYOUT, format_layout, parse_layout
from forebay.act.forward.clients.requests import Place
from forebay.act.forward.clients.sync import Client
from forebay.act.forward.mount.file_system import User
from forebay.act.forward.mount.sole_cache import SoleCache
from forebay.act.forward.net.payloads import Caller

_LAYOUT = LAYOUT.encode()
T = TypeVar("T")


class AsUser(Protocol):
    def __call__(self, user: User, work: Callable[[Caller], T]) -> T:
        """Do `work` for a user."""
        ...


class ExtendedAttributes:
    """Asks through one client; `place` says where a request finds a node."""

    def __init__(self, client: Client, cache: SoleCache, place: Callable[[int], Place], as_user: AsUser) -> None:
        self._client, self._cache, self._place, self._as = client, cache, place, as_user

    def getxattr(self, user: User, node: int, name: bytes) -> bytes:
        if name == _LAYOUT:
            return format_layout(self._client.layout(self._place(node))).encode()
        if not name.startswith(b"user."):  # the kernel asks for some of these for each write or execution
            raise OSError(errno.ENODATA if name.startswith(b"security.") else errno.EOPNOTSUPP, "no such attribute")
        return self._as(user, lambda caller: self._client.getxattr(self._place(node), name, caller=caller))

    def setxattr(self, user: User, node: int, name: bytes, value: bytes, flags: int) -> None:
        place = self._place(node)
        if name != _LAYOUT:
            self._as(user, lambda caller: self._client.setxattr(place, name, value, flags, caller=caller))
            self._cache.note_changed(node)
            return
        try:
            layout = parse_layout(value.decode("utf-8", "replace"))
        except ValueError as error:
            raise OSError(errno.EINVAL, str(error)) from None
        self._as(user, lambda caller: self._client.set_layout(place, layout, caller=caller))
        self._cache.share((node,))  # the files that it creates by itself have the old one
        self._cache.note_changed(node)

    def listxattr(self, user: User, node: int) -> Sequence[bytes]:
        """All names but the layout's: programs must not copy it with other attributes."""
        return self._as(user, lambda caller: self._client.listxattr(self._place(node), caller=caller))

    def removexattr(self, user: User, node: int, name: bytes) -> None:
        if name == _LAYOUT:
            raise OSError(errno.EPERM, "the layout cannot be removed")
        self._as(user, lambda caller: self._client.setxattr(self._place(node), name, None, caller=caller))
        self._cache.note_changed(node)
