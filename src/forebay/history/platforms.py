"""Reads storage platforms: from our own TOML, or from StorAlloc's system YAML."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from forebay.history.regular_files import check_regular
from forebay.history.toml import load_toml
from forebay.model.errors import BadInput, name_errors, nearest_name, shorten_value
from forebay.model.system import MOST_BYTES, Disk, Node, Platform, Server
from forebay.model.units import parse_bandwidth, parse_size

_MOST_DISKS = 1_000_000
_STORALLOC = {"node": "hosts", "disk": "disks", "name": "hostname", "network_bandwidth": "network_bw"}
"""StorAlloc's names of our keys. Its files have no `server` and no `count`; numbers are GB, or GB/s."""
_ONLY_OURS = ("server", "count")
KEYS = {
    "": ("name", "node"),
    "node": ("name", "network_bandwidth", "disk", *_ONLY_OURS),
    "node.disk": ("capacity", "write_bandwidth", "read_bandwidth", "count"),
}
"""The keys of each table of our own files."""
_BILLION = 1e9


@dataclass(frozen=True, slots=True)
class _Table:
    """A table and its place in the file, like `node[1].disk[0]`, or "" for the whole file.

    `names` maps our keys to those of StorAlloc's files; it is empty for our own.
    """

    path: Path
    names: Mapping[str, str]
    place: str
    values: Mapping[str, object]

    def at(self, key: str = "") -> str:
        steps = [step for step in (self.place, self.names.get(key, key)) if step]
        return f"{self.path}: {'.'.join(steps)}" if steps else str(self.path)

    def get(self, key: str, default: object = None) -> object:
        if self.names and key in _ONLY_OURS:
            return default
        return self.values.get(self.names.get(key, key), default)

    def text(self, key: str, default: str) -> str:
        value = self.get(key, default)
        if not isinstance(value, str) or not value.strip():
            raise BadInput(self.at(key), f"must be text, not {_shorten(value)}")
        return value

    def tables(self, key: str) -> list[_Table]:
        """The tables in a list, at least one."""
        value = self.get(key)
        if not value:
            raise BadInput(self.at(key), "is missing; add at least one")
        if not isinstance(value, list):
            raise BadInput(self.at(key), f"must be a list of tables, not {_shorten(value)}")
        start = f"{self.place}.{self.names.get(key, key)}".lstrip(".")
        return [_table(self.path, self.names, f"{start}[{index}]", item) for index, item in enumerate(value)]

    def extra_keys(self, kind: str) -> dict[str, object]:
        """The values of unknown keys; in our own files, a key that looks like a typing error is refused."""
        known = [self.names.get(key, key) for key in KEYS[kind] if not (self.names and key in _ONLY_OURS)]
        others = {key: value for key, value in self.values.items() if key not in known}
        for key in () if self.names else others:
            if near := nearest_name(key, known, cutoff=0.8):
                raise BadInput(self.at(key), f"is not a key; did you mean {near!r}?")
        return others

    def count(self, most: int) -> int:
        value = self.get("count", 1)
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise BadInput(self.at("count"), f"must be a whole number from 1, not {_shorten(value)}")
        if value > most:
            raise BadInput(self.at("count" if value > 1 else ""), f"exceeds the limit of {_MOST_DISKS:,} disks")
        return value

    def capacity(self) -> int:
        size = self._quantity("capacity", parse_size, "4 TB")
        if not 1 <= size <= MOST_BYTES:
            reason = f"must be at least 1 byte and at most {MOST_BYTES:.0e}, not {_shorten(self.get('capacity'))}"
            raise BadInput(self.at("capacity"), reason)
        return round(size)

    def bandwidth(self, key: str) -> float:
        """Bytes per second. "inf" in our own files, and .inf in YAML, means no limit."""
        if self.get(key) == (math.inf if self.names else "inf"):
            return math.inf
        bandwidth = self._quantity(key, parse_bandwidth, "2.5 GB/s")
        if not (bandwidth > 0 and math.isfinite(bandwidth)):
            raise BadInput(self.at(key), f"must be positive and finite, not {_shorten(self.get(key))}")
        return bandwidth

    def _quantity(self, key: str, parse: Callable[[str], float], example: str) -> float:
        value = self.get(key)
        if value is None:
            raise BadInput(self.at(key), "is missing")
        if isinstance(value, bool) or not isinstance(value, int | float | str):
            raise BadInput(self.at(key), f"must be text with a unit, like {example!r}, not {_shorten(value)}")
        if not isinstance(value, str) and self.names:
            return value * _BILLION if abs(value) < 1e300 else math.inf
        if not isinstance(value, str) or _is_number(value):
            raise BadInput(self.at(key), f"needs a unit, like {example!r}, not {_shorten(value)}")
        try:
            return parse(value)
        except ValueError as error:
            raise BadInput(self.at(key), str(error)) from None


def read_platform(path: Path) -> Platform:
    """Read a platform from our TOML, or from StorAlloc's YAML (capacities in GB, bandwidths in GB/s).

    In TOML every quantity has a unit. A [[node]] has a network_bandwidth and [[node.disk]]s, a disk has a capacity, a
    write_bandwidth and a read_bandwidth, and both may have a count. `fields` keeps other keys.
    """
    suffix = path.suffix.lower()
    if suffix not in (".toml", ".yml", ".yaml"):
        raise BadInput(str(path), "must be a .toml file, or StorAlloc's .yml or .yaml")
    if suffix == ".toml":
        table = _table(path, {}, "", load_toml(path))
        for key in (key for key in table.values if key not in KEYS[""]):
            near = nearest_name(key, KEYS[""], cutoff=0.6)
            raise BadInput(table.at(key), "is not a key of this file" + (f"; did you mean {near!r}?" if near else ""))
        return _platform(table, table.text("name", path.stem))
    from forebay.history.yaml_events import load_yaml  # PyYAML may be missing

    with name_errors(path):
        check_regular(path, pipes=True)
        document = load_yaml(path, path.read_bytes())
    return _platform(_table(path, _STORALLOC, "", {} if document is None else document), path.stem)


def _table(path: Path, names: Mapping[str, str], place: str, value: object) -> _Table:
    if not isinstance(value, dict):
        where = f"{path}: {place}" if place else str(path)
        raise BadInput(where, f"must be a table of keys and values, not {_shorten(value)}")
    return _Table(path, names, place, {str(key): item for key, item in value.items()})


def _platform(table: _Table, name: str) -> Platform:
    by_server: dict[str, list[Node]] = {}
    names: set[str] = set()
    disks = 0
    for index, entry in enumerate(table.tables("node")):
        nodes = _nodes(entry, index, most=_MOST_DISKS - disks)
        for node in nodes:
            if node.name in names:
                raise BadInput(entry.at("name"), f"another node is already named {node.name!r}; rename one")
            names.add(node.name)
        disks += len(nodes) * len(nodes[0].disks)
        by_server.setdefault(entry.text("server", "S-0"), []).extend(nodes)
    servers = tuple(Server(name=name, nodes=tuple(nodes)) for name, nodes in by_server.items())
    return Platform(name=name, servers=servers)


def _nodes(table: _Table, index: int, most: int) -> list[Node]:
    """The nodes that one table describes, with at most `most` disks in all."""
    fields = table.extra_keys("node")
    name, network = table.text("name", f"node-{index}"), table.bandwidth("network_bandwidth")
    disks: list[Disk] = []
    for entry in table.tables("disk"):
        disk = Disk(
            fields=entry.extra_keys("node.disk"),
            capacity=entry.capacity(),
            write_bandwidth=entry.bandwidth("write_bandwidth"),
            read_bandwidth=entry.bandwidth("read_bandwidth"),
        )
        disks += [disk] * entry.count(most - len(disks))
    count = table.count(most // len(disks))
    names = [name] if table.get("count") is None else [f"{name}-{i}" for i in range(count)]
    return [Node(name=name, network_bandwidth=network, disks=tuple(disks), fields=fields) for name in names]


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _shorten(value: object) -> str:
    """The value as in the file, shortened if it is long."""
    if isinstance(value, dict | list):
        return "a table" if isinstance(value, dict) else "a list"
    if isinstance(value, int) and abs(value) >= 10**30:
        return "a very large number"
    return shorten_value(value)
