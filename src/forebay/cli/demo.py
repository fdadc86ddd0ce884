"""`forebay demo`: the whole system once, on this machine."""

from __future__ import annotations

import os
import select
import shlex
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from forebay.cli.packages import describe_missing
from forebay.model.errors import UserError
from forebay.show.options import Json
from forebay.show.output import print_json, ranges

commands = typer.Typer()
_SOCKET = "demo.sock"
_START = 300.0
"""Seconds for a daemon to start: on the first run it compiles."""
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


class Step(NamedTuple):
    """A question, and the command that answers it; `limits` are options that are not shown."""

    question: str
    line: str
    limits: str = ""
    prepare: Callable[[ExitStack], None] = lambda _running: None


@commands.command(epilog="Example: forebay demo")
def demo(
    out: Annotated[Path, typer.Option(help="Folder for the results.")] = Path("demo"),
    json: Json = False,
) -> None:
    """Run the whole system once on this machine, in under two minutes."""
    out.mkdir(parents=True, exist_ok=True)
    documents, skipped = {}, []
    with ExitStack() as running:
        for number, step in enumerate(_steps(out, json), start=1):
            if not json:
                typer.secho(f"\n{number}. {step.question}", bold=True)
                typer.echo(f"   $ {step.line}")
            try:
                step.prepare(running)
                if json:
                    documents[step.line] = _read_json(step)
                else:
                    run_line(f"{step.line} {step.limits}")
            except UserError as error:
                raise UserError(f"step {number} of the demo failed: {step.line}: {error}") from error
            except ModuleNotFoundError as error:
                if (line := describe_missing(error, step.line.split()[1])) is None:
                    raise
                skipped.append(number)
                typer.echo(f"   skipped: {line}", err=json)
    if json:
        print_json(documents)
    if skipped:
        raise UserError(f"skipped steps {ranges(skipped)} of the demo; to run all: pip install 'forebay[all]'")


def run_line(line: str) -> None:
    """Run a command as if a user had typed it."""
    from forebay.cli import command

    code = command()(shlex.split(line)[1:], prog_name="forebay", standalone_mode=False)
    if code:
        raise typer.Exit(code)


def _read_json(step: Step) -> object:
    import io
    import json
    from contextlib import redirect_stdout

    with redirect_stdout(io.StringIO()) as printed:
        run_line(f"{step.line} {step.limits} --json")
    return json.loads(printed.getvalue())


def _steps(out: Path, json: bool) -> Iterator[Step]:
    """All steps in order; each is run before the next one is prepared."""
    yield from _machine_steps(out)
    yield from _history_steps(out)
    yield Step(
        "A real forwarding layer on this machine: 4 data servers, an I/O node, 4 programs. In which order are their\n"
        "   requests served?",
        "forebay forward bench --processes 4 --pattern shared-strided --total '32 MiB' "
        "--schedulers fifo,hbrr,twins-work-conserving",
    )
    yield Step(
        "The live system: a control service and a storage node on this machine. A user requests space.",
        "forebay storage request --size 50MB --time 1h --tier ssd --wait",
        limits="--at-most 2min",
        prepare=_start_live_system,
    )
    if not json and os.environ.get("FOREBAY_SERVICE", "").endswith(_SOCKET):
        from forebay.act.control.client import Client, service_of

        with Client(service_of(None)) as client:
            grant = next(client.grants())["id"]
        yield Step("The user gives it back.", f"forebay storage release {grant} --wait", limits="--at-most 2min")
        yield Step("What happened to it?", f"forebay storage show {grant} --story")


def _machine_steps(out: Path) -> Iterator[Step]:
    machine, buffer = write_example(out / "machine.toml"), write_example(out / "burst-buffer.toml")
    draws = find_spec("matplotlib") is not None
    yield Step(
        "A machine with 8 I/O nodes and three applications. Who gets how many, and which?",
        f"forebay allocate {machine}",
    )
    yield Step(
        "What would every policy do? Slowdown is I/O time over that alone on the best n;\n"
        "   idle is the part of the compute nodes that waits for I/O.",
        f"forebay simulate {machine} --allocate all" + (f" --plot {out / 'machine.png'}" if draws else ""),
    )
    yield Step(
        "Does that hold in general? A small version of the published evaluation, on synthetic curves.",
        f"forebay study io-nodes --out {out / 'io-nodes'} --sets 4 --loads 0.4:1.2:0.4 "
        "--place greedy-non-clairvoyant,random",
    )
    yield Step(
        "A burst buffer of 16 TB and a year of requests for space. Which disks hold which job's data?",
        f"forebay simulate {buffer} --policy all --feedback",
    )
    yield Step(
        "How large must it be to serve 99 % of the bytes?",
        "forebay size" + (f" --plot {out / 'size.png'}" if draws else ""),
    )


def _history_steps(out: Path) -> Iterator[Step]:
    spec, store = find_spec("darshan"), out / "history.db"
    logs = Path(spec.origin).parent / "examples" if spec and spec.origin else Path("LOGS")
    yield Step(
        "What did applications do? A history of the Darshan logs that come with PyDarshan.",
        f"forebay ingest {logs} --db {store}",
    )
    yield Step("Which applications are there?", f"forebay history apps --db {store} --plot {out / 'apps.png'}")
    yield Step(
        "How should the files of the next run of one of them be striped?",
        f"forebay advise --app ior --procs 48 --targets 24 --db {store}",
    )


def write_example(path: Path) -> Path:
    """Write the example of that name there."""
    from importlib.resources import files

    path.write_text((files("forebay.show") / "examples" / path.name).read_text())
    return path


def _start_live_system(running: ExitStack) -> None:
    """Start a service and an agent with one disk; this process's commands use that service."""
    import forebay.act.control.api.server  # noqa: F401  # so that a missing package is named here, not by a daemon

    folder = Path(running.enter_context(tempfile.TemporaryDirectory(prefix="forebay-")))
    socket = folder / _SOCKET
    (folder / "disk").mkdir()
    (folder / "agent.toml").write_text(_AGENT.format(service=f"unix:{socket}"))
    start_daemon(running, "serve", "--socket", str(socket), "--db", str(folder / "service.db"))
    start_daemon(running, "agent", str(folder / "agent.toml"))
    running.callback(_restore_environment, dict(os.environ))
    for variable in ("FOREBAY_TOKEN_FILE", "FOREBAY_AUTHORITY"):
        os.environ.pop(variable, None)
    os.environ["FOREBAY_SERVICE"] = f"unix:{socket}"


def _restore_environment(variables: dict[str, str]) -> None:
    os.environ.clear()
    os.environ.update(variables)


def start_daemon(running: ExitStack, *words: str) -> None:
    """Start a command of Forebay, and wait until it reports that it is ready."""
    from forebay.act.command import Child

    child = Child([sys.executable, "-m", "forebay", *words], quiet=True)
    running.callback(child.stop, 5.0)
    printed = b""
    while b"ready" not in printed:
        has_more, _, _ = select.select([child.out], [], [], _START)
        more = os.read(child.out, 4096) if has_more else b""
        if not more:
            problem = "ended" if has_more else f"was not ready within {_START:g} s"
            raise UserError(f"forebay {words[0]} {problem}; run it by hand to see why: forebay {shlex.join(words)}")
        printed += more
