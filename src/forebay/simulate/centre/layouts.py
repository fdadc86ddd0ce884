"""What a layout means for a job: on how many targets its files lie, and what a byte costs there and in the client."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from forebay.model.kernels import Array
from forebay.model.layout import ANY, Layout
from forebay.simulate.centre.machine import Centre, Stripes
from forebay.simulate.centre.workload import Style
from forebay.simulate.striping.flows import costs, writing_nodes
from forebay.simulate.striping.machine import Machine, Program

LAYOUT = np.dtype(
    [
        ("files", np.int64),
        ("count", np.int64),  # stripes of a file, or of what comes after its head
        ("head", np.float64),  # so many bytes of each file are on one target
        ("first", np.int64),  # of the job's targets, where its files begin
        ("seconds", np.float64),  # that a byte takes its target, alone
        ("floor", np.float64),  # seconds for each byte of a phase that the client needs, however fast the targets are
    ]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Laid:
    """A layout: `head` bytes of each file on one target, the rest as stripes; `start` is the first target or ANY."""

    count: int
    size: int
    head: float = 0.0
    start: int = ANY

    @classmethod
    def of(cls, stripes: Stripes | Layout) -> Laid:
        if isinstance(stripes, Layout):
            return cls(count=stripes.count, size=stripes.size, start=stripes.start)
        return cls(count=stripes.count, size=int(stripes.size), head=stripes.head)


def record(
    centre: Centre,
    style: Style,
    nodes: int,
    laid: Laid,
    volume: float,
    *,
    reads: bool,
    gain: float = 1.0,
    targets: int | None = None,
) -> Array:
    """A LAYOUT for phases of `volume` bytes on `nodes`; servers are `gain` times as fast as without ordering."""
    processes = nodes * centre.compute.processes
    files = 1 if style.shared else processes
    most = targets or centre.targets
    if volume / files <= laid.head:  # no file gets beyond its head
        laid = Laid(count=1, size=laid.size)
    machine = centre.reading if reads else centre.writing
    seconds, floor = _costs_of(machine, style.program, processes, laid, most)
    layout = np.zeros((), dtype=LAYOUT)
    layout["files"], layout["count"], layout["head"] = files, min(laid.count, most), laid.head
    layout["seconds"], layout["floor"] = seconds / gain, floor
    return layout


def on_flash(centre: Centre, style: Style, nodes: int, parts: int) -> tuple[float, float]:
    """LAYOUT's seconds and floor of files over so many flash targets, with stripes as users set them by hand."""
    laid = Laid(count=parts, size=int(centre.layout.by_hand.size))
    return _costs_of(centre.buffering, style.program, nodes * centre.compute.processes, laid, parts)


def alone(layout: Array, volume: float, targets: Array) -> Array:
    """Bytes per second of a phase that nobody disturbs, on each of several numbers of targets."""
    n = np.asarray(targets, dtype=np.int64)
    files, head = int(layout["files"]), float(layout["head"])
    ahead = min(volume, files * head)
    most = np.zeros(n.shape)
    for stripes, size in ((np.full(n.shape, files), ahead), (files * np.minimum(layout["count"], n), volume - ahead)):
        most += np.ceil(stripes / n) * size / stripes if size > 0 else 0.0
    return volume / np.maximum(most * layout["seconds"], volume * layout["floor"])


@lru_cache(maxsize=100_000)
def _costs_of(machine: Machine, program: Program, processes: int, laid: Laid, most: int) -> tuple[float, float]:
    """Seconds for each byte at its target, and in the client."""
    on = min(laid.count + (laid.head > 0), most)
    cost = costs(machine, program, processes, on, laid.size)
    # The stream waits for targets too, of which the simulation knows better; only the client's own part is a floor.
    endless = replace(machine, target_bandwidth=1e30, rpc_seconds=0.0, lock_seconds=0.0)
    stream = costs(endless, program, processes, on, laid.size).stream / program.files(processes)
    senders = writing_nodes(machine, program, processes, on) if program.shared else machine.nodes(processes)
    return cost.target, max(stream, cost.node / senders)
