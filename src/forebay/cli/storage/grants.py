"""`forebay storage`: space on the fast disks, asked for, waited for, looked at and given back."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from forebay.model.errors import BadInput, Refused
from forebay.show.options import Json

if TYPE_CHECKING:
    from forebay.act.control.client import Client

commands = typer.Typer()

Service = Annotated[
    str | None,
    typer.Option(
        help="unix:/PATH or https://HOST:PORT [default: $FOREBAY_SERVICE, or unix:/run/forebay/service.sock].",
        show_default=False,
    ),
]
Token = Annotated[
    Path | None,
    typer.Option(help="A file with your token, mode 0600.", envvar="FOREBAY_TOKEN_FILE", show_default=False),
]
Authority = Annotated[
    Path | None,
    typer.Option(help="Who signed the service's certificate.", envvar="FOREBAY_AUTHORITY", show_default=False),
]
Id = Annotated[str, typer.Argument(metavar="ID", help="The grant.", show_default=False)]
AtMost = Annotated[str | None, typer.Option(help="Wait no longer than this; the grant stays.", show_default=False)]


@commands.command(epilog="Example: forebay storage request --size 500GB --time 2h --tier nvme --wait")
def request(
    size: Annotated[str, typer.Option(help="How much, such as 500GB.")],
    time: Annotated[str, typer.Option(help="For how long, such as 2h.")],
    start: Annotated[
        str | None, typer.Option(help="From when: 2h for so long from now, or 2026-11-16T08:00 [default: now].")
    ] = None,
    tier: Annotated[str, typer.Option(help="The kind of disks.")] = "",
    field: Annotated[list[str] | None, typer.Option(help="NAME=VALUE that its disks must have; repeated.")] = None,
    job: Annotated[str, typer.Option(help="The job that it is for.")] = "",
    expose: Annotated[str, typer.Option(help="Reach it from other nodes: nbd or nvmet.")] = "",
    host: Annotated[
        list[str] | None, typer.Option(help="Who may reach it, if exposed; repeated [default: this machine].")
    ] = None,
    key: Annotated[str, typer.Option(help="Sent again with the same key, it is the same request.")] = "",
    wait: Annotated[bool, typer.Option("--wait", help="Until it is ready; Ctrl-C gives it back.")] = False,
    keep: Annotated[bool, typer.Option("--keep", help="With --wait: Ctrl-C leaves it where it is.")] = False,
    at_most: AtMost = None,
    env: Annotated[
        bool, typer.Option("--env", help='Wait, and print FOREBAY_PATH and more for a shell: eval "$(...)".')
    ] = False,
    json: Json = False,
    service: Service = None,
    token: Token = None,
    authority: Authority = None,
) -> None:
    """Ask for space. What comes out are the paths, or the settings to connect to it."""
    from forebay.cli.storage.tables import say_grant

    wanted = quantity("--size", size, "size"), quantity("--time", time, "duration")
    more = {"start": _start(start), "tier": tier, "fields": _fields(field, expose), "job": job}
    patience = None if at_most is None else quantity("--at-most", at_most, "duration")
    with client_of(service, token, authority) as client:
        grant = _asked(client, key, size=int(wanted[0]), seconds=wanted[1], **more, **_exposed(expose, host))
        if wait or env or at_most is not None:
            grant = _waited(client, grant, patience, release=not keep)
    _check(grant)
    say_grant(grant, json=json, env=env)


def _asked(client: Client, key: str, **wish: Any) -> dict[str, Any]:
    """The grant. Whoever gives up before the service has answered gets nothing, and leaves nothing there either."""
    import secrets

    key = key or secrets.token_hex(16)
    try:
        return client.request(**wish, key=key)
    except KeyboardInterrupt:
        grant = client.release(client.request(**wish, key=key)["id"])
        typer.echo(f"grant {grant['id']}: given back", err=True)
        raise


def _exposed(expose: str, hosts: list[str] | None) -> dict[str, Any]:
    import socket

    if not expose or expose == "none":
        if hosts:
            raise BadInput("--host", "goes with --expose")
        return {}
    if expose == "nvmet" and not hosts:
        raise BadInput("--host", "say which hosts may connect, by their NQNs (/etc/nvme/hostnqn of each)")
    return {"expose": expose, "hosts": hosts or [socket.gethostname()]}


def _fields(words: list[str] | None, expose: str) -> dict[str, str]:
    """What its disks must have; an exposed volume can only be where volumes are exposed that way."""
    found = {"expose": expose} if expose and expose != "none" else {}
    for word in words or []:
        name, equals, value = word.partition("=")
        if not (name and equals):
            raise BadInput("--field", f"must be NAME=VALUE, not {word!r}")
        if name in found:
            raise BadInput("--field", f"{name} is there twice")
        found[name] = value
    return found


def _start(text: str | None) -> float | str | None:
    """A time is told as seconds since 1970; a duration is from now on, by the service's clock."""
    from datetime import datetime

    if text is None:
        return None
    try:
        return datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError):
        quantity("--start", text, "duration")
        return text


def quantity(option: str, text: str, kind: str) -> float:
    from forebay.model.units import parse_duration, parse_size

    try:
        value = parse_size(text) if kind == "size" else parse_duration(text)
    except ValueError as error:
        raise BadInput(option, str(error)) from None
    if not 0 < value < 1e18:
        raise BadInput(option, f"must be above 0, not {text!r}")
    return value


@commands.command(epilog="Example: forebay storage wait 3f0c... --at-most 10min")
def wait(
    grant: Id,
    at_most: AtMost = None,
    env: Annotated[bool, typer.Option("--env", help="Print FOREBAY_PATH and more for a shell.")] = False,
    json: Json = False,
    service: Service = None,
    token: Token = None,
    authority: Authority = None,
) -> None:
    """Wait until a grant is ready. Ctrl-C leaves it where it is."""
    from forebay.cli.storage.tables import say_grant

    patience = None if at_most is None else quantity("--at-most", at_most, "duration")
    with client_of(service, token, authority) as client:
        found = _waited(client, client.grant(grant), patience, release=False)
    _check(found)
    say_grant(found, json=json, env=env)


def _waited(client: Client, grant: dict[str, Any], seconds: float | None, *, release: bool) -> dict[str, Any]:
    """The grant when it is ready or has ended; on the way, its place in the queue on stderr."""
    from forebay.cli.storage.tables import progress_words

    told = ""
    try:
        for found in client.settled(grant, float("inf") if seconds is None else seconds):
            grant, words = found, progress_words(found)
            if words and words != told:
                typer.echo(words, err=True)
            told = words
    except KeyboardInterrupt:
        if release:
            client.release(grant["id"])
        words = "given back" if release else f"left as it is: forebay storage wait {grant['id']}"
        typer.echo(f"grant {grant['id']}: {words}", err=True)
        raise
    if progress_words(grant):
        raise Refused(f"grant {grant['id']} is still {grant['state']}; it stays: forebay storage wait {grant['id']}")
    return grant


def _check(grant: dict[str, Any]) -> None:
    """There is nothing to go on with where it was refused, has ended, or is about to."""
    if grant["state"] in _ENDS:
        raise Refused(f"grant {grant['id']} {_ENDS[grant['state']]}: {grant['because']}")


_ENDS = {
    "refused": "is refused", "failed": "has failed", "expired": "has expired", "releasing": "is being released",
    "released": "was released",
}  # fmt: skip


@commands.command(epilog="Example: forebay storage release 3f0c...")
def release(
    grants: Annotated[list[str], typer.Argument(metavar="ID...", help="The grants.", show_default=False)],
    wait: Annotated[bool, typer.Option("--wait", help="Until nothing of them is left on any disk.")] = False,
    at_most: Annotated[str | None, typer.Option(help="Wait no longer than this.", show_default=False)] = None,
    json: Json = False,
    service: Service = None,
    token: Token = None,
    authority: Authority = None,
) -> None:
    """Give grants back; what is on them is gone."""
    from forebay.show.output import print_json

    patience = None if at_most is None else quantity("--at-most", at_most, "duration")
    with client_of(service, token, authority) as client:
        before = [client.release(grant) for grant in grants]
        waits = wait or patience is not None
        found = _released(client, before, patience) if waits else before
    if json:
        print_json(found[0] if len(found) == 1 else found)
    else:
        for grant in found:
            typer.echo(f"grant {grant['id']}: {grant['state']}")
    for old, new in zip(before, found, strict=True):
        _check_released(old, new, waits=waits)


def _released(client: Client, grants: list[dict[str, Any]], seconds: float | None) -> list[dict[str, Any]]:
    """The grants when nothing is left of them, or the time is over; on the way, what is in the way on stderr."""
    import time

    told: set[str] = set()
    end = time.monotonic() + (float("inf") if seconds is None else seconds)
    while any(grant["state"] == "releasing" for grant in grants) and (left := end - time.monotonic()) > 0:
        for words in {f"grant {grant['id']}: {mark}" for grant in grants for mark in grant["marks"]} - told:
            typer.echo(words, err=True)
            told.add(words)
        grants = [client.wait(g["id"], left, known="releasing") if g["state"] == "releasing" else g for g in grants]
    return grants


def _check_released(before: dict[str, Any], now: dict[str, Any], *, waits: bool) -> None:
    """Whoever waited for its end is told if that went wrong, or has not come."""
    if waits and before["state"] == "releasing" and now["state"] in ("failed", "releasing"):
        state = "has failed" if now["state"] == "failed" else "is still releasing"
        raise Refused(f"grant {now['id']} {state}: {'; '.join([now['because'], *now['marks']])}")


@commands.command(epilog="Example: forebay storage extend 3f0c... --by 1h")
def extend(
    grant: Id,
    by: Annotated[str, typer.Option(help="How much longer, such as 1h.")],
    json: Json = False,
    service: Service = None,
    token: Token = None,
    authority: Authority = None,
) -> None:
    """Let a grant last longer, if its space stays free."""
    from forebay.cli.storage.tables import moment
    from forebay.show.output import print_json

    seconds = quantity("--by", by, "duration")
    with client_of(service, token, authority) as client:
        found = client.extend(grant, seconds)
    if json:
        print_json(found)
    else:
        typer.echo(f"grant {grant}: until {moment(found['until'])}")


@commands.command("list", epilog="Example: forebay storage list --state queued")
def list_(
    state: Annotated[str, typer.Option(help="Only those in this state.")] = "",
    owner: Annotated[str, typer.Option(help="Only those of this user.")] = "",
    node: Annotated[str, typer.Option(help="Only those on this node.")] = "",
    everything: Annotated[bool, typer.Option("--all", help="Those that ended, too.")] = False,
    json: Json = False,
    service: Service = None,
    token: Token = None,
    authority: Authority = None,
) -> None:
    """List your grants with their states and the reasons.

    An administrator sees everybody's.
    """
    from forebay.cli.storage.tables import print_grants
    from forebay.show.output import print_json

    with client_of(service, token, authority) as client:
        found = list(client.grants(state=state, owner=owner, node=node))
    if not (everything or state):
        found = [grant for grant in found if grant["state"] not in ("released", "refused", "failed", "expired")]
    print_json(found) if json else print_grants(found)


@commands.command(epilog="Example: forebay storage show 3f0c... --story")
def show(
    grant: Id,
    story: Annotated[bool, typer.Option("--story", help="All that happened to it, and who did what.")] = False,
    json: Json = False,
    service: Service = None,
    token: Token = None,
    authority: Authority = None,
) -> None:
    """One grant: its state and why, its volumes, and how to reach them."""
    from forebay.cli.storage.tables import print_grant, print_story
    from forebay.show.output import print_json

    with client_of(service, token, authority) as client:
        found = client.grant(grant)
        lines = client.story(grant) if story else []
    if json:
        print_json(found | ({"story": lines} if story else {}))
        return
    print_grant(found)
    if story:
        print_story(lines)


def client_of(service: str | None, token: Path | None, authority: Path | None) -> Client:
    from forebay.act.control.client import Client, service_of

    return Client(service_of(service), token=token, authority=authority)
