"""`forebay compile`: compiles all kernels before a user waits for them."""

from __future__ import annotations

import io
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, redirect_stdout
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from forebay.cli.demo import run_line, write_example
from forebay.cli.packages import describe_missing
from forebay.show.options import Json
from forebay.show.output import print_json, progress

if TYPE_CHECKING:
    from forebay.studies.study import Study

commands = typer.Typer()
Installation = Annotated[bool, typer.Option("--installation", help="Put machine code into the installation.")]
Processes = Annotated[int | None, typer.Option("--workers", min=1, help="Processes [default: one per core].")]


@commands.command("compile", epilog="Example: forebay compile --installation  # while a package or an image is built")
def compile_kernels(installation: Installation = False, workers: Processes = None, json: Json = False) -> None:
    """Compile everything that Forebay compiles on first use.

    Machine code goes to the user's cache folder, which all installations of one version share. It works on this
    machine's type of processor; on another type, Forebay compiles again on first use.
    """
    from forebay.kernel_cache import keep_in_installation, kernels_folder
    from forebay.work import Died, Gone, run_pieces

    if installation:
        keep_in_installation()
    compiled = 0
    with tempfile.TemporaryDirectory(prefix="forebay-") as name:
        steps = list(_steps(Path(name)))
        with (
            progress("Compiling", len(steps)) as report,
            closing(run_pieces(workers or os.cpu_count() or 1, partial(_run_step, installation), steps)) as pieces,
        ):
            for done, (_, kernels) in enumerate(pieces, start=1):
                if isinstance(kernels, Died):
                    raise Gone(f"compile: {kernels.because}")
                compiled += kernels
                report(done)
    folder = kernels_folder()
    if json:
        print_json({"compiled": compiled, "folder": str(folder)})
    else:
        typer.echo(f"{compiled} kernels compiled in {folder}" if compiled else f"nothing to compile in {folder}")


def _run_step(installation: bool, step: Callable[[], None]) -> int:
    """Run a step in this process; return how many kernels it compiled."""
    from forebay.kernel_cache import keep_in_installation
    from forebay.model.compile_hooks import hooks

    if installation:
        keep_in_installation()
    compiled: list[str] = []
    hooks.before, hooks.after = compiled.append, lambda _kernel: None
    try:
        with redirect_stdout(io.StringIO()):
            step()
    except ModuleNotFoundError as error:
        if describe_missing(error, "compile") is None:
            raise  # otherwise, its optional group is not installed here
    return len(compiled)


def _steps(folder: Path) -> Iterator[Callable[[], None]]:
    """Yield what compiles kernels, the longest first. Hardly any two compile the same ones."""
    machine, buffer = write_example(folder / "machine.toml"), write_example(folder / "burst-buffer.toml")
    yield _simulate_jobs
    yield _warm_service
    yield _warm_forwarding
    yield _run_exascale
    for line in (
        f"simulate {machine} --allocate all",
        f"simulate {buffer} --requests theta-2020:50 --policy all,optimal",
        f"simulate {buffer} --requests theta-2020:50 --policy all --feedback",
    ):
        yield partial(run_line, f"forebay {line}")
    yield _run_striping
    yield _simulate_requests


def _warm_service() -> None:
    from forebay.decide.grants.control import warm_up

    warm_up("forebay")


def _warm_forwarding() -> None:
    from forebay.act.forward.council.process import compile_council
    from forebay.act.forward.node.io_node import compile_kernels as compile_node
    from forebay.decide.registry import policies
    from forebay.decide.tune.council import new_council

    compile_node()
    for name in policies("tune"):
        compile_council(new_council("window", (1, 2), tuner=name), lambda _decision: None)


def _run_striping() -> None:
    from forebay.studies.striping.command import build

    _run_pieces(build(policy="default", repetitions=1, noise=False))


def _run_exascale() -> None:
    from forebay.studies.exascale.command import build

    _run_pieces(build(months=1, days=0.1, sensitivity=False))


def _run_pieces(study: Study[Any]) -> None:
    """Run a study without its report: figures take longer than all kernels do once they are compiled."""
    for key in study.keys():  # noqa: SIM118 (a method of its own, not a mapping's)
        study.run_piece(key)


def _simulate_requests() -> None:
    """Simulate requests under every scheduler that can be compiled ahead."""
    from forebay.decide.registry import policies
    from forebay.model.situation import PATTERNS
    from forebay.simulate.requests.run import Forwarding, simulate_requests
    from forebay.simulate.requests.workload import Workload

    load = Workload(processes=2, pattern=PATTERNS[0], operation="write", request=1 << 20, total=1 << 23)
    for name in policies("order"):
        simulate_requests(Forwarding(nodes=1, scheduler=name), load)


def _simulate_jobs() -> None:
    """Simulate one job: all scheduling policies are compiled together. Plan another one, as for Slurm."""
    import numpy as np

    from forebay.act.slurm.planner.planning import compile_kernels
    from forebay.decide.registry import find
    from forebay.model.jobs import JOB, Jobs
    from forebay.simulate.jobs.run import JobMachine, simulate_jobs

    rows = np.ones(1, JOB)
    simulate_jobs(Jobs(rows=rows, ids=["1"]), JobMachine(nodes=1, space=1), find("schedule", "sjf-bb"))
    compile_kernels()
