"""One run on the sharing kernel: every target and every client node is a resource, shared equally by its flows.

A file is a flow on each of its targets and on the nodes that it comes from; it is written when the
last of them is done, and no sooner than its own processes can (their `stream`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from forebay.model.kernels import kernel
from forebay.model.layout import Layout
from forebay.simulate.sharing import arrive, depart, next_finish, resources
from forebay.simulate.striping.machine import Machine, Program


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """Seconds for a byte at each `target` of a file and each client `node`, and of a file's `stream` alone."""

    target: float
    node: float
    stream: float


def costs(machine: Machine, program: Program, processes: int, count: int, size: int) -> Costs:
    """For files of `count` stripes of `size` bytes."""
    extent = _extent(machine, program, processes, count, size)
    rpc = min(extent, machine.rpc_bytes)
    share = machine.random_share if program.random else 1.0
    target = 1 / (machine.target_bandwidth * share) + machine.rpc_seconds / rpc
    if program.shared and not program.collective and machine.nodes(processes) > 1:
        # The next part of an object is another node's, which has to take the lock from this one.
        target += machine.lock_seconds / extent
    node = 1 / machine.node_bandwidth + machine.client_seconds / rpc
    return Costs(target=target, node=node, stream=_stream(machine, program, processes, count, size, target))


def aggregators(machine: Machine, program: Program, processes: int, count: int) -> int:
    """How many processes write to a shared file in collective I/O; all of them without."""
    if not program.collective:
        return processes
    return min(processes, count if machine.aggregator_per_target else machine.nodes(processes))


def writing_nodes(machine: Machine, program: Program, processes: int, count: int) -> int:
    """How many nodes a shared file's bytes come from."""
    return min(machine.nodes(processes), aggregators(machine, program, processes, count))


def _extent(machine: Machine, program: Program, processes: int, count: int, size: int) -> float:
    """How many bytes of an object a client node writes before another node, or another place, has its turn."""
    if program.random:
        return min(program.block, size)
    if not program.shared or program.collective:
        return machine.rpc_bytes  # one writer for an object: the client puts neighbouring pages together
    # Neighbouring processes are on one node, which has one cache and one lock for all of them.
    block = program.block * min(processes, machine.processes_per_node)
    extent = max(min(size, block), block / count)
    return extent if program.aligned and block >= size else block / (block / extent + 1)


def _stream(machine: Machine, program: Program, processes: int, count: int, size: int, target: float) -> float:
    """What the processes of one file can do at best, with that many targets within reach at a time."""
    writers = aggregators(machine, program, processes, count) if program.shared else 1
    share = machine.random_share if program.random else 1.0
    alone = 1 / (writers * machine.process_bandwidth * share)
    if program.collective:
        alone += _two_phases(machine, program, processes, writers, size)
    if program.shared:
        alone += machine.call_seconds / (processes * program.block)
    return max(alone, target / _reach(machine, program, processes, writers, count, size))


def _two_phases(machine: Machine, program: Program, processes: int, writers: int, size: int) -> float:
    """Packing, and a round for every stripe of each aggregator; nothing is written meanwhile."""
    packing = 1 / (machine.pack_bandwidth * processes)
    a_round = min(writers * size, processes * program.block)
    return packing + machine.round_seconds * (1 + math.log2(processes)) / a_round


def _reach(machine: Machine, program: Program, processes: int, writers: int, count: int, size: int) -> float:
    """How many targets have something to do at a time, on average."""
    if program.random:
        return count
    if program.collective:  # a call has only so many stripes to give to aggregators
        writers = min(writers, math.ceil(processes * program.block / size))
    # A process runs ahead on other targets while its data of the last one is still on its way.
    return min(count, writers * (1 + machine.dirty_bytes / size))
