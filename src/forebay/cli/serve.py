"""`forebay serve`: the control service."""

from pathlib import Path
from typing import Annotated

import typer

from forebay.show.options import Json, ServiceDatabase
from forebay.show.output import announce

commands = typer.Typer()


@commands.command(epilog="Example: forebay serve --config examples/serve.toml")
def serve(
    config: Annotated[Path | None, typer.Option(help="TOML file with a [service] table.")] = None,
    socket: Annotated[str | None, typer.Option(help="UNIX socket [default: /run/forebay/service.sock].")] = None,
    listen: Annotated[str | None, typer.Option(help="Also listen at HOST:PORT, with TLS.")] = None,
    certificate: Annotated[str | None, typer.Option(help="PEM file with the certificate.")] = None,
    key: Annotated[str | None, typer.Option(help="PEM file with the certificate's key, mode 0600.")] = None,
    db: ServiceDatabase = None,
    policy: Annotated[str | None, typer.Option(help="Storage policy of a new journal.")] = None,
    silent: Annotated[str | None, typer.Option(help="Time without contact after which a node is silent.")] = None,
    shadow: Annotated[bool, typer.Option("--shadow", help="Decide and record, but change no node.")] = False,
    log: Annotated[str | None, typer.Option(help="Format of the log on stderr: json or text.")] = None,
    check: Annotated[bool, typer.Option("--check", help="Only check the settings.")] = False,
    json: Json = False,
) -> None:
    """Run the control service, which grants space on storage nodes."""
    from forebay.act.control.service.settings import check_places, read_service
    from forebay.decide.registry import find

    texts = {"listen": listen, "db": db, "policy": policy, "silent": silent, "log": log}
    changes: dict[str, object] = {name: text for name, text in texts.items() if text is not None}
    for name, path in (("socket", socket), ("certificate", certificate), ("key", key)):
        if path is not None:  # it is relative to the working directory, not to the configuration file
            changes[name] = str(Path(path).absolute()) if path else path
    settings = read_service(config, changes | ({"shadow": True} if shadow else {}))
    find("storage", settings.policy)
    if check:
        check_places(settings)
        announce({"fine": True}, "the settings are valid", json_line=json)
        return
    from forebay.act.control.api.server import serve as run_service
    from forebay.act.forward.net.loop import run
    from forebay.show.web import pages

    def report_ready(addresses: list[str]) -> None:
        document = {"ready": "service", "addresses": addresses}
        announce(document, f"service ready: {' '.join(addresses)}", json_line=json)

    run(lambda end: run_service(settings, end, report_ready, pages=pages(settings)))
