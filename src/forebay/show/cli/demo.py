"""`forebay demo`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from forebay.show.cli.options import Json

EXAMPLE = "Example: forebay demo"


def demo(
    out: Annotated[Path, typer.Option(help="Folder for what comes out.")] = Path("demo"),
    json: Json = False,
) -> None:
    """The whole system once, on this machine, in under two minutes."""
    from importlib.resources import files

    from forebay.show.cli import history, study
    from forebay.show.cli.advise import advise
    from forebay.show.cli.allocate import allocate
    from forebay.show.cli.ingest import ingest
    from forebay.show.cli.simulate import simulate
    from forebay.show.cli.size import size
    from forebay.show.output import print_json

    out.mkdir(parents=True, exist_ok=True)
    machine, buffer = out / "machine.toml", out / "burst-buffer.toml"
    for example in (machine, buffer):
        example.write_text((files("forebay.show") / "examples" / example.name).read_text())
    logs, store = _logs(), str(out / "history.db")
    picture, sizes = out / "machine.png", out / "size.png"
    sets: dict[str, Any] = {"sets": 8, "loads": "0.2:1.2:0.2", "place": "greedy-non-clairvoyant,random"}
    steps: list[tuple[str, str, Callable[..., None], dict[str, Any]]] = [
        (
            "A machine with 8 I/O nodes and three applications. Who gets how many, and which?",
            f"forebay allocate {machine}",
            allocate,
            {"file": machine},
        ),
        (
            "What would every policy do? Slowdown is I/O time over that alone on the best n;\n"
            "   idle is the part of the compute nodes that waits for I/O.",
            f"forebay simulate {machine} --allocate all --plot {picture}",
            simulate,
            {"file": machine, "allocate": "all", "plot": picture},
        ),
        (
            "Is that so in general? A small version of the published evaluation, on made-up curves.",
            f"forebay study io-nodes --out {out / 'io-nodes'} " + " ".join(f"--{k} {v}" for k, v in sets.items()),
            study.io_nodes,
            sets | {"out": out / "io-nodes"},
        ),
        (
            "A burst buffer of 16 TB and a year of requests for space. Which disks hold which job's data?",
            f"forebay simulate {buffer} --policy all --feedback",
            simulate,
            {"file": buffer, "policy": "all", "feedback": True},
        ),
        (
            "How large must it be, to serve 99 % of the bytes?",
            f"forebay size --plot {sizes}",
            size,
            {"plot": sizes},
        ),
        (
            "What did applications do? The Darshan logs that come with PyDarshan, as a history.",
            f"forebay ingest {logs} --db {store}",
            ingest,
            {"paths": [logs], "db": store},
        ),
        (
            "Which applications are there?",
            f"forebay history apps --db {store} --plot {out / 'apps.png'}",
            history.apps,
            {"db": store, "plot": out / "apps.png"},
        ),
        (
            "How should the files of the next run of one of them be striped?",
            f"forebay advise --app ior --procs 48 --targets 24 --db {store}",
            advise,
            {"app": "ior", "procs": 48, "targets": 24, "db": store},
        ),
    ]
    documents = {}
    for number, (question, command, run, options) in enumerate(steps, start=1):
        if json:
            documents[command] = _as_json(run, options)
        else:
            typer.secho(f"\n{number}. {question}", bold=True)
            typer.echo(f"   $ {command}")
            run(**options)
    if json:
        print_json(documents)


def _logs() -> Path:
    """Real logs that are always there."""
    from importlib.util import find_spec

    found = find_spec("darshan")
    assert found is not None and found.origin is not None
    return Path(found.origin).parent / "examples"


def _as_json(run: Callable[..., None], options: dict[str, Any]) -> object:
    """What the command prints with --json."""
    import io
    import json
    from contextlib import redirect_stdout

    with redirect_stdout(io.StringIO()) as printed:
        run(**options, json=True)
    return json.loads(printed.getvalue())
