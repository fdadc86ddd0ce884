"""A journal read in the plainest way, by nothing of the code under test: what was, what is, and whether it may."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

_BEFORE = {
    "Queued": ("asked", "queued", "granted", "making"),
    "Granted": ("asked", "queued"),
    "TurnedDown": ("asked", "queued"),
    "Making": ("granted",),
    "Ready": ("making",),
    "InUse": ("ready",),
    "Releasing": ("making", "ready", "in-use"),
    "Ended": ("queued", "granted", "releasing"),
    "Extended": ("granted", "making", "ready", "in-use"),
}
_AFTER = {
    "Queued": "queued", "Granted": "granted", "TurnedDown": "refused", "Making": "making", "Ready": "ready",
    "InUse": "in-use", "Releasing": "releasing",
}  # fmt: skip
_ON_DISK = ("making", "made")


@dataclass
class Told:
    """A grant as the journal tells it; `parts` are volume: [disk, bytes, state]."""

    size: int
    key: str
    state: str = "asked"
    end: float = 0.0
    start: float = 0.0
    parts: dict[str, list[Any]] = field(default_factory=dict)
    been: set[str] = field(default_factory=set)
    ends: set[float] = field(default_factory=set)
    given_back: bool = False


class Tale:
    """The whole journal; `wrong` says in words what can't be, by the invariant that it breaks."""

    def __init__(self, lines: Iterable[tuple[int, str]]) -> None:
        self.grants: dict[str, Told] = {}
        self.keys: dict[str, str] = {}
        self.capacity: dict[str, int] = {}
        self.strays: dict[str, int] = {}
        self.doubted: set[str] = set()
        self.kinds: Counter[str] = Counter()
        self.wrong: dict[str, list[str]] = {"numbers": [], "grants": [], "lost": [], "capacity": [], "owners": []}
        self.last = 0
        for number, line in lines:
            if number != self.last + 1:
                self.wrong["numbers"].append(f"{number} comes after {self.last}")
            self.last = number
            document = json.loads(line)
            self.kinds[document["kind"]] += 1
            self._hear(document)
            if document["kind"] in ("Granted", "Making", "Extended", "Strayed", "DiskRegistered", "VolumeHalf"):
                self._check_space(number)

    def on_disk(self) -> set[tuple[str, str]]:
        """Volumes that there must be on disks, or that are about to be made or removed, and their disks."""
        return {
            (name, disk) for told in self.grants.values() for name, (disk, _, state) in told.parts.items()
            if state in _ON_DISK
        }  # fmt: skip

    def busy(self) -> list[str]:
        """Grants that somebody still works for."""
        found = [name for name, told in self.grants.items() if told.state in ("asked", "making", "releasing")]
        making = [name for told in self.grants.values() for name, part in told.parts.items() if part[2] == "making"]
        return found + making + list(self.strays)

    def _hear(self, event: dict[str, Any]) -> None:
        kind = event["kind"]
        own = getattr(self, f"_{kind.lower()}", None)
        if "grant" in event and kind in _BEFORE:
            self._step(kind, event)
        if own is not None:
            own(event)

    def _step(self, kind: str, event: dict[str, Any]) -> None:
        told = self.grants.get(event["grant"])
        if told is None:
            self.wrong["grants"].append(f"{kind} of {event['grant']}, which nobody asked for")
            self.grants[event["grant"]] = told = Told(0, "")
        elif told.state not in _BEFORE[kind]:
            self.wrong["grants"].append(f"{kind} of {event['grant']}, which is {told.state}")
        told.state = _AFTER.get(kind, told.state)
        told.been.add(told.state)

    def _asked(self, event: dict[str, Any]) -> None:
        ask = event["ask"]
        key = f"{ask['uid']}:{ask['key']}"
        if ask["grant"] in self.grants or key in self.keys:
            self.wrong["grants"].append(f"{ask['grant']} with key {key} is asked for twice")
        self.grants[ask["grant"]] = Told(ask["size"], ask["key"])
        self.keys[key] = ask["grant"]

    def _queued(self, event: dict[str, Any]) -> None:
        self.grants[event["grant"]].parts = {}

    def _granted(self, event: dict[str, Any]) -> None:
        told = self.grants[event["grant"]]
        told.start, told.end = event["start"], event["end"]
        told.ends.add(told.end)
        told.parts = {
            f"{event['grant']}.{at}": [disk, size, "planned"]
            for at, (disk, size) in enumerate(event["parts"], event.get("first", 0))
        }
        if sum(size for _, size in event["parts"]) != told.size:
            self.wrong["grants"].append(f"{event['grant']} got other bytes than it asked for")

    def _making(self, event: dict[str, Any]) -> None:
        for name, part in self.grants[event["grant"]].parts.items():
            part[2] = "making"
            self.strays.pop(f"{part[0]} {name}", None)

    def _ready(self, event: dict[str, Any]) -> None:
        if any(part[2] != "made" for part in self.grants[event["grant"]].parts.values()):
            self.wrong["grants"].append(f"{event['grant']} is ready and its volumes are not")

    def _extended(self, event: dict[str, Any]) -> None:
        told = self.grants[event["grant"]]
        if event["end"] <= told.end:
            self.wrong["grants"].append(f"{event['grant']} ends sooner by an extension")
        told.end = event["end"]
        told.ends.add(told.end)

    def _releasing(self, event: dict[str, Any]) -> None:
        self.grants[event["grant"]].given_back = event["outcome"] == "released"

    def _nodedoubted(self, event: dict[str, Any]) -> None:
        self.doubted.add(event["node"])

    def _ended(self, event: dict[str, Any]) -> None:
        told = self.grants[event["grant"]]
        if any(part[2] in _ON_DISK for part in told.parts.values()):
            self.wrong["grants"].append(f"{event['grant']} ended before its volumes were gone")
        for part in told.parts.values():
            part[2] = "gone"
        told.state = event["state"]
        told.been.add(told.state)
        if told.state == "failed":
            self.wrong["lost"].append(f"{event['grant']} failed: {event['because']}")

    def _volume(self, event: dict[str, Any], state: str, before: tuple[str, ...]) -> Told:
        told = self.grants[event["volume"].partition(".")[0]]
        part = told.parts[event["volume"]]
        if part[2] not in before:
            self.wrong["grants"].append(f"{event['kind']} of {event['volume']}, which is {part[2]}")
        part[2] = state
        return told

    def _volumemade(self, event: dict[str, Any]) -> None:
        self._volume(event, "made", ("making",))

    def _volumehalf(self, event: dict[str, Any]) -> None:
        self._volume(event, "making", ("made", "lost"))

    def _volumegone(self, event: dict[str, Any]) -> None:
        if self._volume(event, "gone", _ON_DISK).state != "releasing":
            self.wrong["lost"].append(f"{event['volume']} is gone, and nobody had given it back")

    def _volumelost(self, event: dict[str, Any]) -> None:
        self._volume(event, "lost", _ON_DISK)
        self.wrong["lost"].append(f"{event['volume']}: {event['because']}")

    def _diskvanished(self, event: dict[str, Any]) -> None:
        self.wrong["lost"].append(f"disk {event['disk']}: {event['because']}")

    def _strayed(self, event: dict[str, Any]) -> None:
        stray = event["stray"]
        self.strays[f"{stray['disk']} {stray['name']}"] = stray["size"]
        self.wrong["owners"].append(f"{stray['name']} is on {stray['disk']}, and nobody owns it")

    def _straygone(self, event: dict[str, Any]) -> None:
        stray = event["stray"]
        self.strays.pop(f"{stray['disk']} {stray['name']}", None)

    def _diskregistered(self, event: dict[str, Any]) -> None:
        self.capacity[f"{event['node']}/{event['disk']['name']}"] = event["disk"]["capacity"]

    def _forgotten(self, event: dict[str, Any]) -> None:
        for name in event["grants"]:
            told = self.grants.pop(name)
            self.keys = {key: grant for key, grant in self.keys.items() if grant != name}
            self.wrong["grants"] += [f"{name} is forgotten while it is {told.state}"] if told.parts else []

    def _check_space(self, number: int) -> None:
        """What is on each disk now, or being made or removed there; and what it is promised for at any time."""
        now = dict.fromkeys(self.capacity, 0)
        promised: dict[str, list[tuple[float, float, int]]] = {disk: [] for disk in self.capacity}
        for key, size in self.strays.items():
            now[key.partition(" ")[0]] += size
        for told in self.grants.values():
            for disk, size, state in told.parts.values():
                if state in _ON_DISK:
                    now[disk] += size
                if told.state == "granted":
                    promised[disk].append((told.start, told.end, size))
                elif state in _ON_DISK and told.state != "releasing":
                    promised[disk].append((-1e12, told.end, size))
        for disk, capacity in self.capacity.items():
            most = max((sum(z for s, e, z in promised[disk] if s <= at < e) for at, _, _ in promised[disk]), default=0)
            if max(now[disk], most) > capacity:
                words = f"event {number}: {disk} has {capacity}, holds {now[disk]}, is promised for {most}"
                self.wrong["capacity"].append(words)
