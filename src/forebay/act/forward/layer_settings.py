"""Reads the TOML file that describes a whole layer: its processes, their addresses, and their folders."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

from forebay.act.forward.council.parameters import DEFAULT_WINDOWS, PARAMETERS
from forebay.act.forward.net.address import Address, parse_address
from forebay.decide.registry import check_policy
from forebay.decide.tune.loss_limit import MOST_LOSS
from forebay.decide.tune.tuners import DEFAULT
from forebay.history.toml import Bytes, Field, Seconds, Table, load_toml, locate_errors, validate
from forebay.model.errors import BadInput, UnknownName
from forebay.model.layout import ANY, Layout

_LOCAL = ("localhost", "127.0.0.1", "::1")
_ALL = ("0.0.0.0", "::")
_ION_OPTIONS = {"scheduler", "window", "aggregate", "in_flight", "patience", "timeout", "memory"}
"""Keys of [layer] that are options of `forebay forward ion`."""


class _Layer(Table):
    folder: str = "layer"
    """The folder for sockets, data, the key and the council's state; relative to this file."""
    key: str = "key"
    """The file with the layer's key, in `folder`; created if it does not exist."""
    servers: int | None = Field(None, ge=1, le=4096)
    """Number of data servers, if there is no [[server]] table. [default: 4]"""
    ions: int | None = Field(None, ge=1, le=1024)
    """Number of I/O nodes, if there is no [[ion]] table. [default: 1]"""
    stripes: int | None = Field(None, ge=1)
    """The stripe count of new files. [default: all servers]"""
    stripe_size: Bytes = float(1 << 20)
    """The stripe size of new files."""
    scheduler: str = "fifo"
    """The request scheduler of I/O nodes; `forebay policies` lists them."""
    window: Seconds | None = None
    """How long `twins` serves one server before the next, 0: no windows; a council changes it. [default: 1 ms]"""
    aggregate: Bytes | None = None
    """Merge contiguous requests up to this size. [default: no merging]"""
    in_flight: int | None = Field(None, ge=1)
    """The most unanswered messages of each I/O node. [default: 128, with windows 32]"""
    patience: Seconds = 30.0
    """How long requests wait for a missing server."""
    timeout: Seconds = 0.0
    """How long a server may take for one request; 0: no limit."""
    memory: Bytes = float(256 << 20)
    """Memory of each I/O node for requests."""
    emulate: float | None = None
    """Make servers answer as slowly as the modelled ones, times this factor. [default: at once]"""
    locks: bool = True
    """Grant locks to programs; otherwise they get ENOLCK."""
    db: str | None = None
    """The history that records what jobs did. [default: none]"""


class _Server(Table):
    address: str
    """Where it listens: unix:PATH or HOST:PORT."""
    folder: str
    """Where it stores its part of all files."""
    metrics: str | None = None
    """HOST:PORT of its Prometheus metrics. [default: none]"""


class _Ion(Table):
    address: str | list[str]
    """Where it listens: unix:PATH or HOST:PORT, or a list of them."""
    metrics: str | None = None
    """HOST:PORT of its Prometheus metrics. [default: none]"""


class _Council(Table):
    address: str | None = None
    """Where it listens. [default: a socket in the layer's folder]"""
    parameter: str = "window"
    """What it tunes: window, aggregate, quantum or scheduler."""
    values: list[str] = Field(default_factory=lambda: list(DEFAULT_WINDOWS))
    """The values to choose from."""
    most_loss: float = Field(MOST_LOSS, gt=0, le=1)
    """How much learning may cost, as a share of the throughput with the value 0 (or `fifo`), if that is a choice."""
    tuner: str = DEFAULT
    """The tuner; `forebay policies` lists them."""
    reward: str = "demand"
    """What it maximises: bandwidth, or demand (bandwidth relative to the load)."""
    every: Seconds = 1.0
    """How often it decides."""
    state: str = "council.json"
    """The file for what it learned, in the layer's folder."""
    log: str | None = None
    """The file for its decisions, one JSON document per line. [default: none]"""
    ignore: bool = False
    """Decide, but let the I/O nodes ignore the decisions."""
    metrics: str | None = None
    """HOST:PORT of its Prometheus metrics. [default: none]"""


class _Mount(Table):
    folder: str
    """Where to mount the layer; relative to this file."""


class _File(Table):
    layer: _Layer = _Layer()
    """What all processes share."""
    server: list[_Server] = Field(default_factory=list)
    """A data server, one table for each, in order; the first keeps the names."""
    ion: list[_Ion] = Field(default_factory=list)
    """An I/O node, one table for each."""
    council: _Council | None = None
    """The council; without this table, windows do not change."""
    mount: _Mount | None = None
    """Also mount the layer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One process: its name, the arguments of `forebay forward`, and where it listens."""

    name: str
    arguments: tuple[str, ...]
    addresses: tuple[Address, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerFile:
    """The processes of a layer."""

    folder: Path
    key: Path
    servers: tuple[Part, ...]
    council: tuple[Part, ...]
    ions: tuple[Part, ...]
    mounts: tuple[Part, ...]

    @property
    def parts(self) -> tuple[Part, ...]:
        """In the order in which they start."""
        return (*self.servers, *self.council, *self.ions, *self.mounts)


def build_arguments(command: str, **options: object) -> tuple[str, ...]:
    """Build arguments of `forebay forward`; None and False omit an option, a list repeats it.

    >>> build_arguments("server", index=0, stripe_size=65536, metrics=None, listen=["unix:a", "unix:b"])
    ('server', '--index', '0', '--stripe-size', '65536', '--listen', 'unix:a', '--listen', 'unix:b')
    """
    argv = [command]
    for name, value in options.items():
        option = f"--{name.replace('_', '-')}"
        for each in value if isinstance(value, list | tuple) else (value,):
            if each is True:
                argv.append(option)
            elif each is not None and each is not False:
                argv += (option, f"{each:.9f}" if isinstance(each, float) else str(each))
    return tuple(argv)


def read_layer(path: Path) -> LayerFile:
    """Read the layer; an error names the key of the file."""
    file = validate(path, load_toml(path), _File)
    layer = file.layer
    folder = path.absolute().parent / layer.folder
    key = folder / layer.key
    check_policy(f"{path}: layer.scheduler", "order", layer.scheduler)
    servers = _servers(path, file, folder, key)
    council = _council(path, file, folder, key)
    ions = _ions(path, file, folder, key, servers, council)
    listeners = [(part.name, address) for part in (*servers, *ions, *council) for address in part.addresses]
    for (other, used), (name, address) in combinations(listeners, 2):
        if _overlap(address, used):
            raise BadInput(str(path), f"{other} and {name} both listen at {address}; change one of them")
    mounts: tuple[Part, ...] = ()
    if file.mount is not None:
        nodes = ",".join(str(ion.addresses[0]) for ion in ions)
        where = str(path.absolute().parent / file.mount.folder)
        mounts = (Part(name="mount", arguments=("mount", where, "--nodes", nodes, "--key", str(key), "--replace")),)
    return LayerFile(folder=folder, key=key, servers=servers, council=council, ions=ions, mounts=mounts)


def _servers(path: Path, file: _File, folder: Path, key: Path) -> tuple[Part, ...]:
    layer, tables = file.layer, file.server
    if tables and layer.servers is not None:
        raise BadInput(f"{path}: layer.servers", "conflicts with the [[server]] tables; remove one of them")
    count = len(tables) or layer.servers or 4
    tables = tables or [_Server(address=f"unix:{folder}/server{i}", folder=f"data{i}") for i in range(count)]
    folders = [(folder / table.folder).resolve() for table in tables]
    for (j, other), (i, mine) in combinations(enumerate(folders), 2):
        if mine.is_relative_to(other) or other.is_relative_to(mine):
            raise BadInput(str(path), f"server[{j}] and server[{i}] both keep their data in {mine}; change one of them")
    layout = locate_errors(
        f"{path}: layer.stripe_size",
        lambda: Layout(count=layer.stripes or count, size=int(layer.stripe_size), start=ANY),
    )
    shared = {"key": key, "of": count, "stripes": layout.count, "stripe_size": layout.size, "emulate": layer.emulate}
    shared["no_locks"] = not layer.locks
    return tuple(
        Part(
            name=f"server[{i}]",
            arguments=build_arguments(
                "server", index=i, folder=folders[i], listen=table.address, metrics=table.metrics, **shared
            ),
            addresses=(parse_address(table.address, f"{path}: server[{i}].address"),),
        )
        for i, table in enumerate(tables)
    )


def _council(path: Path, file: _File, folder: Path, key: Path) -> tuple[Part, ...]:
    table = file.council
    if table is None:
        return ()
    check_policy(f"{path}: council.tuner", "tune", table.tuner)
    if table.parameter not in PARAMETERS:
        unknown = UnknownName("parameter", table.parameter, PARAMETERS)
        raise BadInput(f"{path}: council.parameter", str(unknown))
    listen = table.address or f"unix:{folder}/council"
    options = table.model_dump(exclude={"address", "values", "state", "log"}) | {
        "values": ",".join(table.values),
        "state": folder / table.state,
        "log": table.log and folder / table.log,
        "db": file.layer.db,
    }
    address = parse_address(listen, f"{path}: council.address")
    argv = build_arguments("council", listen=listen, key=key, **options)
    return (Part(name="council", arguments=argv, addresses=(address,)),)


def _ions(
    path: Path, file: _File, folder: Path, key: Path, servers: Sequence[Part], council: Sequence[Part]
) -> tuple[Part, ...]:
    layer, tables = file.layer, file.ion
    if tables and layer.ions is not None:
        raise BadInput(f"{path}: layer.ions", "conflicts with the [[ion]] tables; remove one of them")
    tables = tables or [_Ion(address=f"unix:{folder}/ion{i}") for i in range(layer.ions or 1)]
    shared = layer.model_dump(include=_ION_OPTIONS) | {
        "key": key,
        "server": [str(server.addresses[0]) for server in servers],
        "council": [str(part.addresses[0]) for part in council],
        "db": None if council else layer.db,
        "timeout": layer.timeout or None,
    }
    ions = []
    for i, table in enumerate(tables):
        listen = [table.address] if isinstance(table.address, str) else table.address
        options = shared | {"index": i, "name": f"ion{i}@{folder}"[-200:], "listen": listen, "metrics": table.metrics}
        addresses = tuple(parse_address(text, f"{path}: ion[{i}].address") for text in listen)
        ions.append(Part(name=f"ion[{i}]", arguments=build_arguments("ion", **options), addresses=addresses))
    return tuple(ions)


def _overlap(address: Address, other: Address) -> bool:
    if address.path or other.path:
        return address.path == other.path
    if not address.port or address.port != other.port:
        return False
    hosts = {address.host, other.host}
    return len(hosts) == 1 or bool(hosts & set(_ALL)) or hosts <= set(_LOCAL)
