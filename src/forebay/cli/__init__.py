"""The `forebay` command. Each command imports what it needs when it runs."""

import errno
import io
import os
import signal
import sys
import warnings
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import click
import typer
import typer.core

from forebay import __version__
from forebay.cli import (
    advise,
    agent,
    allocate,
    calibrate,
    compile,
    demo,
    diagnose,
    forward,
    history,
    ingest,
    policies,
    replay,
    schedule,
    serve,
    show,
    simulate,
    slurm,
    storage,
    token,
)
from forebay.cli.packages import describe_missing
from forebay.model.errors import ForebayError, UserError, why
from forebay.show.compile_notice import announce_compiling
from forebay.show.output import printable
from forebay.studies.registry import STUDIES
from forebay.studies.sizing import command as size

if TYPE_CHECKING:
    from typing_extensions import Buffer

typer.core.HAS_RICH = False  # help is plain text; where rich is installed, typer would put backslashes into it
app = typer.Typer(
    help="Decides how a supercomputer's jobs share its I/O, and proves it by simulation first.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(requested: bool) -> None:
    if requested:
        typer.echo(f"forebay {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: bool = typer.Option(False, "--version", help="Print the version.", callback=_print_version, is_eager=True),
) -> None: ...


about_runs, about_machines = (
    (demo, ingest, history, diagnose, calibrate, advise),
    (allocate, simulate, serve, agent, schedule, replay),
)
for module in (*about_runs, *about_machines, show, size, policies, compile):
    app.add_typer(module.commands)
study = typer.Typer(
    help="Run a paper's whole evaluation: tables, figures and a report.", no_args_is_help=True, rich_markup_mode=None
)
for each in STUDIES:
    each.add_to(study)
groups = {"history": history.app, "study": study, "forward": forward.app, "storage": storage.app, "token": token.app}
for name, group in (groups | {"slurm": slurm.app}).items():
    app.add_typer(group, name=name)


@cache
def command() -> Callable[..., int | None]:
    """Build all commands with their options. This takes as long as many commands take to run."""
    return typer.main.get_command(app)


def main() -> None:
    """Run a command. Print errors as one line; exit with 2 if the user can correct it, with 1 if the fault is ours."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # if the parent ignored it, every child would seem to succeed
    _open_closed_streams()
    output = _Output(sys.stdout.fileno(), "w", closefd=False)
    if sys.__stdout__ is not None and sys.stdout is sys.__stdout__:
        sys.stdout = io.TextIOWrapper(
            io.BufferedWriter(output),
            encoding=sys.stdout.encoding,
            line_buffering=sys.stdout.line_buffering or sys.stdout.write_through,
        )
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    os.environ["PATH"] = with_system_folders(os.environ.get("PATH", os.defpath))
    announce_compiling()
    warnings.showwarning = _print_warning
    try:
        code = command()(prog_name="forebay", standalone_mode=False)
    except UserError as error:
        _fail(str(error), 2)
    except ForebayError as error:
        _fail(str(error), 1)
    except click.ClickException as error:
        message = error.format_message()
        if message.startswith("Usage:"):  # the command is missing: typer's message is the whole help
            typer.echo(message, err=True)
            sys.exit(2)
        _fail(f"{message} (see --help)", 2)
    except ModuleNotFoundError as error:
        command_name = next((word for word in sys.argv[1:] if not word.startswith("-")), "")
        if line := describe_missing(error, command_name):
            _fail(line, 2)
        _fail_internally(error)
    except Exception as error:
        _check_output(output)
        if isinstance(error, OSError) and error.filename is not None:
            _fail(f"{error.filename}: {why(error)}", 2)
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            _fail(why(error), 2)
        _fail_internally(error)
    if code == 130:  # Ctrl-C
        _fail("interrupted", 130)
    _check_output(output)
    sys.exit(code)


def _open_closed_streams() -> None:
    """Open /dev/null for standard streams that are closed: the next file or socket would get their descriptor."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            stream = Path(os.devnull).open(mode)  # noqa: SIM115
            os.set_inheritable(stream.fileno(), True)
            setattr(sys, name, stream)


class _Output(io.FileIO):
    """Standard output, which remembers why it could not be written to."""

    problem: OSError | None = None

    def write(self, data: "Buffer", /) -> int:
        try:
            return super().write(data)
        except OSError as error:
            self.problem = error
            raise


def _check_output(output: _Output) -> None:
    """Fail if something that was printed cannot be written."""
    with suppress(OSError):
        sys.stdout.flush()
    if output.problem is not None:
        _discard(output.fileno())
        if output.problem.errno == errno.EPIPE:  # nobody reads any more, as after `| head`
            sys.exit(1)
        _fail(f"cannot write to standard output: {why(output.problem)}", 1)


def _discard(descriptor: int) -> None:
    """Let what Python still holds for a stream go nowhere when the process ends."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, descriptor)
    os.close(null)


def with_system_folders(path: str) -> str:
    """Add the folders of lctl, mkfs and losetup, which cron and many users lack, to PATH.

    >>> with_system_folders("/usr/bin:/usr/sbin")
    '/usr/bin:/usr/sbin:/usr/local/sbin:/sbin'
    """
    folders = path.split(os.pathsep)
    more = ("/usr/local/sbin", "/usr/sbin", "/sbin")
    return os.pathsep.join([*folders, *(folder for folder in more if folder not in folders)])


def _fail_internally(error: Exception) -> NoReturn:
    if os.environ.get("FOREBAY_TRACEBACK"):
        raise error
    _fail(f"internal error: {error!r}; set FOREBAY_TRACEBACK=1 for a traceback", 1)


def _print_warning(message: Warning | str, *_: object, **_more: object) -> None:
    typer.echo(f"forebay: warning: {printable(' '.join(str(message).split()))}", err=True)


def _fail(message: str, code: int) -> NoReturn:
    try:
        typer.echo(f"forebay: {printable(' '.join(message.split()))}", err=True)
    except OSError:  # nobody can be told
        _discard(2)
    sys.exit(code)
