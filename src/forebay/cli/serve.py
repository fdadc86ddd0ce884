"""`forebay serve`: the control service; and `forebay token`: who may call it over a network."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from forebay.cli import token_login
from forebay.show.options import Database, Json

EXAMPLE = "Example: forebay serve --config examples/serve.toml"
token = typer.Typer(help="Tokens for callers of the service.", no_args_is_help=True, rich_markup_mode=None)
token.command(epilog=token_login.EXAMPLE)(token_login.login)


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


@token.command(epilog="Example: forebay token make n1-agent --role agent --node n1 --out /etc/forebay/agent.token")
def make(
    name: Annotated[str, typer.Argument(help="What it is called; one of that name is replaced.")],
    out: Annotated[Path, typer.Option(help="The file that the token goes to, with mode 0600.")],
    role: Annotated[str, typer.Option(help="user, agent, administrator, or metrics (reads /metrics alone).")] = "user",
    node: Annotated[str, typer.Option(help="Of an agent: its node.")] = "",
    uid: Annotated[int | None, typer.Option(help="Of a user.")] = None,
    gid: Annotated[int | None, typer.Option(help="Of a user [default: the user's own].")] = None,
    db: Database = None,
    json: Json = False,
) -> None:
    """Make a token, or replace one (the old one ends within seconds)."""
    import time

    from forebay.act.control.api.forms import TokenForm
    from forebay.act.control.auth.tokens import new_token, write_secret
    from forebay.act.control.service.settings import privately
    from forebay.history.store import open_store
    from forebay.history.toml import checked

    told = {"name": name, "role": role, "node": node, "uid": uid, "gid": gid}
    secret, _, keep = new_token(checked(Path("token"), told, TokenForm), time.time())
    with privately(), open_store(db) as store, store.writing() as connection:
        replaced = keep(connection)
        write_secret(out, secret)
    _say({"name": name, "file": str(out), "replaced": replaced}, f"written: {out}", json)


@token.command(epilog="Example: forebay token remove n1-agent")
def remove(name: Annotated[str, typer.Argument(help="Which one.")], db: Database = None, json: Json = False) -> None:
    """Take a token away; it ends within seconds."""
    from forebay.history.store import open_store
    from forebay.history.store.tokens import all_tokens, remove_token
    from forebay.model.errors import UnknownName

    with open_store(db, create=False) as store, store.writing() as connection:
        if not remove_token(connection, name):
            raise UnknownName("token", name, [each.name for each in all_tokens(connection)])
    _say({"removed": name}, f"removed: {name}", json)


@token.command("list", epilog="Example: forebay token list")
def listed(db: Database = None, json: Json = False) -> None:
    """Who has a token."""
    from forebay.history.store import open_store
    from forebay.history.store.tokens import all_tokens
    from forebay.show.output import print_json, print_table

    with open_store(db, create=False) as store, store.reading() as connection:
        found = [{"name": t.name, "role": t.role, "node": t.node, "uid": t.uid} for t in all_tokens(connection)]
    if json:
        print_json({"tokens": found})
    else:
        rows = [(t["name"], t["role"], t["node"] or "-", "-" if t["uid"] == -1 else t["uid"]) for t in found]
        print_table("", ("token", "role", "node", "uid"), rows)


def _say(document: dict[str, Any], words: str, json: bool) -> None:
    import json as codec

    typer.echo(codec.dumps(document) if json else words)
    sys.stdout.flush()
