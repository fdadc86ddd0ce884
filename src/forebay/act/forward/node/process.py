"""An I/O node as a process: its options, its back end, the council, the history and the metrics."""

import asyncio
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import get_args

from forebay.act.forward.daemon import Numbers, Ready, background, run_daemon
from forebay.act.forward.metrics import ADMISSION, NODE
from forebay.act.forward.net.address import Address, parse_address
from forebay.act.forward.net.council_payloads import JobPart
from forebay.act.forward.net.wire import LONGEST
from forebay.act.forward.node.backend import Backend
from forebay.act.forward.node.council_client import SUMMED, CouncilClient
from forebay.act.forward.node.data_servers import DataServers
from forebay.act.forward.node.file_places import How, places_finder
from forebay.act.forward.node.forwarded_folder import Folder
from forebay.act.forward.node.io_node import IoNode, NodeSettings
from forebay.act.forward.node.mounted_folder import MountedFolder
from forebay.act.forward.node.window_histogram import BOUNDS
from forebay.act.metrics import Sample
from forebay.decide.order.queue_layout import WINDOW
from forebay.decide.registry import check_policy, find
from forebay.model.errors import BadInput, UnknownName
from forebay.model.layout import Layout

_FLUSH = 3.0
"""Seconds that a node waits at its end for the council to acknowledge jobs."""
_LEAST_MEMORY = 2 * LONGEST
_PERIOD = ("files", "smallest", "mean", "largest", "distance", "spread", "load", "busy", "clients", "processes")
CreateBackend = Callable[[NodeSettings], Backend]
"""Called in a running loop."""


def queue_options(
    scheduler: str, *, window: float | None, aggregate: float | None, in_flight: int | None
) -> dict[str, int | None]:
    """Convert a window in seconds and an aggregate in bytes to queue settings; BadInput names the wrong option."""
    policy = find("order", check_policy("--scheduler", "order", scheduler))
    queue: dict[str, int | None] = {"in_flight": in_flight}
    if window is not None:
        queue["window"] = round(window * 1e9)
    if aggregate is not None:
        queue["aggregate"] = round(aggregate)
    most = queue.get("aggregate", policy.options.get("aggregate", 0))
    if isinstance(most, int) and most > LONGEST:
        where = "--scheduler" if aggregate is None else "--aggregate"
        raise BadInput(where, f"messages of {most} bytes are too long (limit {LONGEST})")
    return queue


def choose_backend(
    servers: Sequence[str], root: Path | None, layout_from: str, root_servers: int, layout: Layout
) -> CreateBackend:
    """Forward to the data servers at these addresses, or to a mounted folder, on `root_servers` servers."""
    if bool(servers) == (root is not None):
        raise BadInput("--server", "an I/O node needs data servers (--server) or a folder (--root), and not both")
    if root is None:
        addresses = [parse_address(text, "--server") for text in servers]
        return lambda settings: DataServers(addresses, settings.key, settings.me, patience=settings.patience)
    how = next((how for how in get_args(How) if how == layout_from), None)
    if how is None:
        raise BadInput("--layout-from", str(UnknownName("source of layouts", layout_from, get_args(How))))
    places = places_finder(how, root_servers, layout)
    return lambda _: MountedFolder(Folder(root), places, root_servers)


def run_node(
    settings: NodeSettings,
    create_backend: CreateBackend,
    ready: Ready,
    *,
    council: str | None = None,
    metrics: str | None = None,
    db: str | None = None,
) -> None:
    """Run an I/O node until a signal ends it; without a council, it records jobs in the history `db`."""
    if settings.memory < _LEAST_MEMORY:  # the longest message would never be admitted
        raise BadInput("--memory", f"must be at least {_LEAST_MEMORY >> 20} MiB")
    if council and db:
        raise BadInput("--db", "not possible with --council, which writes the history; set --db of the council instead")
    council_address = parse_address(council, "--council") if council else None

    async def start(stack: AsyncExitStack, end: asyncio.Event) -> tuple[list[Address], Numbers]:
        node = IoNode(settings, create_backend(settings))
        client = CouncilClient(node, council_address)
        if db is not None:
            node.record = _history_writer(db, stack)
        elif council is not None:
            node.record = client.record
        await node.start()
        await stack.enter_async_context(background(client.run(), end))
        stack.push_async_callback(client.flush, _FLUSH)
        stack.push_async_callback(node.close)
        return node.addresses, partial(node_metrics, node, client)

    run_daemon(start, metrics, ready)


def node_metrics(node: IoNode, council: CouncilClient) -> Iterator[Sample]:
    observed, settings = council.observed, node.settings
    yield NODE["info"].number(1, settings.name, str(settings.index), str(node.dispatch.scheduler))
    for name in SUMMED:
        yield NODE[name].number(council.totals[name])
    for name in _PERIOD:
        yield NODE[name].number(getattr(observed, name))
    yield NODE["operation"].number(1, observed.operation)
    for server, depth in enumerate(node.dispatch.depths()):
        yield NODE["queue_depth"].number(depth, str(server))
    known = (*ADMISSION, "decisions", "internal", "jobs_lost", "nonsense", "servers_lost", "stalled")
    yield from NODE["events"].counts(node.counts | {"servers_lost": node.dispatch.lost_servers}, known)
    yield NODE["window_seconds"].number(int(node.dispatch.q[WINDOW]) / 1e9)
    yield NODE["buffers_bytes"].number(node.buffers.out)
    yield NODE["council_connected"].number(int(council.connection is not None))
    windows = node.dispatch.windows
    yield NODE["window_ratio"].histogram(BOUNDS, tuple(windows.counts), windows.sum)


def _history_writer(db: str, stack: AsyncExitStack) -> Callable[[list[JobPart]], object]:
    """Build a function that stores what processes did, in a thread."""
    # Most I/O nodes have no history, and start faster without these imports.
    from forebay.act.forward.node.job_history import store_parts
    from forebay.history.store import open_store

    store = stack.enter_context(open_store(db))
    writing = stack.enter_context(ThreadPoolExecutor(1, "history"))

    def write(parts: list[JobPart]) -> None:
        try:
            store_parts(store, parts)
        except BadInput as error:
            print(f"forebay: ion: {error}", file=sys.stderr)

    return lambda parts: writing.submit(write, parts)
