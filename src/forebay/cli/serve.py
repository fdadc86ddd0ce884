"""`forebay serve`: the control service."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from forebay.show.options import Database, Json

commands = typer.Typer()


@commands.command(epilog="Example: forebay serve --config examples/serve.toml")
def serve(
    config: Annotated[Path | None, typer.Option(help="A TOML file with a [service] table.")] = None,
    socket: Annotated[str | None, typer.Option(help="The UNIX socket [default: /run/forebay/service.sock].")] = None,
    listen: Annotated[str | None, typer.Option(help="Also listen at HOST:PORT, with TLS.")] = None,
    certificate: Annotated[str | None, typer.Option(help="Its certificate, a PEM file.")] = None,
    key: Annotated[str | None, typer.Option(help="The certificate's key, a PEM file with mode 0600.")] = None,
    db: Database = None,
    policy: Annotated[str | None, typer.Option(help="Storage policy of a new journal.")] = None,
    silent: Annotated[str | None, typer.Option(help="After how long a node counts as silent.")] = None,
    shadow: Annotated[bool, typer.Option("--shadow", help="Decide and record, but have nothing done.")] = False,
    log: Annotated[str | None, typer.Option(help="Lines of the log (stderr): json or text.")] = None,
    check: Annotated[bool, typer.Option("--check", help="Only check the settings.")] = False,
    json: Json = False,
) -> None:
    """Run the control service, which grants space on storage nodes."""
    from forebay.act.control.service.settings import read_service
    from forebay.decide.registry import find

    given: dict[str, Any] = {
        "socket": _from_here(socket), "listen": listen, "certificate": _from_here(certificate), "key": _from_here(key),
        "db": db, "policy": policy, "silent": silent, "shadow": shadow or None, "log": log,
    }  # fmt: skip
    settings = read_service(config, {name: value for name, value in given.items() if value is not None})
    find("storage", settings.policy)
    if check:
        _say({"fine": True}, "the settings are fine", json)
        return
    from forebay.act.control.api.server import serve as run_service
    from forebay.act.forward.net.loop import run
    from forebay.show.web import pages

    def ready(addresses: list[str]) -> None:
        _say({"ready": "service", "addresses": addresses}, f"service ready: {' '.join(addresses)}", json)

    run(lambda end: run_service(settings, end, ready, pages=pages(settings)))


def _from_here(path: str | None) -> str | None:
    """Not from the folder of the configuration on."""
    return str(Path(path).absolute()) if path else path


def _say(document: dict[str, Any], words: str, json: bool) -> None:
    import json as codec

    typer.echo(codec.dumps(document) if json else words)
    sys.stdout.flush()
