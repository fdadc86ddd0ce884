"""The effect of a layout on a job: the number of targets, and the cost of a byte there and in the client."""

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
        ("count", np.int64),  # stripes of a file, without its head
        ("head", np.float64),  # bytes at the beginning of each file on one target
        ("first", np.int64),  # index of the first target among the job's targets
        ("seconds", np.float64),  # per byte at its target, alone
        ("floor", np.float64),  # least seconds per byte of a phase, because of the client
    ]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Laid:
    """A layout: `head` bytes of each file on one target, the others striped; `start` is the first target or ANY."""

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
    """Return a LAYOUT for phases of `volume` bytes on `nodes`; ordering makes servers `gain` times as fast."""
    processes = nodes * centre.compute.processes
    files = 1 if style.shared else processes
    most = targets or centre.targets
    if volume / files <= laid.head:  # every file fits into its head
        laid = Laid(count=1, size=laid.size)
    machine = centre.read_machine if reads else centre.write_machine
    seconds, floor = _costs_of(machine, style.program, processes, laid, most)
    layout = np.zeros((), dtype=LAYOUT)
    layout["files"], layout["count"], layout["head"] = files, min(laid.count, most), laid.head
    layout["seconds"], layout["floor"] = seconds / gain, floor
    return layout


def on_flash(centre: Centre, style: Style, nodes: int, parts: int) -> tuple[float, float]:
    """Return `seconds` and `floor` of LAYOUT for files over `parts` flash targets, with the by_hand stripe size."""
    laid = Laid(count=parts, size=int(centre.layout.by_hand.size))
    return _costs_of(centre.buffer_machine, style.program, nodes * centre.compute.processes, laid, parts)


def alone(layout: Array, volume: float, targets: Array) -> Array:
    """Return bytes per second of an undisturbed phase, for each of several numbers of targets."""
    n = np.asarray(targets, dtype=np.int64)
    files, head = int(layout["files"]), float(layout["head"])
    ahead = min(volume, files * head)
    most = np.zeros(n.shape)
    for stripes, size in ((np.full(n.shape, files), ahead), (files * np.minimum(layout["count"], n), volume - ahead)):
        most += np.ceil(stripes / n) * size / stripes if size > 0 else 0.0
    return volume / np.maximum(most * layout["seconds"], volume * layout["floor"])


@lru_cache(maxsize=100_000)
def _costs_of(machine: Machine, program: Program, processes: int, laid: Laid, most: int) -> tuple[float, float]:
    """Return seconds per byte at the target, and in the client."""
    on = min(laid.count + (laid.head > 0), most)
    cost = costs(machine, program, processes, on, laid.size)
    # The stream also waits for targets, which the simulation models itself; only the client's share is a floor.
    endless = replace(machine, target_bandwidth=1e30, rpc_seconds=0.0, lock_seconds=0.0)
    stream = costs(endless, program, processes, on, laid.size).stream / program.files(processes)
    senders = writing_nodes(machine, program, processes, on) if program.shared else machine.nodes(processes)
    return cost.target, max(stream, cost.node / senders)
