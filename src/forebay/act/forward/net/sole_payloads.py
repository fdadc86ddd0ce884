"""The payloads of messages about folders that one mount has alone (data/sole_leases.py)."""

from forebay.act.forward.net.payloads import PathRequest, Payload


class AloneRequest(PathRequest, kw_only=True):
    """Asks to have a folder alone, with the files in it from the name `begin` on (data/sole_leases.py)."""

    begin: bytes = b""


class AloneAnswer(Payload, kw_only=True):
    """The files that the mount now has alone with the folder, and the time at the server in ns since 1970.

    A mount that does not have the folder alone gets no files.
    """

    files: tuple[int, ...] = ()
    now: int = 0


class RemoveRequest(PathRequest, kw_only=True):
    """Removes names from a folder that still stand for these files; the others are gone, or belong to others by now.

    `time` is when the mount has removed the last one.
    """

    names: list[tuple[bytes, int]]
    time: int = 0
