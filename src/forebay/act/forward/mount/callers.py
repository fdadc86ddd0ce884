"""The users for whom a mount makes requests.

Looking up a user's supplementary groups takes longer than most requests, so they follow only if a server refuses a
request without them.
"""

import errno
import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from forebay.act.forward.mount.file_system import User
from forebay.act.forward.net.payloads import Caller

_REFUSALS = (errno.EACCES, errno.EPERM)
T = TypeVar("T")


class Callers:
    """`find_groups` returns the supplementary groups of a process."""

    def __init__(self, find_groups: Callable[[int], tuple[int, ...]] | None = None) -> None:
        self._find_groups = find_groups or groups_of

    def run(self, user: User, work: Callable[[Caller], T], mode: int = 0) -> T:
        """Do `work` for a user; if it is refused, again with the user's supplementary groups.

        With S_ISGID in the `mode`, the groups matter at once: the server clears it for others than members.
        """
        if not mode & stat.S_ISGID or not user.uid:
            try:
                return work(Caller(user.uid, user.gid))
            except OSError as error:
                if error.errno not in _REFUSALS or not user.uid:
                    raise
                refusal = error
        else:
            refusal = None
        groups = self._find_groups(user.pid)
        if refusal is not None and not groups:
            raise refusal
        return work(Caller(user.uid, user.gid, groups))


def groups_of(pid: int) -> tuple[int, ...]:
    """The supplementary groups of a process; () if it has ended.

    >>> import os
    >>> groups_of(os.getpid()) == tuple(sorted(os.getgroups()))
    True
    """
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("Groups:"):
                return tuple(map(int, line.split()[1:]))
    return ()
