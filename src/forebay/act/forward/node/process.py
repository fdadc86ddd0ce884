"""An I/O node as a process: its options, its back end, the council, the history and the metrics."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, get_args

from forebay.act.forward.metrics import Totals, node_metrics
from forebay.act.forward.net.address import parse_address
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

_FLUSH = 3.0
"""Seconds to report jobs to the council at the end."""
_LEAST_MEMORY = 2 * LONGEST
_IN_FLIGHT, _IN_FLIGHT_OF_WINDOWS = 128, 32
Ready = Callable[[IoNode, str | None], None]
"""Called once it listens, with the address of its metrics."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeOptions:
    """The options of the command; times in seconds, sizes in bytes, addresses as text."""

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


def check_options(options: NodeOptions) -> NodeSettings:
    """The settings; raises BadInput before anything starts."""
    policy = find("order", known("--scheduler", "order", options.scheduler))
    # A scheduler cannot order what is sent, so one with windows sends little ahead; others gain by it.
    usual = _IN_FLIGHT_OF_WINDOWS if "window" in policy.options else _IN_FLIGHT
    queue = {"in_flight": options.in_flight or usual}
    if options.window is not None:
        queue["window"] = round(options.window * 1e9)
    if options.aggregate is not None:
        queue["aggregate"] = round(options.aggregate)
    most = queue.get("aggregate", policy.options.get("aggregate", 0))
    if isinstance(most, int) and most > LONGEST:
        where = "--scheduler" if options.aggregate is None else "--aggregate"
        raise BadInput(where, f"a message must not exceed {LONGEST} bytes; {most} are too many")
    if options.memory < _LEAST_MEMORY:  # the longest message would never be admitted
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


def create_backend(options: NodeOptions, settings: NodeSettings) -> Backend:
    """In a running loop."""
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
    """Run an I/O node until a signal ends it."""
    if bool(options.servers) == (options.root is not None):
        raise BadInput("--server", "an I/O node needs either data servers or a folder (--root)")
    if options.council and options.db:
        raise BadInput("--db", "not possible with --council; the council writes the history")
    settings = check_options(options)
    council = parse_address(options.council, "--council") if options.council else None
    metrics = parse_address(options.metrics, "--metrics") if options.metrics else None
    store: Store | None = None
    if options.db:
        from forebay.history.store import open_store  # most I/O nodes have no history, and start faster without

        store = open_store(options.db)

    async def main(end: asyncio.Event) -> None:
        async with AsyncExitStack() as stack:
            node = IoNode(settings, create_backend(options, settings))
            client, totals = CouncilClient(node, council), Totals()
            client.on_period = totals.add
            if store is not None:
                stack.callback(store.close)
                node.record = stack.enter_context(_history_writer(store))
            elif council is not None:
                node.record = client.record
            endpoint = Endpoint(metrics, lambda: node_metrics(node, client, totals)) if metrics else None
            if endpoint is not None:
                stack.callback(endpoint.close)
            await node.start()
            watching = asyncio.get_running_loop().create_task(client.run())
            try:
                ready(node, str(endpoint.address) if endpoint else None)
                await end.wait()
            finally:
                await node.close()
                await client.flush(_FLUSH)
                watching.cancel()
                await asyncio.gather(watching, return_exceptions=True)

    run(main)


@contextmanager
def _history_writer(store: Store) -> Iterator[Callable[[list[JobPart]], None]]:
    """A function that stores what processes did, in a thread."""
    from forebay.act.forward.node.job_history import store_parts

    def write(parts: list[JobPart]) -> None:
        try:
            store_parts(store, parts)
        except BadInput as error:
            print(f"forebay: ion: {error}", file=sys.stderr)

    with ThreadPoolExecutor(1, "history") as writing:

        def write_later(parts: list[JobPart]) -> None:
            writing.submit(write, parts)

        yield write_later
