"""A whole layer as one TOML file describes it, checked: who listens where, and where everything is kept."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from forebay.act.forward.council.parameters import PARAMETERS
from forebay.act.forward.net.address import Address, parse_address
from forebay.decide.registry import known
from forebay.decide.tune.choose import DEFAULT
from forebay.history.toml import Bytes, Field, Seconds, Table, load_toml, locate_errors, validate
from forebay.model.errors import BadInput, UnknownName
from forebay.model.layout import ANY, Layout

WINDOWS = ("0.125 ms", "0.25 ms", "0.5 ms", "1 ms", "2 ms", "4 ms", "8 ms")
_LOCAL = ("localhost", "127.0.0.1", "::1")
_ALL = ("0.0.0.0", "::")


class _Layer(Table):
    folder: str = "layer"
    """Sockets, data, key, and what the council learned; relative to this file."""
    key: str = "key"
    """The file of the layer's key, in `folder`; made if it is not there."""
    servers: int | None = Field(None, ge=1, le=4096)
    """How many data servers, where there is no [[server]] table. [default: 4]"""
    ions: int | None = Field(None, ge=1, le=1024)
    """How many I/O nodes, where there is no [[ion]] table. [default: 1]"""
    stripes: int | None = Field(None, ge=1)
    """The stripe count of new files. [default: all servers]"""
    stripe_size: Bytes = float(1 << 20)
    """The stripe size of new files."""
    scheduler: str = "fifo"
    """The request scheduler of I/O nodes; `forebay policies` lists them."""
    window: Seconds | None = None
    """How long `twins` stays on one server; a council changes it."""
    aggregate: Bytes | None = None
    """Contiguous requests go together, up to this size. [default: they do not]"""
    in_flight: int | None = Field(None, ge=1)
    """Messages sent and not answered, per I/O node. [default: 128, with windows 32]"""
    patience: Seconds = 30.0
    """How long requests wait for a server that is away."""
    timeout: Seconds = 0.0
    """How long a server may take for one request; 0: as long as it likes."""
    memory: Bytes = float(256 << 20)
    """Memory of each I/O node for requests."""
    emulate: float | None = None
    """Servers answer as late as the modelled ones, times this dilation of time. [default: at once]"""
    db: str | None = None
    """The history that gets what jobs did. [default: none]"""


class _Server(Table):
    address: str
    """Where it listens: unix:PATH or HOST:PORT."""
    folder: str
    """Where its part of all files is kept."""
    metrics: str | None = None
    """Where it serves Prometheus metrics: HOST:PORT. [default: nowhere]"""


class _Ion(Table):
    address: str | list[str]
    """Where it listens: unix:PATH or HOST:PORT, or a list of them."""
    metrics: str | None = None
    """HOST:PORT at which it serves metrics. [default: none]"""


class _Council(Table):
    address: str | None = None
    """Where it listens. [default: a socket in the layer's folder]"""
    parameter: str = "window"
    """What it tunes: window, aggregate, quantum or scheduler."""
    values: list[str] = Field(default_factory=lambda: list(WINDOWS))
    """The values to choose from."""
    tuner: str = DEFAULT
    """The tuner; `forebay policies` lists them."""
    reward: str = "demand"
    """What counts: bandwidth, or demand (normalised by the load)."""
    every: Seconds = 1.0
    """How often it decides."""
    state: str = "council.json"
    """The file that keeps what it learned, in the layer's folder."""
    log: str | None = None
    """The file to which each decision is appended, a JSON document a line. [default: none]"""
    ignore: bool = False
    """Decide, but have the I/O nodes not follow."""
    metrics: str | None = None
    """HOST:PORT at which it serves metrics. [default: none]"""


class _Mount(Table):
    folder: str
    """Where to mount the layer; relative to this file."""


class _File(Table):
    layer: _Layer = _Layer()
    """What all parts share."""
    server: list[_Server] = Field(default_factory=list)
    """A data server, one table for each, in their order; the first keeps the names."""
    ion: list[_Ion] = Field(default_factory=list)
    """An I/O node, one table for each."""
    council: _Council | None = None
    """The council; without this table, windows stay as they are."""
    mount: _Mount | None = None
    """Also mount the layer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One process: what it is called here, the words after `forebay forward`, and where it listens."""

    name: str
    words: tuple[str, ...]
    addresses: tuple[Address, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerFile:
    """The parts in the order in which they are started."""

    folder: Path
    key: Path
    servers: tuple[Part, ...]
    council: Part | None
    ions: tuple[Part, ...]
    mount: Part | None

    @property
    def parts(self) -> Iterator[Part]:
        yield from self.servers
        yield from (self.council,) if self.council else ()
        yield from self.ions
        yield from (self.mount,) if self.mount else ()


def read_layer(path: Path) -> LayerFile:
    """The layer; an error says what is wrong, and under which key of the file."""
    file = validate(path, load_toml(path), _File)
    reader = _Reader(path, file)
    servers, ions = reader.servers(), reader.ions()
    council = reader.council()
    listening = [part for part in (*servers, *ions, *((council,) if council else ())) if part.addresses]
    _check_addresses(path, listening)
    return LayerFile(
        folder=reader.folder, key=reader.key, servers=servers, council=council, ions=ions, mount=reader.mount(ions)
    )


class _Reader:
    def __init__(self, path: Path, file: _File) -> None:
        self._path, self._file = path, file
        self.folder = path.absolute().parent / file.layer.folder
        self.key = self.folder / file.layer.key
        self._layout = self._checked_layout()
        known(f"{path}: layer.scheduler", "order", file.layer.scheduler)

    def _checked_layout(self) -> Layout:
        layer = self._file.layer
        count = layer.stripes or len(self._file.server) or layer.servers or 4
        return locate_errors(
            f"{self._path}: layer.stripe_size", lambda: Layout(count=count, size=int(layer.stripe_size), start=ANY)
        )

    def servers(self) -> tuple[Part, ...]:
        given = self._file.server
        if given and self._file.layer.servers is not None:
            raise BadInput(f"{self._path}: layer.servers", "is there beside [[server]] tables; one of both is enough")
        if not given:
            count = self._file.layer.servers or 4
            given = [_Server(address=f"unix:{self.folder}/server{i}", folder=f"data{i}") for i in range(count)]
        folders = [(self.folder / server.folder).resolve() for server in given]
        self._check_folders(folders)
        found = []
        emulate = self._file.layer.emulate
        for i, (server, folder) in enumerate(zip(given, folders, strict=True)):
            words = ["server", "--folder", str(folder), "--listen", server.address, "--key", str(self.key)]
            words += ["--index", str(i), "--of", str(len(given)), "--stripes", str(self._layout.count)]
            words += ["--stripe-size", str(self._layout.size)]
            words += [] if emulate is None else ["--emulate", f"{emulate:g}"]
            words += ["--metrics", server.metrics] if server.metrics else []
            address = parse_address(server.address, f"{self._path}: server[{i}].address")
            found.append(Part(name=f"server[{i}]", words=tuple(words), addresses=(address,)))
        return tuple(found)

    def _check_folders(self, folders: Sequence[Path]) -> None:
        for i, one in enumerate(folders):
            for j, other in enumerate(folders[:i]):
                if one == other or one.is_relative_to(other) or other.is_relative_to(one):
                    raise BadInput(str(self._path), f"server[{j}] and server[{i}] both keep their data in {one}")

    def ions(self) -> tuple[Part, ...]:
        given = self._file.ion
        if given and self._file.layer.ions is not None:
            raise BadInput(f"{self._path}: layer.ions", "is there beside [[ion]] tables; one of both is enough")
        if not given:
            given = [_Ion(address=f"unix:{self.folder}/ion{i}") for i in range(self._file.layer.ions or 1)]
        return tuple(self._ion(i, ion) for i, ion in enumerate(given))

    def _ion(self, i: int, ion: _Ion) -> Part:
        texts = [ion.address] if isinstance(ion.address, str) else ion.address
        addresses = tuple(parse_address(text, f"{self._path}: ion[{i}].address") for text in texts)
        words = ["ion", *(word for text in texts for word in ("--listen", text)), "--key", str(self.key)]
        words += ["--index", str(i), "--name", f"ion{i}@{self.folder}"[-200:], *self._ion_settings()]
        words += [word for server in self.servers() for a in server.addresses for word in ("--server", str(a))]
        if self._file.council is not None:
            words += ["--council", self._council_address()]
        elif self._file.layer.db is not None:
            words += ["--db", self._file.layer.db]
        words += ["--metrics", ion.metrics] if ion.metrics else []
        return Part(name=f"ion[{i}]", words=tuple(words), addresses=addresses)

    def _ion_settings(self) -> list[str]:
        layer = self._file.layer
        words = ["--scheduler", layer.scheduler, "--patience", f"{layer.patience:g}", "--memory", f"{layer.memory:.0f}"]
        words += ["--timeout", f"{layer.timeout:g}"] if layer.timeout else []
        words += ["--window", f"{layer.window:.9f}"] if layer.window is not None else []
        words += ["--aggregate", f"{layer.aggregate:.0f}"] if layer.aggregate is not None else []
        return words + (["--in-flight", str(layer.in_flight)] if layer.in_flight is not None else [])

    def _council_address(self) -> str:
        council = self._file.council
        return (council.address if council else None) or f"unix:{self.folder}/council"

    def council(self) -> Part | None:
        council = self._file.council
        if council is None:
            return None
        known(f"{self._path}: council.tuner", "tune", council.tuner)
        if council.parameter not in PARAMETERS:
            raise BadInput(
                f"{self._path}: council.parameter", str(UnknownName("parameter", council.parameter, PARAMETERS))
            )
        address = self._council_address()
        words = ["council", "--listen", address, "--key", str(self.key), "--parameter", council.parameter]
        words += ["--values", ",".join(council.values), "--tuner", council.tuner, "--reward", council.reward]
        words += ["--every", f"{council.every:g}", "--state", str(self.folder / council.state)]
        words += ["--log", str(self.folder / council.log)] if council.log else []
        words += ["--ignore"] if council.ignore else []
        words += ["--metrics", council.metrics] if council.metrics else []
        words += ["--db", self._file.layer.db] if self._file.layer.db is not None else []
        listens = parse_address(address, f"{self._path}: council.address")
        return Part(name="council", words=tuple(words), addresses=(listens,))

    def mount(self, ions: Sequence[Part]) -> Part | None:
        if self._file.mount is None:
            return None
        nodes = ",".join(str(address) for ion in ions for address in ion.addresses[:1])
        folder = self._path.absolute().parent / self._file.mount.folder
        return Part(name="mount", words=("mount", str(folder), "--nodes", nodes, "--key", str(self.key)))


def _check_addresses(path: Path, parts: Sequence[Part]) -> None:
    seen: list[tuple[str, Address]] = []
    for part in parts:
        for address in part.addresses:
            for name, other in seen:
                if _same(address, other):
                    raise BadInput(str(path), f"{name} and {part.name} both listen at {address}")
            seen.append((part.name, address))


def _same(one: Address, other: Address) -> bool:
    if one.path or other.path:
        return one.path == other.path
    if not one.port or one.port != other.port:
        return False
    hosts = {one.host, other.host}
    return len(hosts) == 1 or bool(hosts & set(_ALL)) or hosts <= set(_LOCAL)
