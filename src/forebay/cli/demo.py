"""`forebay demo`: the whole system once, on this machine."""

from __future__ import annotations

import os
import select
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from forebay.model.errors import UserError
from forebay.show.options import Json

commands = typer.Typer()


Step = tuple[str, str, Callable[..., None], dict[str, Any]]
"""A question, the command that answers it, and the same as a call."""


@commands.command(epilog="Example: forebay demo")
def demo(
    out: Annotated[Path, typer.Option(help="Folder for what comes out.")] = Path("demo"),
    json: Json = False,
) -> None:
    """The whole system once, on this machine, in under two minutes."""
    from forebay.show.output import print_json

    out.mkdir(parents=True, exist_ok=True)
    documents = {}
    steps = [*_targets(out), *_space(out), *_striping(out), *_requests(), *_live()]
    for number, (question, command, run, options) in enumerate(steps, start=1):
        try:
            if json:
                documents[command] = _as_json(run, options)
            else:
                typer.secho(f"\n{number}. {question}", bold=True)
                typer.echo(f"   $ {command}")
                run(**options)
        except UserError as error:
            raise UserError(f"step {number} of the demo failed: {command}: {error}") from error
    if json:
        print_json(documents)


def _targets(out: Path) -> Iterator[Step]:
    from forebay.cli import study
    from forebay.cli.allocate import allocate
    from forebay.cli.simulate.applications import simulate

    machine, picture = write_example(out / "machine.toml"), out / "machine.png"
    yield (
        "A machine with 8 I/O nodes and three applications. Who gets how many, and which?",
        f"forebay allocate {machine}",
        allocate,
        {"file": machine},
    )
    yield (
        "What would every policy do? Slowdown is I/O time over that alone on the best n;\n"
        "   idle is the part of the compute nodes that waits for I/O.",
        f"forebay simulate {machine} --allocate all --plot {picture}",
        simulate,
        {"file": machine, "allocate": "all", "plot": picture},
    )
    sets: dict[str, Any] = {"sets": 4, "loads": "0.4:1.2:0.4", "place": "greedy-non-clairvoyant,random"}
    yield (
        "Is that so in general? A small version of the published evaluation, on made-up curves.",
        f"forebay study io-nodes --out {out / 'io-nodes'} " + " ".join(f"--{k} {v}" for k, v in sets.items()),
        study.io_nodes,
        sets | {"out": out / "io-nodes"},
    )


def _space(out: Path) -> Iterator[Step]:
    from forebay.cli.simulate.applications import simulate
    from forebay.cli.size import size

    buffer, sizes = write_example(out / "burst-buffer.toml"), out / "size.png"
    yield (
        "A burst buffer of 16 TB and a year of requests for space. Which disks hold which job's data?",
        f"forebay simulate {buffer} --policy all --feedback",
        simulate,
        {"file": buffer, "policy": "all", "feedback": True},
    )
    yield (
        "How large must it be, to serve 99 % of the bytes?",
        f"forebay size --plot {sizes}",
        size,
        {"plot": sizes},
    )


def _striping(out: Path) -> Iterator[Step]:
    from forebay.cli.advise import advise
    from forebay.cli.history.commands import apps
    from forebay.cli.ingest import ingest

    logs, store, picture = _logs(), str(out / "history.db"), out / "apps.png"
    yield (
        "What did applications do? The Darshan logs that come with PyDarshan, as a history.",
        f"forebay ingest {logs} --db {store}",
        ingest,
        {"paths": [logs], "db": store},
    )
    yield (
        "Which applications are there?",
        f"forebay history apps --db {store} --plot {picture}",
        apps,
        {"db": store, "plot": picture},
    )
    yield (
        "How should the files of the next run of one of them be striped?",
        f"forebay advise --app ior --procs 48 --targets 24 --db {store}",
        advise,
        {"app": "ior", "procs": 48, "targets": 24, "db": store},
    )


def _requests() -> Iterator[Step]:
    from forebay.cli.forward.bench import bench

    schedulers = "fifo,hbrr,twins-work-conserving"
    yield (
        "A forwarding layer for real, on this machine: 4 data servers, an I/O node, 4 programs. In which order are\n"
        "   their requests served?",
        f"forebay forward bench --processes 4 --pattern shared-strided --total '32 MiB' --schedulers {schedulers}",
        bench,
        {"processes": 4, "pattern": "shared-strided", "total": "32 MiB", "schedulers": schedulers},
    )


def _live() -> Iterator[Step]:
    yield (
        "The live system: a control service and a storage node, on this machine. A user asks for space, has it, and\n"
        "   gives it back.",
        "forebay storage request --size 50MB --time 1h --tier ssd --wait",
        live,
        {},
    )


def write_example(path: Path) -> Path:
    """Write the example of that name there."""
    from importlib.resources import files

    path.write_text((files("forebay.show") / "examples" / path.name).read_text())
    return path


def _logs() -> Path:
    """Real logs that are always there."""
    from importlib.util import find_spec

    found = find_spec("darshan")
    assert found is not None and found.origin is not None
    return Path(found.origin).parent / "examples"


def _as_json(run: Callable[..., None], options: dict[str, Any]) -> object:
    """What the command prints with --json."""
    import io
    import json
    from contextlib import redirect_stdout

    with redirect_stdout(io.StringIO()) as printed:
        run(**options, json=True)
    return json.loads(printed.getvalue())


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
    from forebay.cli.storage.grants import release, request, show

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
