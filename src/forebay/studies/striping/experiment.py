"""The evaluation of Kim et al. 2022, section 5: the first runs of each application under each policy.

And beyond the paper: what becomes of the policies when runs vary more and more (striping_noise.py), and what of
the improvements if the model's numbers are off (striping_assumed.py).
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.random import Generator

from forebay.decide.registry import find
from forebay.kernel_cache import sources_digest
from forebay.simulate.striping.learn import Case, first_runs, weather
from forebay.simulate.striping.machine import CORI, LOCAL
from forebay.simulate.striping.peers import peers_of
from forebay.simulate.striping.program import (
    FIO_RANDOM,
    FIO_SEQUENTIAL,
    GCRM,
    VORPAL,
    VPIC,
    VPIC_COLLECTIVE,
    VPIC_INDEPENDENT,
)
from forebay.studies.pieces import Store, do_all
from forebay.studies.striping.assumed import FACTORS, assumed_piece
from forebay.studies.striping.noise import noise_piece
from forebay.studies.striping.results import APART, ASSUMED, BESIDE, DCA, NOISE, RUN, TAPP, StripingResults
from forebay.studies.study import policy_digests
from forebay.work import Workers

PROCESSES = (1, 2, 4, 8)
NODES = (1, 4, 16, 64)
FIO_PROCESSES = 4
FIO_TARGETS = (1, 2, 4)
LEVELS = (0.05, 0.2, 0.4)


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One panel of a figure; `fio` is how many targets FIO writes to meanwhile."""

    figure: int
    case: Case
    fio: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class StripingStudy:
    """What to run: `settings` by key for the paper's figures, `cases` by key under every level of noise.

    `assumed` are the numbers of the machines that are halved and doubled.
    """

    settings: Mapping[str, Setting]
    cases: Mapping[str, Case]
    assumed: Sequence[str]
    policies: Sequence[str]
    repetitions: int
    seeds: int  # of each case under each level of noise
    seed: int
    runs: int = 10
    noise_runs: int = 20

    def about(self) -> dict[str, object]:
        """What the pieces depend on."""
        return {
            "version of Forebay": sources_digest(),
            "policies": list(self.policies),
            "sources": policy_digests((("stripe", self.policies),)),
            "repetitions": self.repetitions,
            "runs": self.runs,
            "seeds": self.seeds,
            "noise runs": self.noise_runs,
            "seed": self.seed,
        }

    def keys(self) -> list[str]:
        noise = (f"noise-{level:g}/{key}" for key in self.cases for level in LEVELS)
        return [*self.settings, *noise, *(f"assumed/{name}/{factor:g}" for name in self.assumed for factor in FACTORS)]


def paper_settings() -> dict[str, Setting]:
    """Figures 7 to 14; in the last one also with half as many processes, where the rule leaves targets free."""
    found: dict[str, Setting] = {}
    for figure, program in enumerate((FIO_SEQUENTIAL, FIO_RANDOM, VPIC, GCRM, VORPAL), start=7):
        for processes in PROCESSES:
            case = Case(machine=LOCAL, program=program, processes=processes)
            found[f"figure-{figure:02}/processes-{processes}"] = Setting(figure=figure, case=case)
    for figure, program in enumerate((VPIC_INDEPENDENT, VPIC_COLLECTIVE), start=12):
        for nodes in NODES:
            case = Case(machine=CORI, program=program, processes=nodes * CORI.processes_per_node)
            found[f"figure-{figure:02}/nodes-{nodes}"] = Setting(figure=figure, case=case)
    for processes, program, fio in product((BESIDE, BESIDE // 2), (VPIC, GCRM, VORPAL), FIO_TARGETS):
        others = tuple(FIO_PROCESSES if t < fio else 0 for t in range(LOCAL.targets))
        case = Case(machine=LOCAL, program=program, processes=processes, others=others)
        key = f"figure-14/{slug(program.name)}/processes-{processes}/fio-{fio}"
        found[key] = Setting(figure=14, case=case, fio=fio)
    return found


def noise_cases() -> dict[str, Case]:
    """Every application with few, some and many processes, on a machine where nobody else is."""
    return {
        f"{slug(s.case.program.name)}-{s.case.processes}": s.case
        for s in paper_settings().values()
        if not s.fio and s.case.processes not in (2, 32, 512)
    }


def slug(name: str) -> str:
    return name.lower().replace(" ", "-")


def run(study: StripingStudy, folder: Path, *, workers: Workers, progress: Callable[[int], None]) -> StripingResults:
    """Every piece, from `folder` what is there already, and all of them as three tables."""
    for spec in study.policies:
        find("stripe", spec)
    about, keys = study.about(), study.keys()
    store = Store(folder, about)
    store.open()
    do_all(keys, partial(run_piece, study), store, workers=workers, progress=progress)
    tables: dict[Any, list[Any]] = {kind: [np.zeros(0, dtype=kind)] for kind in (RUN, NOISE, ASSUMED)}
    for key in keys:
        piece = store.get(key)
        tables[piece.dtype].append(piece)
    runs, noise, assumed = (np.concatenate(own) for own in tables.values())
    return StripingResults(settings=about, runs=runs, noise=noise, assumed=assumed)


def run_piece(study: StripingStudy, key: str) -> Any:
    """One panel under every policy, one case under one level of noise, or all panels with another number."""
    if key in study.settings:
        return _figure_piece(study, key, study.settings[key])
    level, _, case = key.partition("/")
    if level == "assumed":
        number, _, factor = case.partition("/")
        return assumed_piece(((s.figure, s.case) for s in study.settings.values() if not s.fio), number, float(factor))
    return noise_piece(
        study.cases[case],
        float(level.removeprefix("noise-")),
        study.policies,
        runs=study.noise_runs,
        rngs=[_rng(study.seed, key, seed) for seed in range(study.seeds)],
    )


def _figure_piece(study: StripingStudy, key: str, setting: Setting) -> Any:
    """A RUN for every run of every repetition under every policy; chance is the same for all policies."""
    case, rows = setting.case, []
    for repetition in range(study.repetitions):
        rng = _rng(study.seed, key, repetition)
        peers = peers_of(case.machine, case.processes, case.machine.noise, rng)
        skies = weather(case, study.runs, case.machine.noise, rng)
        for spec in policies_for(setting, study.policies):
            outcomes = first_runs(case, find("stripe", spec).decide, peers, skies)
            for number, outcome in enumerate(outcomes, start=1):
                layout = outcome.striping.layout
                rows.append(
                    (
                        setting.figure,
                        case.machine.name,
                        case.program.name,
                        case.processes,
                        case.machine.nodes(case.processes),
                        setting.fio,
                        spec,
                        repetition,
                        number,
                        layout.count,
                        layout.size,
                        outcome.first,
                        outcome.striping.phase,
                        outcome.expected,
                        outcome.measured,
                    )
                )
    return np.array(rows, dtype=RUN)


def policies_for(setting: Setting, policies: Sequence[str]) -> list[str]:
    """Beside FIO, `dca-io` is compared with itself without Procedure 3, and `tapp-io` is left out, as in the paper."""
    if not setting.fio:
        return list(policies)
    return [p for spec in policies for p in ((APART, DCA) if spec == DCA else (spec,)) if p != TAPP]


def _rng(seed: int, key: str, repetition: int) -> Generator:
    return np.random.default_rng([seed, zlib.crc32(key.encode()), repetition])
