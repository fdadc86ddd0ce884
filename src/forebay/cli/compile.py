"""`forebay compile`: have all kernels compiled before anybody waits for them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from forebay.show.options import Json

commands = typer.Typer()

Step = tuple[Callable[..., None], dict[str, Any]]
"""A call for which kernels are compiled, with its arguments."""


@commands.command("compile", epilog="Example: forebay compile --installation  # while a package or an image is built")
def compile_kernels(
    installation: Annotated[
        bool, typer.Option("--installation", help="Put the machine code into the installation, for all its users.")
    ] = False,
    json: Json = False,
) -> None:
    """Compile all that Forebay would compile when it is first needed.

    Machine code goes to the user's cache folder, where all installations of one version find it. It is made for this
    machine's kind of processor: on another kind, Forebay compiles again when it is first needed.
    """
    from forebay.kernel_cache import keep_in_installation, kernels_folder
    from forebay.model.compile_hooks import hooks

    if installation:
        keep_in_installation()
    compiled: list[str] = []
    hooks.before, hooks.after = compiled.append, _ignore
    _run_steps()
    folder = kernels_folder()
    if json:
        from forebay.show.output import print_json

        print_json({"compiled": len(compiled), "folder": str(folder)})
    else:
        typer.echo(f"{len(compiled)} kernels compiled in {folder}" if compiled else f"nothing to compile in {folder}")


def _ignore(_kernel: str) -> None: ...


def _run_steps() -> None:
    import io
    import tempfile
    from contextlib import redirect_stdout

    from forebay.show.output import progress

    with tempfile.TemporaryDirectory(prefix="forebay-") as name:
        steps = [*_live_steps(), *_simulation_steps(Path(name))]
        with progress("Compiling", len(steps)) as show:
            for number, (call, options) in enumerate(steps):
                show(number)
                with redirect_stdout(io.StringIO()):
                    call(**options)


def _live_steps() -> Iterator[Step]:
    from forebay.act.control.service.warm_up import warm_up
    from forebay.act.forward.council.process import warm_council
    from forebay.act.forward.node.warm import warm
    from forebay.decide.registry import policies
    from forebay.decide.tune.council import new_council

    yield warm_up, {"policy": "forebay"}
    yield warm, {}
    for name in policies("tune"):
        yield warm_council, {"council": new_council("window", (1, 2), tuner=name), "recognise": lambda _seen: None}


def _simulation_steps(folder: Path) -> Iterator[Step]:
    from forebay.cli.demo import write_example
    from forebay.cli.exascale import exascale
    from forebay.cli.simulate.applications import simulate
    from forebay.cli.striping import striping

    machine, buffer = write_example(folder / "machine.toml"), write_example(folder / "burst-buffer.toml")
    few: dict[str, Any] = {"file": buffer, "requests": ["theta-2020:50"]}
    yield simulate, {"file": machine, "allocate": "all"}
    yield simulate, {**few, "policy": "all,optimal"}
    yield simulate, {**few, "policy": "all", "feedback": True}
    yield striping, {"policy": "default", "repetitions": 1, "noise": False, "workers": "1", "out": folder / "striping"}
    yield exascale, {"months": 1, "days": 0.1, "sensitivity": False, "workers": "1", "out": folder / "exascale"}
    yield _simulate_requests, {}


def _simulate_requests() -> None:
    """Under every scheduler that may be compiled ahead."""
    from forebay.decide.registry import policies
    from forebay.model.situation import PATTERNS
    from forebay.simulate.requests.layer import Forwarding
    from forebay.simulate.requests.run import simulate_requests
    from forebay.simulate.requests.workload import Workload

    load = Workload(processes=2, pattern=PATTERNS[0], operation="write", request=1 << 20, total=1 << 23)
    for name in policies("order"):
        simulate_requests(Forwarding(nodes=1, scheduler=name), load)
