"""The council from the options of the command line."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import ExitStack

from forebay.act.forward.council.numbers import council_numbers
from forebay.act.forward.council.process import CouncilProcess, CouncilSettings, run_council
from forebay.act.forward.net.address import parse_address
from forebay.act.forward.net.loop import run
from forebay.act.metrics import Endpoint
from forebay.history.store import open_store

Ready = Callable[[CouncilProcess, str | None], None]


def start_council(settings: CouncilSettings, metrics: str | None, db: str | None, ready: Ready) -> None:
    """Run it until it is told to end; `db` is the history that gets the jobs' runs."""
    address = parse_address(metrics, "--metrics") if metrics else None
    with ExitStack() as stack:
        store = stack.enter_context(open_store(db)) if db else None

        def listening(council: CouncilProcess) -> None:
            endpoint = Endpoint(address, lambda: council_numbers(council)) if address else None
            if endpoint is not None:
                stack.callback(endpoint.close)
            ready(council, str(endpoint.address) if endpoint else None)

        async def main(end: asyncio.Event) -> None:
            await run_council(settings, store, end, listening)

        run(main)
