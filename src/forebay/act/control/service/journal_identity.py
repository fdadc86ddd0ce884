"""What an agent remembers of the journal, by which it knows again whether it is the same: a number, and what was there.

A store that is put back to an earlier copy lacks what came after; that it has as many entries again later, but others,
shows as well.
"""

from __future__ import annotations

import hashlib

from forebay.act.control.service.journal_writer import Writer
from forebay.act.control.service.live_state import Live
from forebay.history.store.journal import read_after


def journal_stamp(live: Live) -> str:
    """The last entry of the journal; of a state in which everything is written."""
    return _told(live.last, live.recent[-1].line) if live.recent else ""


def _told(number: int, line: str) -> str:
    return f"{number}:{hashlib.sha256(line.encode()).hexdigest()[:32]}"


async def is_known_journal(writer: Writer, live: Live, seen: str) -> bool | None:
    """Whether the journal has that entry; None if nothing was seen."""
    if not seen:
        return None
    text, _, _ = seen.partition(":")
    if not (text.isascii() and text.isdigit() and len(text) < 19 and 0 < int(text) <= live.last):
        return False
    number = int(text)
    first = live.recent[0].number if live.recent else live.last + 1
    if number >= first:
        return seen == _told(number, live.recent[number - first].line)
    entries = await writer.read(lambda connection: list(read_after(connection, number - 1, 1)))
    return [_told(entry.number, entry.line) for entry in entries] == [seen]
