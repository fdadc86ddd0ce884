"""One run on the sharing kernel: every target and client node is a resource that its flows share equally.

A file has a flow on each of its targets and on each node that writes it. It is complete when the last
flow ends, but no sooner than its processes can write it (their `stream`).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from forebay.model.kernels import Array, kernel
from forebay.model.layout import Layout
from forebay.simulate.sharing import arrive, depart, next_finish, resources
from forebay.simulate.striping.machine import Machine, Program


def throughput(
    machine: Machine, program: Program, processes: int, layout: Layout, others: Sequence[int] | None = None
) -> float:
    """Return bytes per second of a run beside `others[t]` flows on target t: all bytes / time of the slowest file."""
    if not 1 <= layout.count <= machine.targets or layout.start >= machine.targets:
        raise ValueError(f"{layout} does not fit on {machine.targets} targets")
    files, volume = program.files(processes), program.volume(processes)
    cost = costs(machine, program, processes, layout.count, layout.size)
    # One flow for each stripe of a file, then one for each node that writes it.
    stripes = max(layout.start, 0) + np.arange(files * layout.count)
    if program.shared:
        nodes = np.arange(writing_nodes(machine, program, processes, layout.count))
    else:
        nodes = np.arange(files) // machine.processes_per_node
    where = np.concatenate([stripes % machine.targets, machine.targets + nodes])
    on_target, on_node = cost.target * volume / files, cost.node * volume / files
    on_node = on_node / nodes.size if program.shared else on_node
    work = np.concatenate([np.full(stripes.size, on_target / layout.count), np.full(nodes.size, on_node)])
    endless = np.zeros(int(where.max()) + 1, dtype=np.int64)
    if others is not None:
        endless[: machine.targets] = np.asarray(others)[: endless.size]
    slowest = max(float(finish_times(where, work, endless).max()), cost.stream * volume / files)
    return volume / slowest


def finish_times(where: Array, work: Array, endless: Array) -> Array:
    """Return when flows with `work` seconds end that begin at 0 beside `endless[r]` endless flows on resource r."""
    flows = np.bincount(where, minlength=endless.size)
    order = np.argsort(where, kind="stable")
    ends = np.empty(where.size)
    _run(*resources(flows + endless), flows, endless, order, where, work, ends)
    return ends


@kernel
def _run(
    shared: Array, marks: Array, flows: Array, endless: Array, order: Array, where: Array, work: Array, ends: Array
) -> None:
    bits = marks.view(np.int64)
    for flow in order:  # each flow takes the next seat
        resource = shared[where[flow]]
        arrive(resource, marks, resource.live, work[flow], 0.0)
    for r in range(flows.size):
        for k in range(endless[r]):
            arrive(shared[r], marks, flows[r] + k, np.inf, 0.0)
    begin = 0
    for r in range(flows.size):
        for _ in range(flows[r]):
            now = next_finish(shared[r], marks)
            ends[order[begin + depart(shared[r], marks, bits, now)]] = now
        begin += flows[r]


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """Seconds per byte at each `target` and client `node` of a file, and for the file's `stream` alone."""

    target: float
    node: float
    stream: float


def costs(machine: Machine, program: Program, processes: int, count: int, size: int) -> Costs:
    """Compute the costs for files of `count` stripes of `size` bytes."""
    extent = _extent(machine, program, processes, count, size)
    rpc = min(extent, machine.rpc_bytes)
    share = machine.random_share if program.random else 1.0
    target = 1 / (machine.target_bandwidth * share) + machine.rpc_seconds / rpc
    if program.shared and not program.collective and machine.nodes(processes) > 1:
        # Another node writes the next extent of an object, and must take the lock from this node.
        target += machine.lock_seconds / extent
    node = 1 / machine.node_bandwidth + machine.client_seconds / rpc
    # The limit of the processes that write one file, with the targets they can reach at a time.
    writers = aggregators(machine, program, processes, count) if program.shared else 1
    stream = 1 / (writers * machine.process_bandwidth * share)
    if program.collective:  # packing, and a round for every stripe of each aggregator, during which nothing is written
        a_round = min(writers * size, processes * program.block)
        rounds = machine.round_seconds * (1 + math.log2(processes)) / a_round
        stream += 1 / (machine.pack_bandwidth * processes) + rounds
        writers = min(writers, math.ceil(processes * program.block / size))  # a call covers only this many stripes
    if program.shared:
        stream += machine.call_seconds / (processes * program.block)
    # A process writes ahead to other targets while data for the last one is in flight.
    reach = count if program.random else min(count, writers * (1 + machine.dirty_bytes / size))
    return Costs(target=target, node=node, stream=max(stream, target / reach))


def aggregators(machine: Machine, program: Program, processes: int, count: int) -> int:
    """Return how many processes write a shared file: all of them, unless I/O is collective."""
    if not program.collective:
        return processes
    return min(processes, count if machine.aggregator_per_target else machine.nodes(processes))


def writing_nodes(machine: Machine, program: Program, processes: int, count: int) -> int:
    """Return how many nodes write a shared file."""
    return min(machine.nodes(processes), aggregators(machine, program, processes, count))


def _extent(machine: Machine, program: Program, processes: int, count: int, size: int) -> float:
    """Return how many contiguous bytes of an object a client node writes at a time."""
    if program.random:
        return min(program.block, size)
    if not program.shared or program.collective:
        return machine.rpc_bytes  # one writer per object: the client merges neighbouring pages
    # Neighbouring processes are on one node and share its cache and lock.
    block = program.block * min(processes, machine.processes_per_node)
    extent = max(min(size, block), block / count)
    return extent if program.aligned and block >= size else block / (block / extent + 1)
