"""`forebay forward mount`: the layer's files for ordinary programs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from forebay.model.errors import BadInput
from forebay.model.units import parse_duration
from forebay.show.options import parse_quantity
from forebay.show.output import announce

if TYPE_CHECKING:
    from forebay.act.forward.net.address import Address

LOOK = 3.0
"""Seconds within which an I/O node must answer before the layer is mounted."""
commands = typer.Typer()


@commands.command(
    epilog="Example: forebay forward mount /mnt/layer --nodes unix:/run/fb/ion0,unix:/run/fb/ion1 --key layer.key"
)
def mount(
    folder: Annotated[Path, typer.Argument(help="Empty folder at which programs see the layer's files.")],
    nodes: Annotated[str, typer.Option(help="I/O nodes by commas, preferred first: unix:/PATH or HOST:PORT.")],
    key: Annotated[Path, typer.Option(help="File with the layer's key.")],
    daemon: Annotated[bool, typer.Option("--daemon", help="Continue in the background once it is mounted.")] = False,
    threads: Annotated[int, typer.Option(help="Maximum of concurrent requests.", min=1, max=256)] = 8,
    cache: Annotated[str, typer.Option(help="How late others' changes of names and attributes are seen.")] = "0 s",
    patience: Annotated[str, typer.Option(help="How long a request waits for I/O nodes that do not answer.")] = "30 s",
    everybody: Annotated[bool, typer.Option("--everybody", help="Let all users use it (FUSE's allow_other).")] = False,
    checksums: Annotated[bool, typer.Option("--checksums", help="Verify a checksum of every payload.")] = False,
    app: Annotated[str, typer.Option(help="Application name in the history.")] = "mount",
    job: Annotated[str | None, typer.Option(help="Job number [default: from the batch system].")] = None,
    processes: Annotated[int | None, typer.Option(help="Number of processes of the job.", min=1)] = None,
) -> None:
    """Mount the layer for ordinary programs. Unmounting it, SIGTERM or Ctrl-C end it."""
    from forebay.act.forward.clients.channel import identify
    from forebay.act.forward.clients.sync import Client
    from forebay.act.forward.fuse import MountOptions, calling_user, check_mount_point, mount
    from forebay.act.forward.mount import Mount
    from forebay.act.forward.net.key import read_key

    check_mount_point(folder)
    who = identify(app, job or "", processes or 0)
    at_most_a_day = (lambda value: 0 <= value <= 86400), "must be between 0 s and 1 day"
    wait = parse_quantity("--patience", patience, parse_duration, *at_most_a_day)
    seconds = parse_quantity("--cache", cache, parse_duration, *at_most_a_day)
    ions, secret = addresses(nodes), read_key(key)
    options = MountOptions(foreground=not daemon, threads=threads, cache=seconds, everybody=everybody)
    check_layer(nodes, ions, secret, min(wait, LOOK))
    client = Client(ions, secret, who=who, patience=wait, connections=threads, checked=checksums)
    report_ready = partial(announce, {}, f"mount ready: {folder}", json_line=False)
    mount(Mount(client, report_ready, calling_user if everybody else None), folder, options)


def addresses(text: str) -> list[Address]:
    """The addresses of a list, with absolute paths: libfuse changes the working directory."""
    from forebay.act.forward.net.address import parse_address

    parsed = [parse_address(word.strip(), "--nodes") for word in text.split(",") if word.strip()]
    if not parsed:
        raise BadInput("--nodes", "names no I/O node")
    return [replace(each, path=str(Path(each.path).absolute())) if each.path else each for each in parsed]


def check_layer(nodes: str, ions: Sequence[Address], key: bytes, seconds: float) -> None:
    """Refuse a wrong key or address here, before the first program uses the layer."""
    from forebay.act.forward.clients.sync import Client

    try:
        with Client(ions, key, patience=seconds, connections=1) as client:
            client.stat("/")
    except OSError as error:
        raise BadInput(f"--nodes {nodes}", error.strerror or str(error)) from None
