"""Sweeps: the same jobs with more or less space, load, or accuracy of wall times."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from forebay.model.errors import BadInput, nearest_name
from forebay.model.jobs import Jobs
from forebay.model.system import Node, Platform

SPACE, LOAD, WALLTIMES = "space", "load", "walltimes"
DEFAULTS = {SPACE: (0.5, 1.0, 2.0), LOAD: (0.8, 0.9, 1.0, 1.1, 1.2), WALLTIMES: (1.0, 2.0, 5.0)}


@dataclass(frozen=True, slots=True)
class Variation:
    """A factor on the space or the load, or wall times that are this many times the true run times."""

    sweep: str = ""
    value: float = 1.0

    @property
    def key(self) -> str:
        return f"{self.sweep}-{self.value:g}" if self.sweep else "base"

    def scale_space(self, space: int) -> int:
        return round(space * self.value) if self.sweep == SPACE else space

    def scale_platform(self, platform: Platform) -> Platform:
        """Return the platform with disks of the changed size."""

        def scale(node: Node) -> Node:
            return replace(node, disks=tuple(replace(d, capacity=self.scale_space(d.capacity)) for d in node.disks))

        servers = (replace(server, nodes=tuple(map(scale, server.nodes))) for server in platform.servers)
        return replace(platform, servers=tuple(servers))

    def change_jobs(self, jobs: Jobs) -> Jobs:
        """Return the jobs with a denser order of arrival, or with other wall times; no job runs longer than before."""
        rows = jobs.rows.copy()
        if self.sweep == LOAD and rows.size:
            first = rows["submit"][0]
            rows["submit"] = first + (rows["submit"] - first) / self.value
        elif self.sweep == WALLTIMES:
            rows["runtime"] = np.maximum(np.minimum(rows["runtime"], rows["walltime"]), 1e-3)
            rows["walltime"] = rows["runtime"] * self.value
        return replace(jobs, rows=rows)


BASE = Variation()


def parse_sweeps(texts: Iterable[str]) -> tuple[Variation, ...]:
    """Parse `space`, `space=0.5,2`, `load=…` or `walltimes=…`.

    >>> parse_sweeps(["walltimes=1,5"])
    (Variation(sweep='walltimes', value=1.0), Variation(sweep='walltimes', value=5.0))
    """
    variations: list[Variation] = []
    for text in texts:
        sweep, _, listed = text.partition("=")
        if sweep not in DEFAULTS:
            near = nearest_name(sweep, DEFAULTS)
            hint = f"did you mean {near!r}?" if near else f"use {', '.join(DEFAULTS)}"
            raise BadInput("--sweep", f"unknown sweep {sweep!r}; {hint}")
        values = [_factor(text, part) for part in listed.split(",")] if listed else DEFAULTS[sweep]
        if sweep == WALLTIMES and min(values) < 1:
            raise BadInput("--sweep", f"{text!r}: wall times below the run times would kill every job; use 1 or more")
        variations += [Variation(sweep, value) for value in values]
    return tuple(dict.fromkeys(variations))


def _factor(text: str, part: str) -> float:
    try:
        value = float(part)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and 0 < value <= 1000):
        raise BadInput("--sweep", f"{text!r}: values must be factors above 0, up to 1000, not {part!r}")
    return value
