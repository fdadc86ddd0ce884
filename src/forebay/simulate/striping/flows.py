"""One run on the sharing kernel: every target and every client node is a resource, shared equally by its flows.

A file is a flow on each of its targets and on the nodes that it comes from; it is written when the
last of them is done, and no sooner than its own processes can (their `stream`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from forebay.model.kernels import kernel
from forebay.model.layout import Layout
from forebay.simulate.sharing import arrive, depart, next_finish, resources
from forebay.simulate.striping.costs import costs, writing_nodes
from forebay.simulate.striping.machine import Machine
from forebay.simulate.striping.program import Program


def throughput(
    machine: Machine, program: Program, processes: int, layout: Layout, others: Sequence[int] | None = None
) -> float:
    """Bytes per second of a run: all its bytes over the time of its slowest file (Luu et al. 2015).

    `others[t]` flows of other applications are on target t all the time. The first file starts at
    the layout's first target (0 if that is left open), each further one where the last one ended.
    """
    if not 1 <= layout.count <= machine.targets or layout.start >= machine.targets:
        raise ValueError(f"{layout} does not fit on {machine.targets} targets")
    files, volume = program.files(processes), program.volume(processes)
    cost = costs(machine, program, processes, layout.count, layout.size)
    where, work = _flows(machine, program, processes, layout, cost.target * volume / files, cost.node * volume / files)
    endless = np.zeros(int(where.max()) + 1, dtype=np.int64)
    if others is not None:
        endless[: machine.targets] = np.asarray(others)[: endless.size]
    slowest = max(float(finishes(where, work, endless).max()), cost.stream * volume / files)
    return volume / slowest


def finishes(where: Any, work: Any, endless: Any) -> Any:
    """When each flow ends that begins at 0 on resource `where` with `work` seconds of work (alone).

    `endless[r]` more flows are on resource r and never end.
    """
    own = np.bincount(where, minlength=endless.size)
    order = np.argsort(where, kind="stable")
    seat = np.empty(where.size, dtype=np.int64)
    seat[order] = np.arange(where.size) - np.repeat(np.cumsum(own) - own, own)
    shared, marks = resources(own + endless)
    ends = np.empty(where.size)
    _run(shared, marks, own, endless, order, where, seat, work, ends)
    return ends


@kernel
def _run(
    shared: Any, marks: Any, own: Any, endless: Any, order: Any, where: Any, seat: Any, work: Any, ends: Any
) -> None:
    bits = marks.view(np.int64)
    for flow in order:
        arrive(shared[where[flow]], marks, seat[flow], work[flow], 0.0)
    for r in range(own.size):
        for k in range(endless[r]):
            arrive(shared[r], marks, own[r] + k, np.inf, 0.0)
    begin = 0
    for r in range(own.size):
        for _ in range(own[r]):
            now = next_finish(shared[r], marks)
            ends[order[begin + depart(shared[r], marks, bits, now)]] = now
        begin += own[r]


def _flows(
    machine: Machine, program: Program, processes: int, layout: Layout, on_target: float, on_node: float
) -> tuple[Any, Any]:
    """The resource and the work of each flow: the files' stripes, then their ways through the nodes.

    `on_target` and `on_node` are the seconds of a whole file, if it were on one.
    """
    files = program.files(processes)
    stripes = max(layout.start, 0) + np.arange(files * layout.count)
    if program.shared:
        nodes = np.arange(writing_nodes(machine, program, processes, layout.count))
    else:
        nodes = np.arange(files) // machine.processes_per_node
    where = np.concatenate([stripes % machine.targets, machine.targets + nodes])
    each = on_node / nodes.size if program.shared else on_node
    work = np.concatenate([np.full(stripes.size, on_target / layout.count), np.full(nodes.size, each)])
    return where, work
