"""Storage platforms from files: our own TOML, or StorAlloc's system YAML."""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from forebay.history.toml import load_toml
from forebay.model.errors import BadInput, why
from forebay.model.system import MOST_BYTES, Disk, Node, Platform, Server
from forebay.model.units import parse_bandwidth, parse_size

_MOST_DISKS = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class _Format:
    """The names in a kind of file. `bare` is the unit of a number without one, 0 if a unit is required."""

    nodes: str
    disks: str
    name: str
    network: str
    bare: float
    ours: bool  # has `server` and `count`; a key that looks like a typing error is one

    @property
    def node_keys(self) -> tuple[str, ...]:
        return (self.name, self.network, self.disks, *(("server", "count") if self.ours else ()))

    @property
    def disk_keys(self) -> tuple[str, ...]:
        return ("capacity", "write_bandwidth", "read_bandwidth", *(("count",) if self.ours else ()))


_OURS = _Format(nodes="node", disks="disk", name="name", network="network_bandwidth", bare=0, ours=True)
_STORALLOC = _Format(nodes="hosts", disks="disks", name="hostname", network="network_bw", bare=1e9, ours=False)


@dataclass(frozen=True, slots=True)
class _Table:
    """A table of a file and its place in it, like `node[1].disk[0]`; that of the whole file is empty."""

    path: Path
    place: str
    values: Mapping[str, object]

    @property
    def where(self) -> str:
        return f"{self.path}: {self.place}" if self.place else str(self.path)

    def at(self, key: str) -> str:
        return f"{self.where}.{key}" if self.place else f"{self.path}: {key}"

    def needed(self, key: str) -> object:
        if self.values.get(key) is None:
            raise BadInput(self.at(key), "is missing")
        return self.values[key]

    def text(self, key: str, default: str) -> str:
        value = self.values.get(key, default)
        if not isinstance(value, str) or not value.strip():
            raise BadInput(self.at(key), f"must be text, not {_short(value)}")
        return value

    def tables(self, key: str) -> list[_Table]:
        """The tables of a list, which must not be empty."""
        value = self.values.get(key)
        if not value:
            raise BadInput(self.at(key), "is missing; at least one is needed")
        if not isinstance(value, list):
            raise BadInput(self.at(key), f"must be a list of tables, not {_short(value)}")
        start = f"{self.place}.{key}" if self.place else key
        return [_table(self.path, f"{start}[{index}]", item) for index, item in enumerate(value)]

    def others(self, known: Iterable[str]) -> dict[str, object]:
        return {key: value for key, value in self.values.items() if key not in set(known)}


def read_platform(path: Path) -> Platform:
    """The platform in a file: TOML of our own, or StorAlloc's YAML (capacities in GB, bandwidths in GB/s).

    In TOML every quantity has a unit. A [[node]] has a network_bandwidth and [[node.disk]]s, a disk has a capacity, a
    write_bandwidth and a read_bandwidth, and both may have a count. Further keys are kept in `fields`.
    """
    suffix = path.suffix.lower()
    if suffix not in (".toml", ".yml", ".yaml"):
        raise BadInput(str(path), "must be a .toml file, or StorAlloc's .yml or .yaml")
    if suffix == ".toml":
        table = _table(path, "", load_toml(path))
        for key in table.others(("name", "node")):
            raise BadInput(table.at(key), f"is not a key of this file{_hint(key, ('name', 'node'), cutoff=0.6)}")
        return _platform(path, table, _OURS)
    from forebay.history.yaml_events import load_yaml  # PyYAML may be missing

    try:
        document = load_yaml(path, path.read_bytes())
    except OSError as error:
        raise BadInput(str(path), why(error)) from None
    return _platform(path, _table(path, "", {} if document is None else document), _STORALLOC)


def _table(path: Path, place: str, value: object) -> _Table:
    if not isinstance(value, dict):
        where = f"{path}: {place}" if place else str(path)
        raise BadInput(where, f"must be a table of keys and values, not {_short(value)}")
    return _Table(path, place, {str(key): item for key, item in value.items()})


def _platform(path: Path, table: _Table, form: _Format) -> Platform:
    by_server: dict[str, list[Node]] = {}
    names: set[str] = set()
    disks = 0
    for index, entry in enumerate(table.tables(form.nodes)):
        nodes = _nodes(entry, index, form, most=_MOST_DISKS - disks)
        for node in nodes:
            if node.name in names:
                raise BadInput(entry.at(form.name), f"is taken: another node is named {node.name!r} already")
            names.add(node.name)
        disks += len(nodes) * len(nodes[0].disks)
        by_server.setdefault(entry.text("server", "S-0") if form.ours else "S-0", []).extend(nodes)
    servers = tuple(Server(name=name, nodes=tuple(nodes)) for name, nodes in by_server.items())
    return Platform(name=table.text("name", path.stem) if form.ours else path.stem, servers=servers)


def _nodes(table: _Table, index: int, form: _Format, most: int) -> list[Node]:
    """The nodes of one table, with at most `most` disks in all."""
    _check_keys(table, form.node_keys, form)
    name = table.text(form.name, f"node-{index}")
    network = _bandwidth(table, form.network, form)
    disks: list[Disk] = []
    for entry in table.tables(form.disks):
        disks += _disks(entry, form, most - len(disks))
    count = _count(table, form, most // len(disks))
    fields = table.others(form.node_keys)
    names = [f"{name}-{i}" for i in range(count)] if "count" in table.values and form.ours else [name]
    return [Node(name=name, network_bandwidth=network, disks=tuple(disks), fields=fields) for name in names]


def _disks(table: _Table, form: _Format, most: int) -> list[Disk]:
    _check_keys(table, form.disk_keys, form)
    disk = Disk(
        capacity=_capacity(table, form),
        write_bandwidth=_bandwidth(table, "write_bandwidth", form),
        read_bandwidth=_bandwidth(table, "read_bandwidth", form),
        fields=table.others(form.disk_keys),
    )
    return [disk] * _count(table, form, most)


def _count(table: _Table, form: _Format, most: int) -> int:
    value = table.values.get("count", 1) if form.ours else 1
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise BadInput(table.at("count"), f"must be a whole number from 1, not {_short(value)}")
    if value > most:
        raise BadInput(table.at("count") if value > 1 else table.where, f"makes more than {_MOST_DISKS:,} disks")
    return value


def _capacity(table: _Table, form: _Format) -> int:
    size = _quantity(table, "capacity", parse_size, "4 TB", form)
    if not 1 <= size <= MOST_BYTES:
        given = _short(table.values["capacity"])
        raise BadInput(table.at("capacity"), f"must be at least 1 byte and at most {MOST_BYTES:.0e}, not {given}")
    return round(size)


def _bandwidth(table: _Table, key: str, form: _Format) -> float:
    """Bytes per second; without a limit it is the text "inf" in our own files and the number .inf in YAML."""
    if table.values.get(key) == ("inf" if form.ours else math.inf):
        return math.inf
    bandwidth = _quantity(table, key, parse_bandwidth, "2.5 GB/s", form)
    if not (bandwidth > 0 and math.isfinite(bandwidth)):
        raise BadInput(table.at(key), f"must be positive and finite, not {_short(table.values[key])}")
    return bandwidth


def _quantity(table: _Table, key: str, parse: Callable[[str], float], example: str, form: _Format) -> float:
    value = table.needed(key)
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise BadInput(table.at(key), f"must be text with a unit, like {example!r}, not {_short(value)}")
    if not isinstance(value, str) and form.bare:
        return value * form.bare if abs(value) < 1e300 else math.inf
    if not isinstance(value, str) or _is_number(value):
        raise BadInput(table.at(key), f"needs a unit, like {example!r}, not {_short(value)}")
    try:
        return parse(value)
    except ValueError as error:
        raise BadInput(table.at(key), str(error)) from None


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _check_keys(table: _Table, known: tuple[str, ...], form: _Format) -> None:
    """Allow further keys, but not one that looks like a typing error."""
    for key in table.others(known) if form.ours else ():
        if hint := _hint(key, known, cutoff=0.8):
            raise BadInput(table.at(key), f"is not a key{hint}")


def _hint(key: str, known: tuple[str, ...], *, cutoff: float) -> str:
    near = difflib.get_close_matches(key, known, n=1, cutoff=cutoff)
    return f"; did you mean {near[0]!r}?" if near else ""


def _short(value: object) -> str:
    """The value as in the file, or only its kind if it is long."""
    if isinstance(value, dict | list):
        return "a table" if isinstance(value, dict) else "a list"
    if isinstance(value, int) and abs(value) >= 10**30:
        return "so large a number"
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
