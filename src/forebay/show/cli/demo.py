"""`forebay demo`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

EXAMPLE = "Example: forebay demo"


def demo(
    out: Annotated[Path, typer.Option(help="Folder for what comes out.")] = Path("demo"),
) -> None:
    """The whole system once, on this machine, in under two minutes."""
    from importlib.resources import files

    from forebay.show.cli.allocate import allocate
    from forebay.show.cli.simulate import simulate

    out.mkdir(parents=True, exist_ok=True)
    machine = out / "machine.toml"
    machine.write_text((files("forebay.show") / "examples" / "machine.toml").read_text())

    _say(f"1. A machine with 8 I/O nodes and three applications ({machine}). Who gets how many, and which?")
    _say(f"   $ forebay allocate {machine}")
    allocate(machine)
    _say("2. What would every policy do? Slowdown is I/O time over that alone on the best n;")
    _say("   idle is the part of the compute nodes that waits for I/O.")
    _say(f"   $ forebay simulate {machine} --allocate all --plot {out / 'machine.png'}")
    simulate(machine, allocate="all", plot=out / "machine.png")
    _say("3. Is that so in general? A small version of the published evaluation, on made-up curves.")
    _study(out / "io-nodes")


def _study(out: Path) -> None:
    from forebay.show.cli.study import io_nodes

    options = {"sets": 8, "loads": "0.2:1.2:0.2", "place": "greedy-non-clairvoyant,random", "out": out}
    _say("   $ forebay study io-nodes " + " ".join(f"--{key} {value}" for key, value in options.items()))
    io_nodes(sets=8, loads="0.2:1.2:0.2", place="greedy-non-clairvoyant,random", out=out, workers=os.cpu_count() or 1)


def _say(text: str) -> None:
    typer.secho(("\n" if text[0] != " " else "") + text, bold=text[0] != " ")
