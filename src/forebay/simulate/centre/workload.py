"""The jobs of a month by kind, from a TOML file."""

from functools import cached_property
from pathlib import Path
from statistics import NormalDist
from typing import Annotated, Literal

import numpy as np

from forebay.decide.policy import Kind as PolicyKind
from forebay.decide.registry import check_policy
from forebay.history.toml import Bytes, Field, Seconds, Table, load_toml, validate
from forebay.model.errors import BadInput
from forebay.simulate.centre.machine import Count, Positive, Share
from forebay.simulate.striping.machine import Program

Pattern = Literal["file-per-process", "shared-contiguous", "shared-strided"]


class Month(Table):
    days: Positive
    """The length of the month."""
    utilisation: Annotated[float, Field(gt=0, le=1)]
    """The share of the machine's node-hours that is used."""


class Io(Table):
    median: Annotated[float, Field(gt=0, lt=0.1)]
    """The median share of their time that applications do I/O, alone and with the default layout."""
    a_tenth: Annotated[float, Field(gt=0, lt=0.5)]
    """The share of applications that do I/O for a tenth of their time or more."""
    memory: Annotated[float, Field(gt=0)]
    """The largest share of the nodes' memory that a phase moves."""
    input: Annotated[float, Field(ge=0)]
    """What is read at the start, as a multiple of what a phase moves."""
    by_hand: Share
    """The share of applications with shared files whose users set the layout by hand."""

    @property
    def spread(self) -> float:
        """Standard deviation of the logarithm of the share."""
        return float(np.log(0.1 / self.median) / NormalDist().inv_cdf(1 - self.a_tenth))


class Style(Table):
    name: str
    """What it is called."""
    operation: Literal["write", "read"] = "write"
    """What it does."""
    shared: bool = False
    """Whether processes share a file."""
    collective: bool = False
    """Whether I/O is collective (MPI-IO)."""
    block: Bytes
    """What a process moves at a time."""
    request: Bytes
    """What reaches the servers at a time."""
    pattern: Pattern
    """How requests lie in the files."""

    @cached_property
    def program(self) -> Program:
        """The program for the cost model, without its volume."""
        block = int(self.block)
        return Program(name=self.name, block=block, shared=self.shared, collective=self.collective, process_bytes=1)


class Kind(Table):
    name: str
    """What it is called."""
    share: Share
    """Its share of the node-hours."""
    applications: Count
    """The number of recurring applications."""
    nodes: Annotated[list[int], Field(min_length=2, max_length=2)]
    """The smallest and the largest number of nodes."""
    hours: Positive
    """The median of the run time."""
    sigma: Positive
    """The spread of its logarithm."""
    most: Positive
    """The longest run time, in hours."""
    every: Annotated[Seconds, Field(gt=0)]
    """Time between I/O phases."""
    styles: dict[str, float]
    """The share of applications for each style, by name."""
    decided: bool
    """Whether the history knows them well enough to decide for them."""


class Policies(Table):
    storage: str
    """Which disks."""
    split: Annotated[Bytes, Field(ge=1)]
    """Requests for space above this are split."""
    stripe: str
    """Which layout."""
    allocate: str
    """How many targets."""
    place: str
    """Which targets."""
    tune: str
    """Which window."""

    def specs(self) -> list[tuple[PolicyKind, str]]:
        """Each policy by its kind."""
        kinds: tuple[PolicyKind, ...] = ("storage", "stripe", "allocate", "place", "tune")
        return [(kind, getattr(self, kind)) for kind in kinds]


class Profiles(Table):
    noise: Annotated[float, Field(ge=0, le=5)]
    """How wrong profiles are: the coefficient of variation."""
    runs: Annotated[int, Field(ge=0, le=100)]
    """How many earlier runs with the default layout are known."""


class Workload(Table):
    month: Month
    """The simulated time."""
    io: Io
    """How much I/O applications do."""
    profiles: Profiles
    """What profiles know about applications."""
    policies: Policies
    """The policies that decide."""
    style: list[Style]
    """A way to do I/O, one table for each."""
    kind: list[Kind]
    """A class of jobs, one table for each."""


def read_workload(path: Path) -> Workload:
    workload = validate(path, load_toml(path), Workload)
    names = [style.name for style in workload.style]
    for at, kind in enumerate(workload.kind):
        where = f"{path}: kind[{at}]"
        if not 1 <= kind.nodes[0] <= kind.nodes[1]:
            raise BadInput(f"{where}.nodes", f"must ascend from 1 or more, not {kind.nodes}")
        unknown = next((name for name in kind.styles if name not in names), None)
        if unknown is not None or not kind.styles or min(kind.styles.values()) <= 0:
            raise BadInput(f"{where}.styles", f"needs positive shares of {', '.join(names)}")
    if not workload.kind or sum(kind.share for kind in workload.kind) > 1 + 1e-9:
        raise BadInput(f"{path}: kind", "needs entries, with shares that sum to at most 1")
    for policy, spec in workload.policies.specs():
        check_policy(f"{path}: policies.{policy}", policy, spec)
    return workload
