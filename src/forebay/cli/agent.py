"""`forebay agent`: the agent of a storage node."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from forebay.show.options import Json

commands = typer.Typer()


@commands.command(epilog="Example: forebay agent examples/agent.toml --check")
def agent(
    file: Annotated[Path, typer.Argument(help="The node as a TOML file; examples/agent.toml explains it.")],
    check: Annotated[
        bool, typer.Option("--check", help="Only check the file, and whether its disks can work.")
    ] = False,
    json: Json = False,
) -> None:
    """Run a storage node's agent, which manages its volumes. Ctrl-C ends it."""
    from forebay.act.control.agent.settings import read_agent

    found = read_agent(file)
    names = list(found.node.disks)
    if check:
        for disk in found.node.disks.values():
            disk.volumes.check()
        _say(
            {"file": str(file), "node": found.settings.node, "disks": names}, f"{file}: fine: {', '.join(names)}", json
        )
        return
    from forebay.act.control.agent.agent import Agent

    own = Agent(found, lambda words: typer.echo(f"forebay: {words}", err=True))
    ended = _End()
    own.start()
    _say(
        {"ready": "agent", "node": found.settings.node, "disks": names},
        f"agent ready: node {found.settings.node}",
        json,
    )
    ended.wait()
    own.stop()


class _End:
    """Set by the first signal; the second ends the process as usual."""

    def __init__(self) -> None:
        import signal
        import threading

        self._event = threading.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._set)

    def _set(self, number: int, _frame: object) -> None:
        import signal

        self._event.set()
        signal.signal(number, signal.SIG_DFL)

    def wait(self) -> None:
        self._event.wait()


def _say(document: dict[str, object], words: str, json: bool) -> None:
    import json as codec

    typer.echo(codec.dumps(document) if json else words)
    sys.stdout.flush()
