"""`forebay forward mount`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from forebay.model.errors import BadInput

if TYPE_CHECKING:
    from forebay.act.forward.net.address import Address

LOOK = 3.0
"""Seconds within which an I/O node has to be there when the layer is mounted."""
commands = typer.Typer()


@commands.command(
    epilog="Example: forebay forward mount /mnt/layer --nodes unix:/run/fb/ion0,unix:/run/fb/ion1 --key layer.key"
)
def mount(
    folder: Annotated[Path, typer.Argument(help="An empty folder; programs see the layer's files there.")],
    nodes: Annotated[
        str, typer.Option(help="I/O nodes, in the order of preference: unix:/PATH or HOST:PORT, with commas between.")
    ],
    key: Annotated[Path, typer.Option(help="The file with the layer's key.")],
    daemon: Annotated[bool, typer.Option("--daemon", help="Come back once it is mounted, and go on behind.")] = False,
    threads: Annotated[int, typer.Option(help="How many requests may be under way at once.", min=1, max=256)] = 8,
    cache: Annotated[
        str, typer.Option(help="How long the kernel may remember names and attributes; others' changes come later.")
    ] = "0 s",
    patience: Annotated[str, typer.Option(help="How long a request may wait for I/O nodes that are away.")] = "30 s",
    everybody: Annotated[
        bool,
        typer.Option(
            "--everybody", help="Other users may use it too, each with their own files (allow_other of FUSE)."
        ),
    ] = False,
    checksums: Annotated[bool, typer.Option("--checksums", help="Check every payload on its way.")] = False,
    app: Annotated[str, typer.Option(help="What the history calls the program that runs on it.")] = "mount",
    job: Annotated[str | None, typer.Option(help="The job's number [default: the batch system's].")] = None,
    processes: Annotated[int | None, typer.Option(help="How many processes the job has.", min=1)] = None,
) -> None:
    """Mount the layer, for programs that know nothing of it. Unmounting it, SIGTERM or Ctrl-C end it."""
    from forebay.act.forward.clients.identity import identify
    from forebay.act.forward.clients.sync import Client
    from forebay.act.forward.fuse import MountOptions, calling_user, check_mount_point, mount
    from forebay.act.forward.mount import Mount
    from forebay.act.forward.net.key import read_key

    check_mount_point(folder)
    who = identify(app, job or "", processes or 0)
    there, secret, wait = addresses(nodes), read_key(key), _seconds("--patience", patience)
    seconds = _seconds("--cache", cache)
    options = MountOptions(foreground=not daemon, threads=threads, cache=seconds, everybody=everybody)
    check_layer(nodes, there, secret, min(wait, LOOK))
    client = Client(there, secret, who=who, patience=wait, connections=threads, checked=checksums)
    mount(Mount(client, lambda: _ready(folder), calling_user if everybody else None), folder, options)


def addresses(text: str) -> list[Address]:
    """Those of a list with commas."""
    from forebay.act.forward.net.address import parse_address

    found = [_whole(parse_address(word.strip(), "--nodes")) for word in text.split(",") if word.strip()]
    if not found:
        raise BadInput("--nodes", "names no I/O node")
    return found


def _whole(address: Address) -> Address:
    """Good from any folder: libfuse leaves this one."""
    return replace(address, path=str(Path(address.path).absolute())) if address.path else address


def check_layer(nodes: str, there: Sequence[Address], key: bytes, seconds: float) -> None:
    """That a wrong key or address is told here, and not to the first program that looks."""
    from forebay.act.forward.clients.sync import Client

    try:
        with Client(there, key, patience=seconds, connections=1) as client:
            client.stat("/")
    except OSError as error:
        raise BadInput(f"--nodes {nodes}", error.strerror or str(error)) from None


def _ready(folder: Path) -> None:
    typer.echo(f"mount ready: {folder}")
    sys.stdout.flush()


def _seconds(option: str, text: str) -> float:
    from forebay.model.units import parse_duration

    try:
        seconds = parse_duration(text)
    except ValueError as error:
        raise BadInput(option, str(error)) from None
    if not 0 <= seconds <= 86400:
        raise BadInput(option, f"must be between 0 s and a day, not {text!r}")
    return seconds
