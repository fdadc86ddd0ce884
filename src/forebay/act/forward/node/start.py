"""An I/O node from the options of the command line: what it is made of, and its threads to the rest of the layer."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, get_args

from forebay.act.forward.metrics import Totals, node_metrics
from forebay.act.forward.net.address import Address, parse_address
from forebay.act.forward.net.auth import Peer
from forebay.act.forward.net.key import read_key
from forebay.act.forward.net.loop import run
from forebay.act.forward.net.payloads import JobPart
from forebay.act.forward.net.wire import LONGEST
from forebay.act.forward.node.backend import Backend
from forebay.act.forward.node.council_client import CouncilClient
from forebay.act.forward.node.data_servers import DataServers
from forebay.act.forward.node.file_places import How, places_finder
from forebay.act.forward.node.folder import Folder
from forebay.act.forward.node.io_node import IoNode, NodeSettings
from forebay.act.forward.node.mounted_folder import MountedFolder
from forebay.act.metrics import Endpoint
from forebay.decide.registry import find, known
from forebay.model.errors import BadInput, UnknownName
from forebay.model.layout import Layout

if TYPE_CHECKING:
    from forebay.history.store import Store

_LAST_WORDS = 3.0
_LEAST_MEMORY = 2 * LONGEST
_IN_FLIGHT, _IN_FLIGHT_OF_WINDOWS = 128, 32
Ready = Callable[[IoNode, str | None], None]
"""Told once it listens, and where its metrics are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeOptions:
    """As the user gives them; times in seconds, sizes in bytes, addresses as text."""

    listen: tuple[str, ...]
    key: Path
    servers: tuple[str, ...] = ()
    root: Path | None = None
    layout_from: str = "given"
    root_servers: int = 1
    layout: Layout = field(default_factory=lambda: Layout(count=1))
    index: int = 0
    name: str | None = None
    scheduler: str = "fifo"
    window: float | None = None
    aggregate: float | None = None
    in_flight: int | None = None
    patience: float = 30.0
    timeout: float = 0.0
    memory: int = 256 << 20
    council: str | None = None
    metrics: str | None = None
    db: str | None = None


def settings_of(options: NodeOptions) -> NodeSettings:
    """Checked: what is wrong is said before anything is started."""
    policy = find("order", known("--scheduler", "order", options.scheduler))
    # What is sent can't be ordered any more, so a scheduler with windows sends little ahead; others gain by it.
    usual = _IN_FLIGHT_OF_WINDOWS if "window" in policy.options else _IN_FLIGHT
    queue = {"in_flight": options.in_flight or usual}
    if options.window is not None:
        queue["window"] = round(options.window * 1e9)
    if options.aggregate is not None:
        queue["aggregate"] = round(options.aggregate)
    most = queue.get("aggregate", policy.options.get("aggregate", 0))
    if isinstance(most, int) and most > LONGEST:
        where = "--scheduler" if options.aggregate is None else "--aggregate"
        raise BadInput(where, f"a message may have {LONGEST} bytes, not {most}")
    if options.memory < _LEAST_MEMORY:  # a message of the longest kind would never be let in
        raise BadInput("--memory", f"must be at least {_LEAST_MEMORY >> 20} MiB")
    return NodeSettings(
        name=options.name or f"{socket.gethostname()}-ion{options.index}-{os.getuid()}",
        address=tuple(parse_address(text, "--listen") for text in options.listen),
        key=read_key(options.key),
        index=options.index,
        scheduler=options.scheduler,
        patience=options.patience,
        timeout=options.timeout,
        memory=options.memory,
        queue=queue,
    )


def backend_of(options: NodeOptions, settings: NodeSettings) -> Backend:
    """Made within a running loop."""
    if options.root is not None:
        how = next((how for how in get_args(How) if how == options.layout_from), None)
        if how is None:
            raise BadInput("--layout-from", str(UnknownName("source of layouts", options.layout_from, get_args(How))))
        where = places_finder(how, options.root_servers, options.layout)
        return MountedFolder(Folder(options.root), where, options.root_servers)
    me = Peer(role="node", name=settings.name, facts={"index": settings.index})
    addresses = [parse_address(text, "--server") for text in options.servers]
    return DataServers(addresses, settings.key, me, patience=settings.patience)


def start_node(options: NodeOptions, ready: Ready) -> None:
    """Run an I/O node until it is told to end."""
    if bool(options.servers) == (options.root is not None):
        raise BadInput("--server", "an I/O node needs data servers, or a folder (--root), and not both")
    if options.council and options.db:
        raise BadInput("--db", "goes without a council; where there is one, it writes the history")
    settings = settings_of(options)
    council = parse_address(options.council, "--council") if options.council else None
    metrics = parse_address(options.metrics, "--metrics") if options.metrics else None
    store = _opened(options.db) if options.db else None
    run(lambda end: _main(settings, options, council, metrics, store, end, ready))


async def _main(
    settings: NodeSettings,
    options: NodeOptions,
    council: Address | None,
    metrics: Address | None,
    store: Store | None,
    end: asyncio.Event,
    ready: Ready,
) -> None:
    node = IoNode(settings, backend_of(options, settings))
    client, totals = CouncilClient(node, council), Totals()
    client.on_period = totals.add
    writing = ThreadPoolExecutor(1, "history")
    if store is not None:
        node.record = partial(_store_later, writing, store)
    elif council is not None:
        node.record = client.record
    endpoint = Endpoint(metrics, lambda: node_metrics(node, client, totals)) if metrics else None
    await node.start()
    watching = asyncio.get_running_loop().create_task(client.run())
    try:
        ready(node, str(endpoint.address) if endpoint else None)
        await end.wait()
    finally:
        await node.close()
        await client.flush(_LAST_WORDS)
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
        writing.shutdown()
        if store is not None:
            store.close()
        if endpoint is not None:
            endpoint.close()


def _opened(db: str) -> Store:
    from forebay.history.store import open_store  # most I/O nodes have none, and are started sooner

    return open_store(db)


def _store_later(writing: ThreadPoolExecutor, store: Store, parts: list[JobPart]) -> None:
    writing.submit(_write, store, parts)


def _write(store: Store, parts: list[JobPart]) -> None:
    from forebay.act.forward.node.job_history import store_parts

    try:
        store_parts(store, parts)
    except BadInput as error:
        print(f"forebay: ion: {error}", file=sys.stderr)
