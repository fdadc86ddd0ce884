"""Runs that write files of different sizes, with layouts of one or several components, on the machines of `machine`.

A run ends when the busiest of its resources is done: a target with all bytes and objects that lie on it, a client node,
the metadata server, or a process that uses its files one after the other. Targets are assigned in turn, and a later
component of a file gets other ones than those before it, as on Lustre.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from forebay.decide.stripe.view import Features, Past, StripeView, Striping
from forebay.model.file_sizes import SizeClass
from forebay.model.layout import TO_THE_END, Layout, Target
from forebay.simulate.striping.first_runs import draw_noise
from forebay.simulate.striping.flows import costs
from forebay.simulate.striping.machine import Machine, Program

Floats = NDArray[np.float64]
ON_MDT = Features(progressive=True, mdt_free=1 << 50)
"""A file system that has all kinds of layouts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Files:
    """A number of equal files, each written `block` bytes at a time by one process or by all together."""

    number: int
    size: int
    block: int
    shared: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataServer:
    """What files cost beside moving their bytes, in seconds; all numbers are assumed."""

    open_seconds: float = 4e-4  # of a process, to create and close a file
    trip_seconds: float = 6e-4  # of a process, for the first lock and request at a file's targets
    client_object_seconds: float = 4e-5  # of a process, for each object of a file
    file_seconds: float = 2.5e-5  # of the server, for each file
    server_object_seconds: float = 6e-6  # of the server, for each object
    target_object_seconds: float = 1.5e-4  # of a target, to create an object and to look at it again
    bandwidth: float = 1.5e9  # of data on the metadata target

    def scale(self, seconds: float, bandwidth: float) -> "MetadataServer":
        """Return another server with these factors on all costs, and on the bandwidth."""
        return MetadataServer(
            open_seconds=self.open_seconds * seconds,
            trip_seconds=self.trip_seconds * seconds,
            client_object_seconds=self.client_object_seconds * seconds,
            file_seconds=self.file_seconds * seconds,
            server_object_seconds=self.server_object_seconds * seconds,
            target_object_seconds=self.target_object_seconds * seconds,
            bandwidth=self.bandwidth * bandwidth,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Mixture:
    """An application that writes several kinds of files with `processes` processes on a machine."""

    name: str
    machine: Machine
    metadata: MetadataServer
    processes: int
    files: tuple[Files, ...]

    @property
    def volume(self) -> int:
        """All bytes of a run."""
        return sum(kind.number * kind.size for kind in self.files)

    @property
    def sizes(self) -> tuple[SizeClass, ...]:
        """The files by size, as the history counts them."""
        return tuple(
            SizeClass(
                below=1 << kind.size.bit_length(), shared=kind.shared, files=kind.number, bytes=kind.number * kind.size
            )
            for kind in self.files
        )

    def throughput(self, layout: Layout) -> float:
        """Return bytes per second without noise."""
        if layout.most_targets > self.machine.targets:
            raise ValueError(f"{layout} does not fit on {self.machine.targets} targets")
        load = _Load(self, np.zeros(self.machine.targets))
        for kind in self.files:
            load.add(kind, layout)
        return self.volume / load.seconds


@dataclass(slots=True)
class _Load:
    """The seconds of work that each resource has so far."""

    run: Mixture
    targets: Floats
    nodes: float = 0.0
    server: float = 0.0
    process: float = 0.0
    next: int = 0
    """The target of the next object."""

    @property
    def seconds(self) -> float:
        return max(float(self.targets.max()), self.nodes, self.server, self.process)

    def add(self, kind: Files, layout: Layout) -> None:
        machine, metadata, processes = self.run.machine, self.run.metadata, self.run.processes
        program = Program(
            name="", block=kind.block, shared=kind.shared, process_bytes=max(1, kind.size // processes), aligned=True
        )
        objects: list[float] = []  # seconds of each object at its target
        alone, on_nodes, begin, trips = 0.0, 0.0, 0, 0
        for part in layout.components:
            if begin and begin >= kind.size:
                break
            held = (kind.size if part.end == TO_THE_END else min(kind.size, part.end)) - begin
            if part.count:
                cost = costs(machine, program, processes, part.count, part.size)
                shares = _divide(held, part.count, part.size)
                objects += [metadata.target_object_seconds + cost.target * share for share in shares]
                filled = sum(share > 0 for share in shares)
                alone += held * costs(machine, program, processes, filled, part.size).stream
                on_nodes += held * cost.node
                trips += 1
            else:
                self.server += kind.number * held / metadata.bandwidth
                alone += held / machine.process_bandwidth
                on_nodes += held / machine.node_bandwidth
            begin = part.end
        self._place(objects, kind.number)
        in_turn = kind.number if kind.shared else math.ceil(kind.number / processes)
        alone += metadata.open_seconds + trips * metadata.trip_seconds
        alone += len(objects) * metadata.client_object_seconds
        self.process += in_turn * alone
        nodes = machine.nodes(processes if kind.shared else min(processes, kind.number))
        self.nodes += kind.number * on_nodes / nodes
        self.server += kind.number * (metadata.file_seconds + len(objects) * metadata.server_object_seconds)

    def _place(self, objects: Sequence[float], number: int) -> None:
        """Give the objects of `number` files to targets in turn."""
        count = self.targets.size
        firsts = np.bincount((self.next + len(objects) * np.arange(number)) % count, minlength=count)
        for k, seconds in enumerate(objects):
            self.targets += np.roll(firsts, k) * seconds
        self.next = (self.next + len(objects) * number) % count


def _divide(held: int, count: int, size: int) -> list[int]:
    """Return the bytes of each object of a component.

    >>> _divide(10, 3, 4)
    [4, 4, 2]
    """
    whole, rest = divmod(held, size)
    rounds, more = divmod(whole, count)
    shares = [rounds * size + (size if k < more else 0) for k in range(count)]
    shares[more % count] += rest
    return shares


def repeat(
    run: Mixture, decide: Callable[[StripeView], Striping], features: Features, runs: int, noise: float, rng: Generator
) -> list[Layout]:
    """Return the layouts of an application's first runs, of which the policy sees what a history shows."""
    shared = sum(c.bytes for c in run.sizes if c.shared)
    by_size = sorted(run.sizes, key=lambda c: c.size, reverse=True)
    held = np.cumsum([c.bytes for c in by_size])
    half = by_size[int(np.argmax(2 * held >= held[-1]))]
    past: tuple[Past, ...] = ()
    layouts = []
    for number, factor in enumerate(draw_noise(noise, runs, rng), start=1):
        view = StripeView(
            application=run.name,
            processes=run.processes,
            targets=tuple(Target(index=t, free_bytes=1 << 40) for t in range(run.machine.targets)),
            runs=past,
            known_runs=len(past),
            shared_file=2 * shared > run.volume if past else None,
            io_processes=run.processes if past else None,
            file_size=int(half.size) if past else None,
            file_size_run=number - 1 if past else None,
            file_sizes=run.sizes if past else (),
            size_run=number - 1 if past else None,
            features=features,
            chance=float(rng.random()),
        )
        layout = decide(view).layout
        throughput = run.throughput(layout) * float(factor)
        latest = Past(
            run=number, processes=run.processes, count=layout.count, size=layout.size, throughput=throughput,
            io_bytes=run.volume, components=len(layout.components),
        )  # fmt: skip
        past += (latest,)
        layouts.append(layout)
    return layouts
