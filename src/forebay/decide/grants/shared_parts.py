"""The parts of a shared file system: one for each data server, all on different disks."""

from collections import Counter
from collections.abc import Iterator, Sequence

from forebay.decide.grants.machine import LiveDisk, describe_wants
from forebay.decide.grants.state import Capacities, Tables
from forebay.decide.storage.request_placement import pieces_of
from forebay.model.grant import Ask
from forebay.model.reasons import Because, Reason
from forebay.model.units import format_size, plural

_SERVERS = 4  # without a number in the request, if there are so many disks
_LEAST_SHARE = 2  # an unequal part is at least an equal one divided by this


def count_servers(ask: Ask, disks: int, split: int) -> int:
    """The number of data servers: the requested one; or four, or more for a size above four times `split`."""
    return ask.servers or max(1, min(disks, max(_SERVERS, pieces_of(ask.size, split))))


def equal_part(ask: Ask, servers: int) -> int:
    """The bytes of each part; together, they are at least the request.

    >>> equal_part(Ask(grant="0" * 32, key="k", uid=1, gid=1, size=10, seconds=1.0), 4)
    3
    """
    return -(-ask.size // servers)


def explain_impossible_parts(ask: Ask, capacities: Capacities, split: int) -> Because | None:
    """Why the machine could not hold the file system even if it were empty; None if it could."""
    servers = count_servers(ask, capacities.disks, split)
    disks = plural(capacities.disks, "disk") + describe_wants(ask.wants)
    if servers > capacities.disks:
        because = f"{servers} data servers need {servers} disks; there are only {disks}"
        return Because(Reason.TOO_LARGE, because.replace("are only 1 disk", "is only 1 disk"))
    part = equal_part(ask, servers)
    least = part if ask.equal else -(-part // _LEAST_SHARE)
    largest = capacities.sizes[:servers]
    if largest[-1] < least or sum(largest) < ask.size:
        fitting = sum(size >= part for size in capacities.sizes)
        because = f"{servers} parts of {format_size(part)} do not fit: {fitting} of {disks} are that large"
        return Because(Reason.TOO_LARGE, because)
    return None


def candidate_groups(disks: Sequence[LiveDisk], used: Counter[str], taken_disks: set[str]) -> Iterator[list[LiveDisk]]:
    """Groups of free disks for the next part: first those on the nodes that have the fewest parts so far."""
    left = [disk for disk in disks if disk.key not in taken_disks]
    for count in sorted({used[disk.node] for disk in left}):
        yield [disk for disk in left if used[disk.node] == count]


def unequal_parts(tables: Tables, disks: Sequence[LiveDisk], ask: Ask, servers: int, start: float, end: float) -> (
    tuple[tuple[str, int], ...]
):  # fmt: skip
    """Parts on the disks with the most free space, as equal as possible; empty if one would be too small."""
    free = {disk.key: tables.space.free(disk.key, start, end) for disk in disks}
    chosen = sorted(sorted(free, key=lambda key: -free[key])[:servers], key=lambda key: free[key])
    left, parts = ask.size, list[tuple[str, int]]()
    for at, key in enumerate(chosen):
        share = min(free[key], -(-left // (servers - at)))
        parts.append((key, share))
        left -= share
    least = -(-equal_part(ask, servers) // _LEAST_SHARE)
    is_enough = len(parts) == servers and left <= 0 and all(size >= least for _, size in parts)
    return tuple(parts) if is_enough else ()


def explain_no_parts(tables: Tables, disks: Sequence[LiveDisk], ask: Ask, servers: int, start: float, end: float) -> (
    Because
):  # fmt: skip
    """Why there is no room now."""
    part = equal_part(ask, servers)
    if len(disks) < servers:
        text = f"{servers} data servers need {servers} disks; only {len(disks)} accept grants now"
        return Because(Reason.CLOSED, text)
    fitting = sum(tables.space.free(disk.key, start, end) >= part for disk in disks)
    room = f"{fitting} of {plural(len(disks), 'disk')} have that much free"
    return Because(Reason.NO_ROOM, f"no room for {servers} parts of {format_size(part)}: {room}")
