"""What a byte costs where it passes: at a target, at a client node, and in the program itself.

Every cost is seconds for a byte. Costs at one place add up; places work at the same time, and the
slowest one sets the pace (see flows.py).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from forebay.simulate.striping.machine import Machine
from forebay.simulate.striping.program import Program


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
