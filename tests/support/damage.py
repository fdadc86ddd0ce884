"""Darshan logs with something wrong in them: other bytes, or other numbers in a log that is whole."""

import struct
import zlib
from pathlib import Path
from random import Random

from support.darshan_logs import inflated

_VALUES = (0, 1, -1, 2, 7, 255, 256, 65535, 65536, 10**6, 2**31 - 1, 2**31, 2**32, -(2**31), 2**40, 2**62, -(2**63))
_REALS = (-1.0, 0.0, 1e-9, 0.5, 3.0, 1e3, 1e9, 1e18, 1e300, float("inf"), float("nan"))


def damaged(log: Path, random: Random) -> bytes:
    """The log's bytes, with one thing wrong or a few."""
    whole = log.read_bytes()
    return random.choice((_other_bytes, _other_bytes, _other_header, _other_job, _other_records, _other_records))(
        whole, random
    )


def _other_bytes(whole: bytes, random: Random) -> bytes:
    made = bytearray(whole)
    kind = random.randrange(6)
    at = (
        random.randrange(len(made)) if kind % 2 else random.randrange(min(len(made), 1800))
    )  # the header, half the time
    length = random.choice((1, 2, 8, 64, 500))
    if kind < 3:
        for _ in range(random.choice((1, 1, 2, 8))):
            made[at] = random.randrange(256)
            at = random.randrange(len(made))
    elif kind == 3:
        del made[at : at + length]
    elif kind == 4:
        made[at:at] = random.randbytes(length)
    else:
        made[at : at + length] = bytes(length)
    return bytes(made)


class _Whole:
    """A log in its parts."""

    def __init__(self, whole: bytes) -> None:
        self.order = "<" if struct.unpack_from("<q", whole, 8)[0] == 6567223 else ">"
        self.wide = whole[:4] == b"3.41"
        self.room, start = (64, 32) if self.wide else (16, 24)
        self.head = bytearray(whole[:start])
        maps = struct.unpack_from(f"{self.order}{2 * self.room + 2}Q", whole, start)
        places = list(zip(maps[::2], maps[1::2], strict=True))
        at = start + 16 * (self.room + 1)
        self.versions = list(struct.unpack_from(f"{self.order}{self.room}I", whole, at))
        at += 4 * self.room
        self.job = bytearray(inflated(whole[at : min((o for o, n in places if n), default=len(whole))]))
        self.parts = [whole[o : o + n] for o, n in places]
        self.changes: dict[int, int] = {}

    def used(self) -> list[int]:
        """The modules that have records."""
        return [number for number, part in enumerate(self.parts[1:]) if part]

    def pack(self) -> bytes:
        job = zlib.compress(bytes(self.job), 1)
        at = len(self.head) + 16 * (self.room + 1) + 4 * self.room + len(job)
        maps: list[int] = []
        for part in self.parts:
            maps += [at, len(part)] if part else [0, 0]
            at += len(part)
        for place, value in self.changes.items():
            maps[place] = value % (1 << 64)
        numbers = struct.pack(f"{self.order}{len(maps)}Q", *maps)
        versions = struct.pack(f"{self.order}{self.room}I", *self.versions)
        return bytes(self.head) + numbers + versions + job + b"".join(self.parts)


def _other_header(whole: bytes, random: Random) -> bytes:
    log = _Whole(whole)
    kind = random.randrange(5)
    if kind == 0:
        version = random.choice((b"3.00", b"3.10", b"3.20", b"3.21", b"3.22", b"3.41", b"3.42", b"9.99", b"x", b""))
        log.head[:8] = version.ljust(8, b"\0")
    elif kind == 1:
        log.head[random.randrange(16, len(log.head))] = random.randrange(256)
    elif kind == 2:
        log.changes[random.randrange(2 * log.room + 2)] = random.choice((*_VALUES, *range(0, len(whole), 97)))
    elif kind == 3 and log.used():
        log.versions[random.choice(log.used())] = random.choice((0, 1, 2, 3, 4, 5, 255, 2**31, 2**32 - 1))
    elif log.used():  # records under another number
        number, other = random.choice(log.used()), random.randrange(log.room)
        log.parts[1 + number], log.parts[1 + other] = log.parts[1 + other], log.parts[1 + number]
        log.versions[number], log.versions[other] = log.versions[other], log.versions[number]
    return log.pack()


def _other_job(whole: bytes, random: Random) -> bytes:
    log = _Whole(whole)
    numbers = 7 if log.wide else 5
    if random.random() < 0.8:
        struct.pack_into(f"{log.order}q", log.job, 8 * random.randrange(numbers), random.choice(_VALUES))
    else:
        at = random.randrange(len(log.job))
        log.job[at : at + 40] = random.choice((b"", b"\n" * 40, b"\xff" * 40, random.randbytes(40)))
    return log.pack()


def _other_records(whole: bytes, random: Random) -> bytes:
    log = _Whole(whole)
    if not log.used():
        return _other_bytes(whole, random)
    number = random.choice(log.used())
    records = bytearray(inflated(log.parts[1 + number]))
    kind = random.randrange(8)
    if kind == 0:
        del records[random.randrange(len(records)) :]
    elif kind == 1:
        records += random.randbytes(random.choice((1, 8, 64, 664, 704)))
    else:
        for _ in range(random.choice((1, 1, 4, 30))):
            near = random.choice((64, 800, len(records)))  # lengths are at the beginning of a record
            at = 8 * random.randrange(max(1, min(near, len(records)) // 8))
            number_or_real = random.random() < 0.7
            word = (
                (f"{log.order}q", random.choice(_VALUES))
                if number_or_real
                else (f"{log.order}d", random.choice(_REALS))
            )
            if at + 8 <= len(records):
                struct.pack_into(word[0], records, at, word[1])
    log.parts[1 + number] = zlib.compress(bytes(records), 1)
    return log.pack()
