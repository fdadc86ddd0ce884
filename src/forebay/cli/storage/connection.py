"""The options that name the service, and a client for it."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from forebay.model.errors import BadInput
from forebay.model.units import parse_duration
from forebay.show.options import parse_quantity
from forebay.show.output import print_lines

if TYPE_CHECKING:
    from forebay.act.control.client import Client

Service = Annotated[
    str | None,
    typer.Option(help="unix:/PATH or https://HOST:PORT [default: $FOREBAY_SERVICE or unix:/run/forebay/service.sock]."),
]
Token = Annotated[Path | None, typer.Option(help="File with your token, mode 0600.", envvar="FOREBAY_TOKEN_FILE")]
Authority = Annotated[
    Path | None,
    typer.Option(help="PEM file of the authority that signed the service's certificate.", envvar="FOREBAY_AUTHORITY"),
]
_OPTIONS = {"service": Service, "token": Token, "authority": Authority}


def open_client(service: str | None = None, token: Path | None = None, authority: Path | None = None) -> Client:
    """Open a client of the service that the options, or else the environment, name."""
    from forebay.act.control.client import Client, service_of

    client = Client(service_of(service), token=token, authority=authority)
    if sys.stderr.isatty():
        client.report_wait = lambda because: print_lines(
            f"{client.service} does not answer ({because}); trying for {client.patience:g} s", err=True
        )
    return client


def with_client(function: Callable[..., None]) -> Callable[..., None]:
    """Turn a function whose first argument is a client into a command with the options that name the service."""

    @wraps(function)
    def command(
        service: str | None = None, token: Path | None = None, authority: Path | None = None, **options: Any
    ) -> None:
        with open_client(service, token, authority) as client:
            function(client, **options)

    hints = get_type_hints(function, localns={"Client": object}, include_extras=True)
    parameters = [p.replace(annotation=hints[p.name]) for p in inspect.signature(function).parameters.values()][1:]
    for name, annotation in _OPTIONS.items():
        keyword = inspect.Parameter.KEYWORD_ONLY
        parameters.append(inspect.Parameter(name, keyword, default=None, annotation=annotation))
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {p.name: p.annotation for p in parameters}
    return command


def parse_seconds(option: str, text: str) -> float:
    return parse_positive(option, text, parse_duration)


def parse_positive(option: str, text: str, parse: Callable[[str], float]) -> float:
    value = parse_quantity(option, text, parse, lambda value: value > 0, "must be above 0")
    if value >= _TOO_LARGE:
        raise BadInput(option, f"is too large: {text!r}")
    return value


_TOO_LARGE = 1e18
