"""The live part of `forebay demo`: a control service and a storage node on this machine, for one grant."""

from __future__ import annotations

import os
import select
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from forebay.model.errors import UserError

_START = 300.0
"""Seconds that a part may take to start: on the first run it compiles."""
_AT_MOST = "2min"
"""How long it may take until there is space, or until it is given back: a demonstration must end."""
_AGENT = """
[agent]
node = "storage1"
service = "{service}"
folder = "agent"
[[disk]]
name = "ssd0"
kind = "directory"
root = "disk"
capacity = "1 GB"
read_bandwidth = "2 GB/s"
write_bandwidth = "1 GB/s"
fields = {{ tier = "ssd" }}
"""


def live(json: bool = False) -> None:
    """Ask for space, tell its story, and give it back."""
    from forebay.act.control.client import Client, service_of
    from forebay.cli.storage_space import release, request, show

    with _machine() as service:
        request(size="50MB", time="1h", tier="ssd", wait=True, at_most=_AT_MOST, json=json, service=service)
        if json:
            return
        with Client(service_of(service)) as client:
            grant = next(client.grants())["id"]
        print("   $ forebay storage release ID --wait; forebay storage show ID --story")
        release(grants=[grant], wait=True, at_most=_AT_MOST, service=service)
        show(grant=grant, story=True, service=service)


@contextmanager
def _machine() -> Iterator[str]:
    """A service and an agent with one disk; the service's address."""
    with tempfile.TemporaryDirectory(prefix="forebay-") as name, ExitStack() as running:
        folder = Path(name)
        service = f"unix:{folder / 'service.sock'}"
        (folder / "disk").mkdir()
        (folder / "agent.toml").write_text(_AGENT.format(service=service))
        start_part(running, "serve", "--socket", str(folder / "service.sock"), "--db", str(folder / "service.db"))
        start_part(running, "agent", str(folder / "agent.toml"))
        yield service


def start_part(running: ExitStack, part: str, *words: str) -> None:
    """Start it, and wait until it says that it is ready."""
    from forebay.act.command import Child

    child = Child([sys.executable, "-m", "forebay", part, *words], quiet=True)
    running.callback(child.stop, 5.0)
    said = b""
    while b"ready" not in said:
        has_more, _, _ = select.select([child.out], [], [], _START)
        more = os.read(child.out, 4096) if has_more else b""
        if not more:
            what = "ended" if has_more else f"was not ready within {_START:g} s"
            command = f"forebay {part} {' '.join(words)}"
            raise UserError(f"forebay {part} {what}; run it by hand to see why: {command}")
        said += more
