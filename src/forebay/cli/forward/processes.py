"""`forebay forward`: the I/O forwarding layer."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from forebay.model.errors import BadInput
from forebay.show.options import Json

if TYPE_CHECKING:
    from forebay.act.forward.data.emulation import Emulation
    from forebay.act.forward.data.server import Server
    from forebay.act.forward.node.io_node import IoNode
    from forebay.model.layout import Layout

commands = typer.Typer()


Listen = Annotated[str, typer.Option(help="Where to listen: unix:/PATH or HOST:PORT (port 0: any free one).")]
Key = Annotated[Path, typer.Option(help="The file with the layer's key; `forebay forward key FILE` makes one.")]
Stripes = Annotated[int | None, typer.Option(help="Stripe count of new files [default: all servers].", min=1)]
StripeSize = Annotated[str, typer.Option(help="Stripe size of new files.")]


@commands.command(epilog="Example: forebay forward key layer.key")
def key(file: Annotated[Path, typer.Argument(help="Where to; must not be there yet.")]) -> None:
    """Make a key that all parts of a layer share."""
    from forebay.act.forward.net.key import write_key

    write_key(file)
    typer.echo(f"written: {file}")


@commands.command(
    epilog="Example: forebay forward server --folder /data/fb0 --listen unix:/run/fb/server0 --key layer.key --of 4"
)
def server(
    folder: Annotated[Path, typer.Option(help="Where its part of all files is kept; made if it is not there.")],
    listen: Listen,
    key: Key,
    index: Annotated[int, typer.Option(help="Its number; server 0 also keeps the names.", min=0)] = 0,
    of: Annotated[int, typer.Option(help="How many servers the layer has.", min=1)] = 1,
    stripes: Stripes = None,
    stripe_size: StripeSize = "1 MiB",
    emulate: Annotated[
        float | None, typer.Option(help="Answer as late as the modelled server, times this dilation of time.")
    ] = None,
    metrics: Annotated[str | None, typer.Option(help="Serve Prometheus metrics at HOST:PORT.")] = None,
    json: Json = False,
) -> None:
    """Run a data server, which keeps stripes of files in a folder."""
    from contextlib import ExitStack

    from forebay.act.forward.data.server import ServerSettings, serve
    from forebay.act.forward.metrics import server_metrics
    from forebay.act.forward.net.address import parse_address
    from forebay.act.forward.net.key import read_key
    from forebay.act.forward.net.loop import run
    from forebay.act.metrics import Endpoint

    shown = parse_address(metrics, "--metrics") if metrics else None
    settings = ServerSettings(
        folder=folder,
        address=parse_address(listen, "--listen"),
        key=read_key(key),
        index=index,
        servers=of,
        layout=layout(stripes or of, stripe_size),
        emulation=None if emulate is None else _emulation(emulate, index),
    )

    with ExitStack() as stack:

        def ready(found: Server) -> None:
            endpoint = Endpoint(shown, lambda: server_metrics(found, index)) if shown else None
            if endpoint is not None:
                stack.callback(endpoint.close)
            where = str(endpoint.address) if endpoint else None
            say_ready("server", [str(found.address)], json, index=index, metrics=where)

        run(lambda end: serve(settings, end, ready))


def _emulation(dilation: float, seed: int) -> Emulation:
    from forebay.act.forward.data.emulation import Emulation
    from forebay.history.toml import locate_errors

    return locate_errors("--emulate", lambda: Emulation(dilation=dilation, seed=seed))


@commands.command(
    epilog="Example: forebay forward ion --listen unix:/run/fb/ion0 --key layer.key "
    "--server unix:/run/fb/server0 --server unix:/run/fb/server1 --scheduler twins:window=1000000"
)
def ion(
    listen: Annotated[list[str], typer.Option(help="Where to listen: unix:/PATH or HOST:PORT; may be repeated.")],
    key: Key,
    server: Annotated[list[str] | None, typer.Option(help="A data server, in their order; repeated.")] = None,
    root: Annotated[Path | None, typer.Option(help="Forward to this mounted folder instead of data servers.")] = None,
    layout_from: Annotated[
        str, typer.Option(help="With --root, what tells the server of each offset: given, lustre or ceph.")
    ] = "given",
    servers: Annotated[int, typer.Option(help="With --root, how many servers the file system has.", min=1)] = 1,
    stripes: Stripes = None,
    stripe_size: StripeSize = "1 MiB",
    index: Annotated[int, typer.Option(help="Its number among the I/O nodes.", min=0)] = 0,
    name: Annotated[str | None, typer.Option(help="What others know it by [default: host and number].")] = None,
    scheduler: Annotated[str, typer.Option(help="Request scheduler; NAME:option=value sets an option.")] = "fifo",
    window: Annotated[str | None, typer.Option(help="Window of twins, for example '1 ms'.")] = None,
    aggregate: Annotated[str | None, typer.Option(help="Send contiguous requests together, up to this size.")] = None,
    in_flight: Annotated[
        int | None, typer.Option(help="Most messages sent and not answered [default: 128, with windows 32].", min=1)
    ] = None,
    patience: Annotated[str, typer.Option(help="How long requests wait for a server that is away.")] = "30 s",
    timeout: Annotated[
        str | None, typer.Option(help="How long a server may take for a request [default: any].")
    ] = None,
    memory: Annotated[str, typer.Option(help="Memory for requests.")] = "256 MiB",
    council: Annotated[str | None, typer.Option(help="The council's address.")] = None,
    metrics: Annotated[str | None, typer.Option(help="Serve Prometheus metrics at HOST:PORT.")] = None,
    db: Annotated[str | None, typer.Option(help="Without a council: the history that gets the jobs' runs.")] = None,
    json: Json = False,
) -> None:
    """Run an I/O node, which orders requests and forwards them."""
    from forebay.act.forward.node.process import NodeOptions, start_node
    from forebay.model.units import parse_duration, parse_size

    options = NodeOptions(
        listen=tuple(listen),
        key=key,
        servers=tuple(server or ()),
        root=root,
        layout_from=layout_from,
        root_servers=servers,
        layout=layout(stripes or servers, stripe_size),
        index=index,
        name=name,
        scheduler=scheduler,
        window=_quantity("--window", window, parse_duration),
        aggregate=_quantity("--aggregate", aggregate, parse_size),
        in_flight=in_flight,
        patience=_quantity("--patience", patience, parse_duration) or 0.0,
        timeout=_quantity("--timeout", timeout, parse_duration) or 0.0,
        memory=int(_quantity("--memory", memory, parse_size) or 0),
        council=council,
        metrics=metrics,
        db=db,
    )

    def ready(node: IoNode, metrics_at: str | None) -> None:
        say_ready("ion", [str(address) for address in node.addresses], json, index=index, metrics=metrics_at)

    start_node(options, ready)


@commands.command(
    epilog="Example: forebay forward council --listen unix:/run/fb/council --key layer.key --state council.json"
)
def council(
    listen: Listen,
    key: Key,
    parameter: Annotated[str, typer.Option(help="What it tunes: window, aggregate, quantum or scheduler.")] = "window",
    values: Annotated[
        str, typer.Option(help="The values to choose from, by commas; durations for window, sizes for aggregate.")
    ] = "0.125ms,0.25ms,0.5ms,1ms,2ms,4ms,8ms",
    tuner: Annotated[str, typer.Option(help="Tuner; NAME:option=value sets an option.")] = "forebay",
    reward: Annotated[str, typer.Option(help="What counts: bandwidth, or demand (normalised by the load).")] = "demand",
    every: Annotated[str, typer.Option(help="How often it decides.")] = "1 s",
    state: Annotated[Path | None, typer.Option(help="The file that keeps what it learned.")] = None,
    ignore: Annotated[bool, typer.Option("--ignore", help="Decide, but have the I/O nodes not follow.")] = False,
    seed: Annotated[int, typer.Option(help="Makes its chance the same again.", min=0)] = 0,
    log: Annotated[
        Path | None, typer.Option(help="Append every decision to this file, a JSON document a line.")
    ] = None,
    weights: Annotated[
        Path | None, typer.Option(help="What `forebay forward train` wrote, to recognise patterns by [default: ours].")
    ] = None,
    metrics: Annotated[str | None, typer.Option(help="Serve Prometheus metrics at HOST:PORT.")] = None,
    db: Annotated[str | None, typer.Option(help="The history that gets the jobs' runs.")] = None,
    json: Json = False,
) -> None:
    """Run the council, which learns the best setting for I/O nodes."""
    from forebay.act.forward.council.process import CouncilSettings, start_council
    from forebay.act.forward.net.address import parse_address
    from forebay.act.forward.net.key import read_key
    from forebay.decide.tune.council import new_council
    from forebay.model.units import parse_duration

    seconds = _quantity("--every", every, parse_duration)
    if not 0.01 <= seconds <= 3600:
        raise BadInput("--every", f"must be between 10 ms and an hour, not {every!r}")
    settings = CouncilSettings(
        address=parse_address(listen, "--listen"),
        key=read_key(key),
        council=new_council(parameter, choices(parameter, values), tuner=tuner, reward=reward),
        state=state,
        every=seconds,
        ignore=ignore,
        seed=seed,
        log=log,
        weights=weights,
    )

    def ready(found: Any, metrics_at: str | None) -> None:
        say_ready("council", [str(found.address)], json, metrics=metrics_at)

    start_council(settings, metrics, db, ready)


@commands.command(epilog="Example: forebay forward up examples/forward.toml")
def up(
    file: Annotated[Path, typer.Argument(help="The layer as a TOML file; examples/forward.toml explains it.")],
    check: Annotated[bool, typer.Option("--check", help="Only check the file.")] = False,
    json: Json = False,
) -> None:
    """Run a whole layer on this machine. Ctrl-C ends it."""
    from forebay.act.forward.layer_file import read_layer

    found = read_layer(file)
    nodes = [str(address) for ion in found.ions for address in ion.addresses]
    if check:
        parts = [part.name for part in found.parts]
        _say({"file": str(file), "parts": parts, "nodes": nodes}, f"{file}: fine: {', '.join(parts)}", json)
        return
    from forebay.act.forward.layer import Layer
    from forebay.act.forward.net.loop import run

    layer = Layer(found, lambda words: typer.echo(f"forebay: {words}", err=True))
    document = {"ready": "layer", "addresses": nodes, "key": str(found.key), "parts": [p.name for p in found.parts]}
    words = f"layer ready: {' '.join(nodes)}; key: {found.key}"
    run(lambda end: layer.run(end, lambda: _say(document, words, json)))


def _say(document: dict[str, Any], words: str, json: bool) -> None:
    import json as codec

    typer.echo(codec.dumps(document) if json else words)
    sys.stdout.flush()


def choices(parameter: str, values: str) -> list[int | str]:
    """The values that the user lists, in the units that schedulers have.

    >>> choices("window", "0.5ms, 1ms")
    [500000, 1000000]
    """
    from forebay.model.units import parse_duration, parse_size

    found = [word.strip() for word in values.split(",") if word.strip()]
    if parameter == "window":
        return [round(_quantity("--values", word, parse_duration) * 1e9) for word in found]
    if parameter == "aggregate":
        return [round(_quantity("--values", word, parse_size)) for word in found]
    if parameter == "quantum":
        return [round(_quantity("--values", word, float)) for word in found]
    return list(found)


def layout(stripes: int, stripe_size: str) -> Layout:
    from forebay.history.toml import locate_errors
    from forebay.model.layout import ANY, Layout
    from forebay.model.units import parse_size

    size = _quantity("--stripe-size", stripe_size, parse_size)
    return locate_errors("--stripe-size", lambda: Layout(count=stripes, size=int(size or 0), start=ANY))


def say_ready(part: str, addresses: list[str], json: bool, **more: Any) -> None:
    """One line that whoever started it can wait for."""
    import json as codec

    if json:
        typer.echo(codec.dumps({"ready": part, "addresses": addresses, **more}))
    else:
        typer.echo(f"{part} ready: {' '.join(addresses)}")
    sys.stdout.flush()


def _quantity(option: str, text: str | None, parse: Any) -> Any:
    if text is None:
        return None
    try:
        value = parse(text)
    except ValueError as error:
        raise BadInput(option, str(error)) from None
    if value < 0:
        raise BadInput(option, f"can't be negative: {text!r}")
    return value
