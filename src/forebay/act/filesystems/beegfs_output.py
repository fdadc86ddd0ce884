"""What `beegfs-ctl` and `beegfs` print, as values."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

from forebay.history.toml import locate_errors
from forebay.model.errors import BadInput
from forebay.model.layout import Layout, Target
from forebay.model.units import parse_size

_GIB = 1 << 30
_CHUNK = re.compile(r"^\+ Chunksize:\s*(\S+)", re.MULTILINE)
_DESIRED = re.compile(r"^\+ Number of storage targets:\s*desired:\s*(\d+)", re.MULTILINE)
_PATTERN = re.compile(r"\((\d+)\s*x\s*([^\s)]+)\)")
_ID = re.compile(r"(?:[a-z]+:)?(\d+)", re.IGNORECASE)
_ROW = re.compile(r"^\s*(\d{1,9})\s+(\S.*?)\s+[\d.]+GiB\s+(\d{1,12}(?:\.\d+)?)GiB\s")
_WORDS = {
    "offline": "offline",
    "probably-offline": "probably offline",
    "needs-resync": "needs a resync",
    "resyncing": "is being resynced",
    "bad": "its data is bad",
    "emergency": "almost full (capacity pool emergency)",
}
_FINE = {"online", "good", "normal", "low"}


def parse_entry7(text: str, where: str) -> Layout:
    """The layout that `beegfs-ctl --getentryinfo` prints; `where` names that command in errors."""
    chunk, desired = _CHUNK.search(text), _DESIRED.search(text)
    if not chunk or not desired:
        raise BadInput(where, "says nothing of a stripe pattern")
    return _layout(desired[1], chunk[1], where)


def parse_entry8(text: str, where: str) -> Layout:
    """The layout that `beegfs entry info --output json` prints."""
    rows = _rows(text, where)
    pattern = _PATTERN.search(str(rows[0].get("stripe_pattern", ""))) if rows else None
    if not pattern:
        raise BadInput(where, "says nothing of a stripe pattern")
    return _layout(pattern[1], pattern[2], where)


def parse_targets7(text: str) -> tuple[Target, ...]:
    """The targets of `beegfs-ctl --listtargets --state --pools --spaceinfo`, ascending."""
    rows = [row for line in text.splitlines() if (row := _ROW.match(line))]
    return _ascending(_target(int(r[1]), r[2].split(), int(float(r[3]) * _GIB)) for r in rows)


def parse_targets8(text: str, where: str) -> tuple[Target, ...]:
    """The targets of `beegfs target list --state --capacity --raw --output json`, ascending."""
    return _ascending(_target8(row, where) for row in _rows(text, where))


def _target8(row: dict[str, Any], where: str) -> Target:
    states = [str(row.get(key, "unknown")) for key in ("reachability", "consistency")]
    pool = row.get("cap_pool") or row.get("capacity_pool")
    free = str(row.get("space_free", row.get("sfree", "-")))
    size = locate_errors(where, lambda: parse_size(free)) if free != "-" else 0
    if not 0 <= size < 1e30:
        raise BadInput(where, f"free space of {free!r}")
    return _target(_number(row.get("id"), where), [*states, *([str(pool)] if pool else [])], int(size))


def _target(index: int, states: list[str], free_bytes: int) -> Target:
    issues = [_WORDS.get(s.lower(), f"state {s}") for s in states if s.lower() not in _FINE]
    return Target(index=index, free_bytes=free_bytes, usable=not issues, because=", ".join(issues))


def _ascending(targets: Iterable[Target]) -> tuple[Target, ...]:
    return tuple(sorted(targets, key=lambda t: t.index))


def _number(value: object, where: str) -> int:
    """A target's number, of 101, "101", "s:101", "storage:101" or {"num_id": 101}."""
    if isinstance(value, dict):
        value = value.get("num_id", value.get("NumId"))
    found = _ID.fullmatch(str(value))
    if not found or len(found[1]) > 9:
        raise BadInput(where, f"a target with the number {value!r}")
    return int(found[1])


def _layout(count: str, size: str, where: str) -> Layout:
    return locate_errors(where, lambda: Layout(count=int(count), size=_chunk_bytes(size)))


def _chunk_bytes(text: str) -> int:
    """1m, 512k, 1M, 1MiB or 1048576; always binary, whatever is written."""
    found = re.fullmatch(r"(\d{1,12})([kmgt]?)i?b?", text.lower())
    if not found:
        raise ValueError(f"a chunk size of {text!r}")
    return int(found[1]) * _BINARY[found[2]]


_BINARY = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}


def _rows(text: str, where: str) -> list[dict[str, Any]]:
    """The rows of what can be several JSON documents one after the other: one for every hundred rows."""
    decoder, at, rows = json.JSONDecoder(), 0, []
    text = text.strip()
    try:
        while at < len(text):
            document, end = decoder.raw_decode(text, at)
            rows += document if isinstance(document, list) else [document]
            at = end + len(text[end:]) - len(text[end:].lstrip())
    except (ValueError, RecursionError) as error:
        raise BadInput(where, f"is not JSON: {error}") from None
    if not all(isinstance(row, dict) for row in rows):
        raise BadInput(where, "has rows that are no tables")
    return rows
