"""What a user may do to a file, by its owner, its group and its mode, as POSIX and Linux have it."""

import errno
import os
import stat
from collections.abc import Iterable
from typing import Protocol

from forebay.act.forward.net.payloads import Caller

READ, WRITE, SEARCH = 4, 2, 1
LAYER = Caller(uid=0, gid=0)
"""The layer itself, which may do everything."""
_SET_IDS = stat.S_ISUID | stat.S_ISGID


class Owned(Protocol):
    """What has an owner, a group and a mode; None stands for the user who mounts the layer, and for any group."""

    @property
    def mode(self) -> int: ...
    @property
    def uid(self) -> int | None: ...
    @property
    def gid(self) -> int | None: ...
    @property
    def is_folder(self) -> bool: ...


def system_error(number: int) -> OSError:
    return OSError(number, os.strerror(number))


def is_owner(caller: Caller, node: Owned) -> bool:
    return caller.uid == (caller.mounter if node.uid is None else node.uid)


def is_member(caller: Caller, group: int | None) -> bool:
    return group is None or group == caller.gid or group in caller.groups


def granted_access(caller: Caller, node: Owned) -> int:
    """The bits of READ, WRITE and SEARCH that the caller has.

    >>> from forebay.act.forward.data.name_database import Node
    >>> granted_access(LAYER, Node(5, 0o100200, 1, 1, 1, 0, 0, 0, 0, 0, 1, 65536, 0, 0))
    6
    """
    mode = node.mode
    if caller.uid == 0:
        return READ | WRITE | (SEARCH if node.is_folder or mode & 0o111 else 0)
    if is_owner(caller, node):
        return mode >> 6 & 7
    return (mode >> 3 if is_member(caller, node.gid) else mode) & 7


def check_access(caller: Caller, node: Owned, wanted: int) -> None:
    """Raise EACCES unless the caller has all these bits."""
    if wanted & ~granted_access(caller, node):
        raise system_error(errno.EACCES)


def check_owner(caller: Caller, node: Owned) -> None:
    if caller.uid and not is_owner(caller, node):
        raise system_error(errno.EPERM)


def check_removal(caller: Caller, folder: Owned, nodes: Iterable[Owned | None]) -> None:
    """Raise OSError unless the caller may remove or replace these nodes' names in a folder."""
    check_access(caller, folder, WRITE | SEARCH)
    if folder.mode & stat.S_ISVTX and caller.uid and not is_owner(caller, folder):
        for node in nodes:
            if node is not None:
                check_owner(caller, node)


def creation_mode(caller: Caller, folder: Owned, mode: int) -> tuple[int, int | None]:
    """The mode and the group of a new file; a folder with S_ISGID passes both on."""
    if not folder.mode & stat.S_ISGID:
        return mode, caller.gid
    if stat.S_ISDIR(mode):
        return mode | stat.S_ISGID, folder.gid
    both = stat.S_ISGID | stat.S_IXGRP
    if mode & both == both and caller.uid and not is_member(caller, folder.gid):
        mode &= ~stat.S_ISGID
    return mode, folder.gid


def changed_mode(caller: Caller, node: Owned, mode: int) -> int:
    """The mode after chmod: only members of the file's group can set S_ISGID."""
    check_owner(caller, node)
    if caller.uid and not is_member(caller, node.gid):
        mode &= ~stat.S_ISGID
    return stat.S_IFMT(node.mode) | mode & 0o7777


def check_new_owner(caller: Caller, node: Owned, uid: int | None, gid: int | None) -> None:
    """Raise EPERM unless the caller may give the file to this owner: others than root only change the group."""
    if not caller.uid or (uid is None and gid is None):
        return
    keeps = uid is None or uid == (caller.mounter if node.uid is None else node.uid)
    if not is_owner(caller, node) or not keeps:
        raise system_error(errno.EPERM)
    if gid is not None and gid != node.gid and not is_member(caller, gid):
        raise system_error(errno.EPERM)


def without_set_ids(mode: int) -> int:
    """The mode after a write or a change of the owner.

    >>> oct(without_set_ids(0o106755)), oct(without_set_ids(0o102644)), oct(without_set_ids(0o042755))
    ('0o100755', '0o102644', '0o42755')
    """
    if stat.S_ISDIR(mode):
        return mode
    # Without execution by the group, S_ISGID is a mark for mandatory locks and stays.
    return mode & ~(_SET_IDS if mode & stat.S_IXGRP else stat.S_ISUID)
