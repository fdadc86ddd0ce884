"""The evaluation of Kim et al. 2022, section 5: the first runs of each application under each policy."""

import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
from numpy.random import Generator

from forebay.decide.registry import find
from forebay.kernel_cache import sources_digest
from forebay.model.arrays import Floats
from forebay.model.layout import KIB, Layout
from forebay.show.rows import Rows
from forebay.simulate.striping import machine
from forebay.simulate.striping.first_runs import Case, draw_weather, first_runs, peers_of
from forebay.simulate.striping.machine import CORI, LOCAL
from forebay.studies.finished_pieces import Store, concatenate
from forebay.studies.striping import results as study
from forebay.studies.striping.results import APART, ASSUMED, BESIDE, DCA, NOISE, RUN, TAPP, StripingResults
from forebay.studies.study import Study, policy_digests

NEAR = 0.95
SIZES = tuple(64 * KIB << k for k in range(15))  # 64 KiB to 1 GiB
NUMBERS = (
    "process_bandwidth",
    "node_bandwidth",
    "pack_bandwidth",
    "rpc_seconds",
    "client_seconds",
    "lock_seconds",
    "round_seconds",
    "call_seconds",
    "dirty_bytes",
)
FACTORS = (0.5, 1.0, 2.0)


def best_layout(case: Case) -> tuple[Layout, float]:
    """Return the fastest layout among powers of two, the smallest of equals, and its bytes per second."""
    counts = [1 << k for k in range(case.machine.targets.bit_length()) if 1 << k <= case.machine.targets]
    layouts = [Layout(count=count, size=size, start=0) for count, size in product(counts, SIZES)]
    best = max(layouts, key=case.throughput)
    return best, case.throughput(best)


def noise_piece(case: Case, noise: float, policies: Sequence[str], *, runs: int, rngs: Sequence[Generator]) -> Rows:
    """Return a NOISE row for every policy, history and generator. All policies meet the same random numbers."""
    case = without_others(case)
    best, default = best_layout(case)[1], case.throughput(Layout(count=1, start=0))
    rows = []
    for seed, rng in enumerate(rngs):
        histories = {study.OTHERS: peers_of(case.machine, case.processes, noise, rng), study.NOBODY: ()}
        skies = draw_weather(case, runs, noise, rng)
        for (history, peers), spec in product(histories.items(), policies):
            expected = np.array([o.expected for o in first_runs(case, find("stripe", spec).decide, peers, skies)])
            about = (case.machine.name, case.program.name, case.processes, noise, history, spec, seed)
            rows.append((*about, *judge_runs(expected, best, default)))
    return np.array(rows, dtype=NOISE)


def judge_runs(expected: Floats, best: float, default: float) -> tuple[int, float, float, float]:
    """Return the columns `reached`, `settled`, `worst` and `total` of runs with these noise-free throughputs.

    >>> judge_runs(np.array([50.0, 96.0, 48.0, 100.0]), 100.0, 50.0)
    (2, 0.5, 0.5, 0.735)
    """
    near = expected >= NEAR * best
    known = np.maximum.accumulate(np.concatenate([[default], expected[:-1]]))
    return (
        int(np.argmax(near)) + 1 if near.any() else 0,
        float(near[expected.size // 2 :].mean()),
        float((expected / known).min()),
        float(expected.mean() / best),
    )


def without_others(case: Case) -> Case:
    """Remove other load, which would be another kind of noise."""
    return case._replace(machine=replace(case.machine, background=0.0), others=())


def assumed_piece(panels: Iterable[tuple[int, Case]], number: str, factor: float) -> Rows:
    """Return an ASSUMED row for every figure and rival, with `number` of its machine times `factor`.

    A row holds the largest gain of the best layout over a policy that does not learn, without noise.
    """
    most: dict[tuple[int, str, str], float] = {}
    for figure, assumed in panels:
        other = replace(assumed.machine, **{number: factor * getattr(assumed.machine, number)})
        case = without_others(assumed._replace(machine=other))
        best = best_layout(case)[1]
        ruled = min(case.processes, case.machine.targets) if case.program.shared else 1
        for rival, count in ((study.DEFAULT, 1), (TAPP, ruled)):
            key = (figure, case.program.name, rival)
            most[key] = max(most.get(key, 0.0), best / case.throughput(Layout(count=count, start=0)) - 1)
    return np.array([(number, factor, *key, 100 * gain) for key, gain in most.items()], dtype=ASSUMED)


_APPLICATIONS = (machine.VPIC, machine.GCRM, machine.VORPAL)
PROCESSES = (1, 2, 4, 8)
NODES = (1, 4, 16, 64)
FIO_PROCESSES = 4
FIO_TARGETS = (1, 2, 4)
LEVELS = (0.05, 0.2, 0.4)


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """One panel of a figure; `fio` is the number of targets that FIO writes to meanwhile."""

    figure: int
    case: Case
    fio: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class StripingStudy(Study[StripingResults]):
    """The runs of a study: `panels` for the paper's figures, `cases` for every level of noise, both by key.

    The study also halves and doubles each number of the machines in `assumed`.
    """

    panels: Mapping[str, Panel]
    cases: Mapping[str, Case]
    assumed: Sequence[str]
    policies: Sequence[str]
    repetitions: int
    seeds: int  # of each case under each level of noise
    seed: int
    runs: int = 10
    noise_runs: int = 20
    name = "striping"
    noun = "case"

    def settings(self) -> dict[str, object]:
        return {
            "version of Forebay": sources_digest(),
            "sources": policy_digests((("stripe", self.policies),)),
            **self.fields("policies", "repetitions", "runs", "seeds", "noise_runs", "seed"),
        }

    def keys(self) -> list[str]:
        noise = (f"noise-{level:g}/{key}" for key in self.cases for level in LEVELS)
        return [*self.panels, *noise, *(f"assumed/{name}/{factor:g}" for name in self.assumed for factor in FACTORS)]

    def run_piece(self, key: str) -> Rows:
        """Run one panel under every policy, one case at one level of noise, or all panels with a changed number."""
        if key in self.panels:
            return self._run_panel(key, self.panels[key])
        kind, _, which = key.partition("/")
        if kind == "assumed":
            number, _, factor = which.partition("/")
            panels = ((panel.figure, panel.case) for panel in self.panels.values() if not panel.fio)
            return assumed_piece(panels, number, float(factor))
        rngs = [self._rng(key, seed) for seed in range(self.seeds)]
        noise = float(kind.removeprefix("noise-"))
        return noise_piece(self.cases[which], noise, self.policies, runs=self.noise_runs, rngs=rngs)

    def _run_panel(self, key: str, panel: Panel) -> Rows:
        """Return a RUN for every run of every repetition. All policies meet the same random numbers."""
        case, used, rows = panel.case, panel.case.machine, []
        about = (panel.figure, used.name, case.program.name, case.processes, used.nodes(case.processes), panel.fio)
        for repetition in range(self.repetitions):
            rng = self._rng(key, repetition)
            peers = peers_of(used, case.processes, used.noise, rng)
            skies = draw_weather(case, self.runs, used.noise, rng)
            for spec in policies_for(panel, self.policies):
                for number, run in enumerate(first_runs(case, find("stripe", spec).decide, peers, skies), start=1):
                    layout = run.striping.layout
                    striped = (layout.count, layout.size, run.first, run.striping.phase)
                    rows.append((*about, spec, repetition, number, *striped, run.expected, run.measured))
        return np.array(rows, dtype=RUN)

    def _rng(self, key: str, repetition: int) -> Generator:
        return np.random.default_rng([self.seed, zlib.crc32(key.encode()), repetition])

    def collect(self, pieces: Store) -> StripingResults:
        runs, noise, assumed = concatenate(pieces, self.keys(), RUN, NOISE, ASSUMED)
        return StripingResults(settings=self.settings(), runs=runs, noise=noise, assumed=assumed)


def paper_panels() -> dict[str, Panel]:
    """Return the panels of Figures 7 to 14. Figure 14 adds half the processes, where the rule leaves targets free."""
    panels: dict[str, Panel] = {}
    for figure, program in enumerate((machine.FIO_SEQUENTIAL, machine.FIO_RANDOM, *_APPLICATIONS), start=7):
        for processes in PROCESSES:
            case = Case(machine=LOCAL, program=program, processes=processes)
            panels[f"figure-{figure:02}/processes-{processes}"] = Panel(figure=figure, case=case)
    for figure, program in enumerate((machine.VPIC_INDEPENDENT, machine.VPIC_COLLECTIVE), start=12):
        for nodes in NODES:
            case = Case(machine=CORI, program=program, processes=nodes * CORI.processes_per_node)
            panels[f"figure-{figure:02}/nodes-{nodes}"] = Panel(figure=figure, case=case)
    for processes, program, fio in product((BESIDE, BESIDE // 2), _APPLICATIONS, FIO_TARGETS):
        others = tuple(FIO_PROCESSES if t < fio else 0 for t in range(LOCAL.targets))
        case = Case(machine=LOCAL, program=program, processes=processes, others=others)
        key = f"figure-14/{slug(program.name)}/processes-{processes}/fio-{fio}"
        panels[key] = Panel(figure=14, case=case, fio=fio)
    return panels


def noise_cases() -> dict[str, Case]:
    """Return every application with few, some and many processes, alone on the machine."""
    return {
        f"{slug(s.case.program.name)}-{s.case.processes}": s.case
        for s in paper_panels().values()
        if not s.fio and s.case.processes not in (2, 32, 512)
    }


def slug(name: str) -> str:
    return name.lower().replace(" ", "-")


def policies_for(panel: Panel, policies: Sequence[str]) -> list[str]:
    """Return the policies of a panel. Beside FIO, `dca-io` also runs without Procedure 3; `tapp-io` does not run."""
    if not panel.fio:
        return list(policies)
    return [p for spec in policies for p in ((APART, DCA) if spec == DCA else (spec,)) if p != TAPP]
