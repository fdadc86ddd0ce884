"""The live part of `forebay demo`: a control service and a storage node on this machine, for one grant."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from forebay.model.errors import UserError

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
    from forebay.show.cli.storage_space import release, request, show

    with _machine() as service:
        request(size="50MB", time="1h", tier="ssd", wait=True, json=json, service=service)
        if json:
            return
        with Client(service_of(service)) as client:
            grant = next(client.grants())["id"]
        print("   $ forebay storage release ID --wait; forebay storage show ID --story")
        release(grants=[grant], wait=True, service=service)
        show(grant=grant, story=True, service=service)


@contextmanager
def _machine() -> Iterator[str]:
    """A service and an agent with one disk; the service's address."""
    with tempfile.TemporaryDirectory(prefix="forebay-") as name, ExitStack() as running:
        folder = Path(name)
        service = f"unix:{folder / 'service.sock'}"
        (folder / "disk").mkdir()
        (folder / "agent.toml").write_text(_AGENT.format(service=service))
        _start(running, "serve", "--socket", str(folder / "service.sock"), "--db", str(folder / "service.db"))
        _start(running, "agent", str(folder / "agent.toml"))
        yield service


def _start(running: ExitStack, part: str, *words: str) -> None:
    """Start it, and wait until it says that it is ready."""
    from forebay.act.command import Child

    child = Child([sys.executable, "-m", "forebay", part, *words], quiet=True)
    running.callback(child.stop, 5.0)
    while b"ready" not in (said := os.read(child.out, 4096)):
        if not said:
            raise UserError(f"forebay {part} did not start; by hand it says why: forebay {part} {' '.join(words)}")
