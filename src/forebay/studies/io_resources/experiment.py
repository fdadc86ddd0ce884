"""The evaluation of Bandet et al. 2024, section VI: every policy on many random sets of applications."""

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np

from forebay.decide.registry import find
from forebay.decide.view import View
from forebay.kernel_cache import sources_digest
from forebay.model.application import Application
from forebay.model.curve import Curve
from forebay.model.decision import Placement
from forebay.model.errors import BadInput
from forebay.model.system import System
from forebay.profile.curve_shapes import class_curves, estimate_by_class
from forebay.show.report import Report
from forebay.show.rows import Rows
from forebay.simulate.applications.engine import Measures, decide_placement, simulate
from forebay.simulate.applications.random_sets import draw
from forebay.studies.finished_pieces import Store
from forebay.studies.io_resources.results import RUN, TRUE, Results, load_bins
from forebay.studies.study import Study, digest, policy_digests

_MOST_DRAWS = 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class IoResourcesStudy(Study[Results]):
    """The runs of a study. The result of a set depends on every field but `loads` and `sets`."""

    name: str
    curves: Mapping[str, Curve]
    origin: str
    system: System
    applications: int
    horizon: float
    allocators: Sequence[str]
    placers: Sequence[str]
    sees: Sequence[str]
    seed: int
    loads: Sequence[float]
    step: float
    sets: int
    noun = "set"

    def settings(self) -> dict[str, object]:
        points = repr([(name, c.counts, c.bandwidths) for name, c in self.curves.items()])
        return {
            "version of Forebay": sources_digest(),
            "policies": policy_digests((("allocate", self.allocators), ("place", self.placers))),
            "study": self.name,
            "curves": digest(points),
            "targets": self.system.targets,
            "compute_nodes": self.system.compute_nodes,
            "allocate": list(self.allocators),
            "place": list(self.placers),
            **self.fields("applications", "horizon", "seed", "step"),
        }

    def keys(self) -> list[str]:
        return [f"load-{load!r}/set-{index}" for load in self.loads for index in range(self.sets)]

    def check(self) -> None:
        """Check the curves, draw one set for each load, and try each allocator."""
        for name, curve in self.curves.items():
            where = f"{self.origin}: {name}"
            if curve.first != 1:
                raise BadInput(where, "lacks a measurement on 1 target; add it, or remove this curve")
            if curve.last > self.system.targets:
                raise BadInput(where, f"has n = {curve.last}, above --targets {self.system.targets}; raise --targets")
        drawn = [draw_set(self, load, 0)[0] for load in self.loads]
        for allocate in self.allocators:
            _decide(self, drawn[0], allocate, self.placers[0], self.loads[0], 0)

    def run_piece(self, key: str) -> Rows:
        """Simulate one set under every combination of policies: RUN rows with the occupancies."""
        load, index = (float(part.split("-", 1)[1]) for part in key.split("/"))
        applications, theta, least_load = draw_set(self, load, int(index))
        rows = []
        for sees in self.sees:
            known = applications if sees == TRUE else _use_class_curves(applications, self.curves)
            for allocate, place in product(self.allocators, self.placers):
                placement = _decide(self, known, allocate, place, load, int(index))
                measures = simulate(self.system, applications, placement, horizon=self.horizon)
                rows.append((load, int(index), theta, least_load, allocate, place, sees, *_columns(measures)))
        return np.array(rows, dtype=[*RUN.descr, ("occupancy", "f8", (self.system.targets,))])

    def collect(self, pieces: Store) -> Results:
        table = np.concatenate([pieces.get(key) for key in self.keys()])
        return Results(
            study=self.name,
            origin=self.origin,
            settings=self.settings() | {"loads": list(self.loads), "sets": self.sets},
            bins=load_bins(self.loads, self.step),
            runs=table[list(RUN.names or ())].astype(RUN),
            occupancy=table["occupancy"],
        )

    def report(self, results: Results) -> Report:
        from forebay.studies.io_resources.findings import make_report

        about = (
            f"{self.origin}; {self.applications} applications on {self.system.targets} targets and "
            f"{self.system.compute_nodes:g} compute nodes, measured over {self.horizon:g} s, seed {self.seed}."
        )
        return make_report(results, self.curves, about)


def draw_set(study: IoResourcesStudy, load: float, index: int) -> tuple[tuple[Application, ...], float, float]:
    """Return a set whose I/O-load(pi_sys) lies in the bin around `load`, the Theta it was drawn with, and that load.

    A set drawn for Theta has that load on average, with one target for each application. Its least load is lower.
    So draw sets until one fits, with a Theta that grows slowly.
    """
    [wanted] = load_bins([load], study.step)
    highest = 0.999 * study.applications / study.system.targets
    for attempt in range(_MOST_DRAWS):
        theta = min(load * (1 + 0.01 * (attempt // 4)), max(load, highest))
        rng = _rng(study, load, index, f"applications {attempt}")
        drawn = draw(study.system, study.curves, applications=study.applications, load=theta, rng=rng)
        view = View(study.system, drawn)
        least = view.io_load(view.n_sys)
        if wanted.low <= least < wanted.high:
            return drawn, theta, least
    raise BadInput("loads", f"no set of {study.applications} applications has an I/O load near {load:g}; try others")


def _decide(
    study: IoResourcesStudy, known: tuple[Application, ...], allocate: str, place: str, load: float, index: int
) -> Placement:
    # Each allocator has its own generator, so that other policies do not change what it draws,
    # and a random allocator draws the same for every placement.
    rng = _rng(study, load, index, allocate)
    policies = find("allocate", allocate), find("place", place)
    return decide_placement(study.system, known, *policies, rng=rng, horizon=study.horizon)


def _columns(measures: Measures) -> tuple[object, ...]:
    slowdowns = (measures.mean_io_slowdown, measures.max_io_slowdown, measures.mean_rho_io, measures.mean_rho_con)
    others = (measures.io_spread, measures.machine_idle, measures.io_load, int(np.isnan(measures.slowdown).sum()))
    return (*slowdowns, *others, np.sort(measures.occupancy)[::-1])


def _use_class_curves(applications: Sequence[Application], curves: Mapping[str, Curve]) -> tuple[Application, ...]:
    classes = class_curves(curves)
    return tuple(replace(a, curve=estimate_by_class(a.curve, classes)) for a in applications)


def _rng(study: IoResourcesStudy, load: float, index: int, purpose: str) -> np.random.Generator:
    return np.random.default_rng([study.seed, round(load * 1e9), index, zlib.crc32(purpose.encode())])
