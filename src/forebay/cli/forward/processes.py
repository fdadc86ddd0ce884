"""`forebay forward key`, `server`, `ion`, `council`, `up` and `mount`: the processes of a forwarding layer."""

from __future__ import annotations

import errno
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from forebay.model.errors import BadInput
from forebay.model.units import parse_duration, parse_size
from forebay.show.options import Json, Seed, parse_quantity
from forebay.show.output import announce

if TYPE_CHECKING:
    from forebay.act.forward.net.address import Address
    from forebay.model.layout import Layout

commands = typer.Typer()
LOOK = 3.0
"""Seconds without an answer of an I/O node, after which the command says that it waits."""
Listen = Annotated[str, typer.Option(help="Listen at unix:/PATH or HOST:PORT (port 0: any free one).")]
Key = Annotated[Path, typer.Option(help="File with the layer's key; `forebay forward key FILE` makes one.")]
Stripes = Annotated[int | None, typer.Option(help="Stripe count of new files [default: all servers].", min=1)]
StripeSize = Annotated[str, typer.Option(help="Stripe size of new files.")]
Metrics = Annotated[str | None, typer.Option(help="Serve Prometheus metrics at HOST:PORT.")]


@commands.command(epilog="Example: forebay forward key layer.key")
def key(file: Annotated[Path, typer.Argument(help="File to write; it must not exist.")]) -> None:
    """Make a key that all processes of a layer share."""
    from forebay.act.forward.net.key import write_key

    write_key(file)
    typer.echo(f"written: {file}")


@commands.command(
    epilog="Example: forebay forward server --folder /data/fb0 --listen unix:/run/fb/server0 --key layer.key --of 4"
)
def server(
    folder: Annotated[Path, typer.Option(help="Folder for its stripes of all files; created if it does not exist.")],
    listen: Listen,
    key: Key,
    index: Annotated[int, typer.Option(help="Number of this server; server 0 also keeps the names.", min=0)] = 0,
    of: Annotated[int, typer.Option(help="Number of servers in the layer.", min=1)] = 1,
    stripes: Stripes = None,
    stripe_size: StripeSize = "1 MiB",
    user: Annotated[str | None, typer.Option(help="Run as UID:GID; only root can [default: as it is started].")] = None,
    locks: Annotated[
        bool, typer.Option(help="Grant locks; without them, programs get ENOLCK. Only server 0 keeps them.")
    ] = True,
    emulate: Annotated[float | None, typer.Option(help="Emulate the modelled server, this many times slower.")] = None,
    metrics: Metrics = None,
    json: Json = False,
) -> None:
    """Run a data server, which keeps stripes of files in a folder."""
    from forebay.act.forward.data.server import run_server
    from forebay.act.forward.data.settings import ServerSettings
    from forebay.act.forward.net.address import parse_address
    from forebay.act.forward.net.key import read_key

    emulation = None
    if emulate is not None:  # real servers start without compiled kernels, in half the time
        from forebay.act.forward.data.emulation import Emulation
        from forebay.history.toml import locate_errors

        emulation = locate_errors("--emulate", lambda: Emulation(dilation=emulate, seed=index))
    settings = ServerSettings(
        folder=folder,
        address=parse_address(listen, "--listen"),
        key=read_key(key),
        index=index,
        servers=of,
        layout=layout(stripes or of, stripe_size),
        locks=locks,
        emulation=emulation,
    )
    if user is not None:
        switch_user(user)
    run_server(settings, metrics, partial(announce_ready, "server", json, index=index))


@commands.command(
    epilog="Example: forebay forward ion --listen unix:/run/fb/ion0 --key layer.key "
    "--server unix:/run/fb/server0 --server unix:/run/fb/server1 --scheduler twins:window=1000000"
)
def ion(
    listen: Annotated[list[str], typer.Option(help="Listen at unix:/PATH or HOST:PORT; repeatable.")],
    key: Key,
    server: Annotated[list[str] | None, typer.Option(help="Data server; repeat in the order of their numbers.")] = None,
    root: Annotated[Path | None, typer.Option(help="Forward to this mounted folder instead of data servers.")] = None,
    layout_from: Annotated[str, typer.Option(help="With --root, source of layouts: given, lustre or ceph.")] = "given",
    servers: Annotated[int, typer.Option(help="With --root, number of servers of the file system.", min=1)] = 1,
    stripes: Stripes = None,
    stripe_size: StripeSize = "1 MiB",
    index: Annotated[int, typer.Option(help="Number of this I/O node.", min=0)] = 0,
    name: Annotated[str | None, typer.Option(help="Name of this I/O node [default: host and number].")] = None,
    scheduler: Annotated[str, typer.Option(help="Request scheduler; NAME:option=value sets an option.")] = "fifo",
    window: Annotated[str | None, typer.Option(help="Window of twins, such as '1 ms'; 0: no windows.")] = None,
    aggregate: Annotated[str | None, typer.Option(help="Combine contiguous requests up to this size.")] = None,
    in_flight: Annotated[
        int | None, typer.Option(help="Maximum of unanswered messages [128; with windows 32].", min=1)
    ] = None,
    patience: Annotated[str, typer.Option(help="How long requests wait for a server that does not answer.")] = "30 s",
    timeout: Annotated[str | None, typer.Option(help="Time limit of a request at a server [default: none].")] = None,
    memory: Annotated[str, typer.Option(help="Memory for waiting requests.")] = "256 MiB",
    user: Annotated[
        str | None, typer.Option(help="Run as UID:GID once it listens; only root can [default: as it is started].")
    ] = None,
    council: Annotated[str | None, typer.Option(help="Address of the council.")] = None,
    metrics: Metrics = None,
    db: Annotated[str | None, typer.Option(help="Without a council: history for the jobs' runs.")] = None,
    json: Json = False,
) -> None:
    """Run an I/O node, which orders requests and forwards them."""
    import os
    import socket

    from forebay.act.forward.net.address import parse_address
    from forebay.act.forward.net.key import read_key
    from forebay.act.forward.node.io_node import NodeSettings
    from forebay.act.forward.node.process import choose_backend, queue_options, run_node

    backend = choose_backend(server or (), root, layout_from, servers, layout(stripes or servers, stripe_size))
    settings = NodeSettings(
        name=name or f"{socket.gethostname()}-ion{index}-{os.getuid()}",
        address=tuple(parse_address(text, "--listen") for text in listen),
        key=read_key(key),
        index=index,
        scheduler=scheduler,
        patience=parse_quantity("--patience", patience, parse_duration),
        timeout=_parse_optional("--timeout", timeout, parse_duration) or 0.0,
        memory=int(parse_quantity("--memory", memory, parse_size)),
        queue=queue_options(
            scheduler,
            window=_parse_optional("--window", window, parse_duration),
            aggregate=_parse_optional("--aggregate", aggregate, parse_size),
            in_flight=in_flight,
        ),
    )

    def ready(addresses: Sequence[Address], metrics: str | None) -> None:
        if user is not None:
            switch_user(user)
        announce_ready("ion", json, addresses, metrics, index=index)

    run_node(settings, backend, ready, council=council, metrics=metrics, db=db)


@commands.command(
    epilog="Example: forebay forward council --listen unix:/run/fb/council --key layer.key --state council.json"
)
def council(
    listen: Listen,
    key: Key,
    parameter: Annotated[str, typer.Option(help="What to tune: window, aggregate, quantum or scheduler.")] = "window",
    values: Annotated[
        str | None,
        typer.Option(
            help="Comma-separated values: durations for window, sizes for aggregate [default: no windows, and windows "
            "from 0.125 to 8 ms]."
        ),
    ] = None,
    tuner: Annotated[str, typer.Option(help="Tuner; NAME:option=value sets an option.")] = "forebay",
    reward: Annotated[str, typer.Option(help="Reward: bandwidth, or demand (normalised by the load).")] = "demand",
    every: Annotated[str, typer.Option(help="Interval between decisions.")] = "1 s",
    most_loss: Annotated[
        float, typer.Option(help="Share of the throughput without windows (or with fifo) that learning may cost.")
    ] = 0.02,
    state: Annotated[Path | None, typer.Option(help="File that keeps what it has learned.")] = None,
    ignore: Annotated[bool, typer.Option("--ignore", help="Decide, but let I/O nodes ignore the decisions.")] = False,
    seed: Seed = 0,
    log: Annotated[Path | None, typer.Option(help="Append every decision to this file as a line of JSON.")] = None,
    weights: Annotated[Path | None, typer.Option(help="File of `forebay forward train` [default: built in].")] = None,
    metrics: Metrics = None,
    db: Annotated[str | None, typer.Option(help="History for the jobs' runs.")] = None,
    json: Json = False,
) -> None:
    """Run the council, which learns the best setting of the I/O nodes."""
    from forebay.act.forward.council.parameters import DEFAULT_WINDOWS
    from forebay.act.forward.council.process import CouncilSettings, run_council
    from forebay.act.forward.net.address import parse_address
    from forebay.act.forward.net.key import read_key
    from forebay.decide.tune.council import new_council

    if values is None:
        if parameter != "window":
            raise BadInput("--values", f"is required to tune {parameter}")
        values = ",".join(DEFAULT_WINDOWS)
    interval = parse_quantity(
        "--every", every, parse_duration, lambda value: 0.01 <= value <= 3600, "must be between 10 ms and 1 h"
    )
    settings = CouncilSettings(
        address=parse_address(listen, "--listen"),
        key=read_key(key),
        council=new_council(parameter, choices(parameter, values), tuner=tuner, reward=reward, most_loss=most_loss),
        state=state,
        every=interval,
        ignore=ignore,
        seed=seed,
        log=log,
        weights=weights,
    )
    run_council(settings, metrics, db, partial(announce_ready, "council", json))


@commands.command(epilog="Example: forebay forward up examples/forward.toml")
def up(
    file: Annotated[Path, typer.Argument(help="TOML file of the layer, as in examples/forward.toml.")],
    check: Annotated[bool, typer.Option("--check", help="Only check the file.")] = False,
    json: Json = False,
) -> None:
    """Run a whole layer on this machine. Ctrl-C ends it."""
    from forebay.act.forward.layer_settings import read_layer

    settings = read_layer(file)
    nodes = [str(address) for ion in settings.ions for address in ion.addresses]
    parts = [part.name for part in settings.parts]
    if check:
        document = {"file": str(file), "parts": parts, "nodes": nodes}
        announce(document, f"{file}: valid: {', '.join(parts)}", json_line=json)
        return
    from forebay.act.forward.layer import Layer
    from forebay.act.forward.net.loop import run

    layer = Layer(settings, lambda line: typer.echo(f"forebay: {line}", err=True))
    document = {"ready": "layer", "addresses": nodes, "key": str(settings.key), "parts": parts}
    text = f"layer ready: {' '.join(nodes)}; key: {settings.key}"
    run(lambda end: layer.run(end, lambda: announce(document, text, json_line=json)))


@commands.command(
    epilog="Example: forebay forward mount /mnt/layer --nodes unix:/run/fb/ion0,unix:/run/fb/ion1 --key layer.key"
)
def mount(
    folder: Annotated[Path, typer.Argument(help="Empty folder at which programs see the layer's files.")],
    nodes: Annotated[str, typer.Option(help="Comma-separated I/O nodes, preferred first: unix:/PATH or HOST:PORT.")],
    key: Annotated[Path, typer.Option(help="File with the layer's key.")],
    daemon: Annotated[bool, typer.Option("--daemon", help="Continue in the background once it is mounted.")] = False,
    threads: Annotated[int, typer.Option(help="Maximum of concurrent requests.", min=1, max=256)] = 8,
    cache: Annotated[
        str, typer.Option(help="How long to keep names and attributes without a lease: others' changes show later.")
    ] = "0 s",
    leases: Annotated[
        bool, typer.Option(help="Keep what the layer grants leases on; others' changes show at once.")
    ] = True,
    patience: Annotated[str, typer.Option(help="How long a request waits for I/O nodes that do not answer.")] = "30 s",
    everybody: Annotated[bool, typer.Option("--everybody", help="Let all users use it (FUSE's allow_other).")] = False,
    checksums: Annotated[bool, typer.Option("--checksums", help="Verify a checksum of every payload.")] = False,
    app: Annotated[str, typer.Option(help="Application name in the history.")] = "mount",
    job: Annotated[str | None, typer.Option(help="Job number [default: from the batch system].")] = None,
    processes: Annotated[int | None, typer.Option(help="Number of processes of the job.", min=1)] = None,
    replace_: Annotated[bool, typer.Option("--replace", help="Unmount a mount whose process is gone.")] = False,
) -> None:
    """Mount the layer for ordinary programs. Unmount it, or send SIGTERM or Ctrl-C, to end it."""
    from forebay.act.forward.clients.channel import identify
    from forebay.act.forward.clients.sync import Client
    from forebay.act.forward.mount.device import check_mount_point, clear_dead_mount, mount
    from forebay.act.forward.mount.layer_files import LayerFiles
    from forebay.act.forward.mount.lease_upkeep import LeaseUpkeep, as_holder
    from forebay.act.forward.mount.turns import Turn
    from forebay.act.forward.net.key import read_key

    if replace_:
        clear_dead_mount(folder)
    check_mount_point(folder)
    who = identify(app, job or "", processes or 0)
    at_most_a_day = (lambda value: 0 <= value <= 86400), "must be between 0 s and 1 day"
    wait = parse_quantity("--patience", patience, parse_duration, *at_most_a_day)
    seconds = parse_quantity("--cache", cache, parse_duration, *at_most_a_day)
    ions, secret = addresses(nodes), read_key(key)
    check_layer(nodes, ions, secret, wait)
    who = as_holder(who) if leases else who
    connect = partial(Client, ions, secret, who=who, patience=wait, checked=checksums)
    report_ready = partial(announce, {}, f"mount ready: {folder}", json_line=False)
    client, keeper, turn = connect(connections=threads, closes_later=True), connect(connections=2), Turn()
    client.before_wait = keeper.before_wait = turn.pass_on
    files = LayerFiles(client, keeper=keeper)
    upkeep = LeaseUpkeep(files, ions, secret, who)
    try:
        mount(
            files, folder, report_ready, foreground=not daemon, threads=threads, cache=seconds, everybody=everybody,
            validity=files.cache, begin=upkeep.start, turn=turn,
        )  # fmt: skip
    finally:
        files.reports.end()


def switch_user(text: str) -> None:
    """Become the user UID:GID, unless this process runs as that user already.

    The user may not be able to read Python's own files, so load what is loaded later: addresses need a codec.
    """
    import os

    from forebay.act.command import become_user
    from forebay.model.grant import MOST_UID

    numbers = [int(part) if part.isascii() and part.isdigit() else -1 for part in text.split(":")]
    if len(numbers) != 2 or not all(0 <= number <= MOST_UID for number in numbers):
        raise BadInput("--user", f"must be UID:GID, such as 1000:1000, not {text!r}")
    "localhost".encode("idna")
    if os.geteuid() == 0:
        become_user(numbers[0], numbers[1])
    elif numbers[0] != os.geteuid():
        raise BadInput("--user", f"only root can run it as uid {numbers[0]}; this is uid {os.geteuid()}")


def addresses(text: str) -> list[Address]:
    """Parse a list of addresses. Make paths absolute, as a mount in the background changes the working directory."""
    from forebay.act.forward.net.address import parse_address

    parsed = [parse_address(word.strip(), "--nodes") for word in text.split(",") if word.strip()]
    if not parsed:
        raise BadInput("--nodes", "must name at least one I/O node")
    return [replace(each, path=str(Path(each.path).absolute())) if each.path else each for each in parsed]


def check_layer(nodes: str, ions: Sequence[Address], key: bytes, patience: float) -> None:
    """Raise BadInput for a wrong key or address before the first program uses the layer.

    The layer may still be starting: after `LOOK` seconds without an answer, say that it is waited for.
    """
    from forebay.act.forward.clients.sync import Client

    first = min(patience, LOOK)
    for seconds, rest in ((first, patience - first), (patience - first, 0.0)):
        try:
            with Client(ions, key, patience=seconds, connections=1) as client:
                client.stat("/")
        except OSError as error:
            problem = BadInput(f"--nodes {nodes}", error.strerror or str(error))
            if not rest or error.errno != errno.EIO:  # a wrong key stays wrong
                raise problem from None
            typer.echo(f"forebay: {problem}; trying for another {rest:g} s", err=True)
        else:
            return


def choices(parameter: str, values: str) -> list[int | str]:
    """Parse the values that the user lists into the units of schedulers.

    >>> choices("window", "0.5ms, 1ms")
    [500000, 1000000]
    """
    texts = [text.strip() for text in values.split(",") if text.strip()]
    if parameter not in _UNITS:
        return list(texts)
    parse, factor = _UNITS[parameter]
    return [round(parse_quantity("--values", text, parse) * factor) for text in texts]


_UNITS: dict[str, tuple[Callable[[str], float], float]] = {
    "window": (parse_duration, 1e9),
    "aggregate": (parse_size, 1),
    "quantum": (float, 1),
}


def layout(stripes: int, stripe_size: str) -> Layout:
    from forebay.history.toml import locate_errors
    from forebay.model.layout import ANY, Layout

    size = int(parse_quantity("--stripe-size", stripe_size, parse_size))
    return locate_errors("--stripe-size", lambda: Layout(count=stripes, size=size, start=ANY))


def announce_ready(process: str, json: bool, addresses: Sequence[Address], metrics: str | None, **more: object) -> None:
    listening = [str(address) for address in addresses]
    document = {"ready": process, "addresses": listening, **more, "metrics": metrics}
    announce(document, f"{process} ready: {' '.join(listening)}", json_line=json)


def _parse_optional(option: str, text: str | None, parse: Callable[[str], float]) -> Any:
    return None if text is None else parse_quantity(option, text, parse)
