"""A month of a whole centre with none, each, all, and all but one of four decisions, and under other assumptions."""

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from forebay.kernel_cache import sources_digest
from forebay.model.arrays import Floats, Ints
from forebay.show.rows import Rows
from forebay.simulate.centre.machine import Centre
from forebay.simulate.centre.month import DECISIONS, REQUESTS, Outcome, run_month
from forebay.simulate.centre.random_month import Drawn, draw_month
from forebay.simulate.centre.request_gains import Gain, gains
from forebay.simulate.centre.workload import Workload
from forebay.studies.exascale.results import ALL, BASE, DEFAULT, RUN, WITHOUT, ExascaleResults
from forebay.studies.finished_pieces import Store, concatenate
from forebay.studies.study import Study, policy_digests


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """A changed assumption: the I/O of all jobs times `io`, or another number of the workload."""

    label: str
    io: float = 1.0
    noise: float | None = None
    by_hand: float | None = None

    def apply(self, workload: Workload) -> Workload:
        profiles, io = workload.profiles, workload.io
        if self.noise is not None:
            profiles = profiles.model_copy(update={"noise": self.noise})
        if self.by_hand is not None:
            io = io.model_copy(update={"by_hand": self.by_hand})
        return workload.model_copy(update={"profiles": profiles, "io": io})


SETTINGS = {
    BASE: Setting(label="as assumed"),
    "io-half": Setting(label="half the I/O", io=0.5),
    "io-double": Setting(label="twice the I/O", io=2.0),
    "profiles-right": Setting(label="profiles exactly right", noise=0.0),
    "profiles-wrong": Setting(label="profiles off by 100 %", noise=1.0),
    "nobody-by-hand": Setting(label="no layout set by hand", by_hand=0.0),
    "all-by-hand": Setting(label="all layouts set by hand", by_hand=1.0),
}
VARIANTS = {
    DEFAULT: frozenset[str](),
    **{name: frozenset({name}) for name in DECISIONS},
    ALL: frozenset(DECISIONS),
    **{f"{WITHOUT}{name}": frozenset(DECISIONS) - {name} for name in DECISIONS},
}
_MOST_SEEDS = 3  # months of every setting but BASE


@dataclass(frozen=True, slots=True, kw_only=True)
class ExascaleStudy(Study[ExascaleResults]):
    """`seeds` months of the workload on the centre; `sensitivity` adds runs under other assumptions."""

    centre: Centre
    workload: Workload
    seeds: int
    seed: int
    sensitivity: bool
    name = "exascale"
    noun = "month"

    def settings(self) -> dict[str, object]:
        return {
            "version of Forebay": sources_digest(),
            "sources": policy_digests((kind, [spec]) for kind, spec in self.workload.policies.specs()),
            "machine": self.centre.model_dump(),
            "workload": self.workload.model_dump(),
            "seed": self.seed,
        }

    def keys(self) -> list[str]:
        """List the pieces of a month next to each other, so that a worker draws each month once."""
        return [
            f"{setting}/month-{month}/{variant}"
            for setting in (SETTINGS if self.sensitivity else (BASE,))
            for month in range(self.seeds if setting == BASE else min(self.seeds, _MOST_SEEDS))
            for variant in (VARIANTS if setting == BASE else (DEFAULT, ALL))
        ]

    def run_piece(self, key: str) -> Rows:
        """Simulate one month with the decisions of a variant: RUN rows."""
        setting, month, variant = key.split("/")
        number = int(month.removeprefix("month-"))
        workload = SETTINGS[setting].apply(self.workload)
        drawn = _draw(self.centre.model_dump_json(), workload.model_dump_json(), setting, self.seed, number)
        on = VARIANTS[variant]
        learned: tuple[Gain, ...] = gains(self.centre, workload) if REQUESTS in on else ()
        seed = zlib.crc32(f"{self.seed} {number}".encode())
        outcome = run_month(self.centre, workload, drawn, on, learned, seed=seed)
        return _make_rows(workload, drawn, outcome, (setting, variant, number))

    def collect(self, pieces: Store) -> ExascaleResults:
        [runs] = concatenate(pieces, self.keys(), RUN)
        return ExascaleResults(
            settings=self.settings(),
            months=self.seeds,
            runs=runs,
            gains=gains(self.centre, self.workload),
            capacity=self.centre.compute.nodes * self.workload.month.days * 24,
        )


@lru_cache(maxsize=2)
def _draw(centre: str, workload: str, setting: str, seed: int, month: int) -> Drawn:
    """Draw the jobs of a month, which are the same for every variant."""
    machine, jobs = Centre.model_validate_json(centre), Workload.model_validate_json(workload)
    drawn = draw_month(machine, jobs, np.random.default_rng([seed, month]))
    for column in ("volume", "input"):
        drawn.jobs[column] *= SETTINGS[setting].io
    return drawn


def _make_rows(workload: Workload, drawn: Drawn, outcome: Outcome, which: Sequence[Any]) -> Rows:
    """Return a row for each job that had decisions, and one for all other jobs of each application."""
    jobs = drawn.jobs
    unit = np.where(jobs["decided"], np.arange(jobs.size), jobs.size + drawn.app)
    _, at, row = np.unique(unit, return_index=True, return_inverse=True)
    rows = np.zeros(at.size, dtype=RUN)
    rows["setting"], rows["on"], rows["month"] = which
    rows["unit"], rows["decided"] = unit[at], jobs["decided"][at]
    apps = [drawn.apps[a] for a in drawn.app[at]]
    rows["kind"] = [workload.kind[app.kind].name for app in apps]
    rows["style"] = [app.style.name for app in apps]
    rows["nodes"], rows["stripes"], rows["pools"] = jobs["nodes"][at], outcome.stripes[at], outcome.jobs["pools"][at]
    nodes: Ints = jobs["nodes"]
    phases: Ints = jobs["phases"]
    compute: Floats = jobs["compute"]
    first: Floats = jobs["input"]
    volume: Floats = jobs["volume"]
    waited: Floats = outcome.jobs["waited"]
    sums = {
        "jobs": np.ones(jobs.size),
        "phases": phases,
        "buffered": outcome.jobs["buffered"],
        "bytes": first + volume * phases,
        "compute_hours": nodes * compute * phases / 3600,
        "io_hours": nodes * waited / 3600,
    }
    for name, values in sums.items():
        rows[name] = np.bincount(row, weights=values, minlength=at.size)
    return rows
