"""An I/O node as a process: its options, its back end, the council, the history and the metrics."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, get_args

from forebay.act.forward.metrics import Totals, node_metrics
from forebay.act.forward.net.address import parse_address
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
from forebay.decide.registry import check_policy, find
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


CreateBackend = Callable[[NodeSettings], Backend]
"""Called in a running loop."""


def queue_options(
    scheduler: str, *, window: float | None, aggregate: float | None, in_flight: int | None
) -> dict[str, int]:
    """The queue's settings, from a window in seconds and an aggregate in bytes; BadInput names the wrong option."""
    policy = find("order", check_policy("--scheduler", "order", scheduler))
    # A scheduler cannot order what is sent, so one with windows sends little ahead; others gain by it.
    queue = {"in_flight": in_flight or (_IN_FLIGHT_OF_WINDOWS if "window" in policy.options else _IN_FLIGHT)}
    if window is not None:
        queue["window"] = round(window * 1e9)
    if aggregate is not None:
        queue["aggregate"] = round(aggregate)
    most = queue.get("aggregate", policy.options.get("aggregate", 0))
    if isinstance(most, int) and most > LONGEST:
        where = "--scheduler" if aggregate is None else "--aggregate"
        raise BadInput(where, f"a message must not exceed {LONGEST} bytes; {most} are too many")
    return queue


def choose_backend(
    servers: Sequence[str], root: Path | None, layout_from: str, root_servers: int, layout: Layout
) -> CreateBackend:
    """The data servers at these addresses, or a mounted folder whose file system has `root_servers` servers."""
    if bool(servers) == (root is not None):
        raise BadInput("--server", "an I/O node needs either data servers or a folder (--root)")
    if root is None:
        addresses = [parse_address(text, "--server") for text in servers]
        return lambda settings: DataServers(addresses, settings.key, settings.me, patience=settings.patience)
    how = next((how for how in get_args(How) if how == layout_from), None)
    if how is None:
        raise BadInput("--layout-from", str(UnknownName("source of layouts", layout_from, get_args(How))))
    places = places_finder(how, root_servers, layout)
    return lambda _: MountedFolder(Folder(root), places, root_servers)


def start_node(
    settings: NodeSettings,
    create_backend: CreateBackend,
    ready: Ready,
    *,
    council: str | None = None,
    metrics: str | None = None,
    db: str | None = None,
) -> None:
    """Run an I/O node until a signal ends it; `db` is the history for the jobs' runs, if there is no council."""
    if settings.memory < _LEAST_MEMORY:  # the longest message would never be admitted
        raise BadInput("--memory", f"must be at least {_LEAST_MEMORY >> 20} MiB")
    if council and db:
        raise BadInput("--db", "not possible with --council; the council writes the history")
    council_address = parse_address(council, "--council") if council else None
    metrics_address = parse_address(metrics, "--metrics") if metrics else None
    store: Store | None = None
    if db:
        from forebay.history.store import open_store  # most I/O nodes have no history, and start faster without

        store = open_store(db)

    async def main(end: asyncio.Event) -> None:
        async with AsyncExitStack() as stack:
            node = IoNode(settings, create_backend(settings))
            client, totals = CouncilClient(node, council_address), Totals()
            client.on_period = totals.add
            if store is not None:
                stack.callback(store.close)
                node.record = stack.enter_context(_history_writer(store))
            elif council is not None:
                node.record = client.record
            where = None
            if metrics_address is not None:
                endpoint = Endpoint(metrics_address, lambda: node_metrics(node, client, totals))
                stack.callback(endpoint.close)
                where = str(endpoint.address)
            await node.start()
            watching = asyncio.get_running_loop().create_task(client.run())
            try:
                ready(node, where)
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
