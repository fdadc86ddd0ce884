"""`forebay demo`: runs the whole system once on this machine. Its steps are in demo.toml."""

import io
import os
import re
import shlex
import sys
import tempfile
from contextlib import ExitStack, redirect_stdout
from importlib.resources import files
from importlib.util import find_spec
from json import loads
from pathlib import Path
from typing import Annotated

import typer

from forebay.cli.packages import describe_missing
from forebay.cli.storage.connection import open_client
from forebay.model.errors import UserError
from forebay.show.options import Json
from forebay.show.output import Document, print_json, ranges

commands = typer.Typer()
_START = 300.0  # seconds for a daemon to start: on the first run it compiles


@commands.command(epilog="Example: forebay demo")
def demo(
    out: Annotated[Path, typer.Option(help="Folder for the results.")] = Path("demo"),
    json: Json = False,
) -> None:
    """Run the whole system once on this machine, within two minutes."""
    out.mkdir(parents=True, exist_ok=True)
    for name in ("machine.toml", "burst-buffer.toml"):
        write_example(out / name)
    documents, skipped, has_grant = {}, [], False
    with ExitStack() as running:
        for number, step in enumerate(read_steps(out), start=1):
            line, limits = step["line"], step.get("limits", "")
            if "{grant}" in line:
                if json or not has_grant:
                    continue
                with open_client() as client:
                    line = line.format(grant=next(client.grants())["id"])
            if not json:
                typer.secho(f"\n{number}. {step['question']}", bold=True)
                typer.echo(f"   $ {line}")
            try:
                if step.get("live"):
                    _start_live_system(running)
                    has_grant = True
                if json:
                    documents[line] = _read_json(f"{line} {limits}")
                else:
                    run_line(f"{line} {limits}")
            except UserError as error:
                raise UserError(f"step {number} of the demo failed: {line}: {error}") from error
            except ModuleNotFoundError as error:
                if (missing := describe_missing(error, line.split()[1])) is None:
                    raise
                skipped.append(number)
                typer.echo(f"   skipped: {missing}", err=json)
    if json:
        print_json(documents)
    if skipped:
        raise UserError(f"skipped steps {ranges(skipped)} of the demo; to run all: pip install 'forebay[all]'")


def read_steps(out: Path) -> list[dict[str, str]]:
    """Read the steps; leave out figures if matplotlib is not installed."""
    darshan = find_spec("darshan")
    logs = Path(darshan.origin).parent / "examples" if darshan and darshan.origin else Path("LOGS")
    steps = []
    for step in _read_script()["step"]:
        line = step["line"].replace("{out}", str(out)).replace("{logs}", str(logs))
        steps.append(step | {"line": line if find_spec("matplotlib") else re.sub(r" --plot \S+", "", line)})
    return steps


def _read_script() -> Document:
    import tomllib

    return tomllib.loads((files("forebay.cli") / "demo.toml").read_text("utf-8"))


def run_line(line: str) -> None:
    """Run a command as if a user had typed it."""
    from forebay.cli import command

    code = command()(shlex.split(line)[1:], prog_name="forebay", standalone_mode=False)
    if code:
        raise typer.Exit(code)


def _read_json(line: str) -> object:
    with redirect_stdout(io.StringIO()) as printed:
        run_line(f"{line} --json")
    return loads(printed.getvalue())


def write_example(path: Path) -> Path:
    path.write_text((files("forebay.show") / "examples" / path.name).read_text())
    return path


def _start_live_system(running: ExitStack) -> None:
    """Start a service and an agent with one disk; the commands of this process use that service."""
    import forebay.act.control.api.server  # noqa: F401  # so that a missing package fails here, not in a daemon

    folder = Path(running.enter_context(tempfile.TemporaryDirectory(prefix="forebay-")))
    service = f"unix:{folder}/demo.sock"
    (folder / "disk").mkdir()
    (folder / "agent.toml").write_text(_read_script()["agent"].replace("{service}", service))
    start_daemon(running, "serve", "--socket", f"{folder}/demo.sock", "--db", str(folder / "service.db"))
    start_daemon(running, "agent", str(folder / "agent.toml"))
    running.callback(os.environ.update, dict(os.environ))
    running.callback(os.environ.clear)  # before the update: the stack calls the last one first
    for variable in ("FOREBAY_TOKEN_FILE", "FOREBAY_AUTHORITY"):
        os.environ.pop(variable, None)
    os.environ["FOREBAY_SERVICE"] = service


def start_daemon(running: ExitStack, *arguments: str) -> None:
    """Start a command of Forebay, and wait until it reports that it is ready."""
    from forebay.act.command import Child

    child = Child([sys.executable, "-m", "forebay", *arguments], quiet=True)
    running.callback(child.stop, 5.0)
    state = child.await_ready(_START)
    if state != "ready":
        problem = "ended" if state == "ended" else f"was not ready within {_START:g} s"
        line = f"forebay {shlex.join(arguments)}"
        raise UserError(f"forebay {arguments[0]} {problem}; run it by hand to see why: {line}")
