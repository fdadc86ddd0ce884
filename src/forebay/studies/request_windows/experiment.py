"""The evaluation of Bez et al. 2019, section 6: windows in 144 situations, and who learns the best of them.

The servers' model is fitted to the paper's figures: that windows have the effects they have in it is no validation
of the paper. What comes of it then, for tuners and detection, is found here.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from forebay.decide.registry import find, policies
from forebay.kernel_cache import sources_digest
from forebay.model.errors import BadInput
from forebay.profile.pattern_detector import Detector, shipped_detector
from forebay.profile.request_watch import TALLY
from forebay.simulate.requests.layer import Forwarding
from forebay.simulate.requests.learning import LEARNED, Samples, learn_all, learn_together
from forebay.simulate.requests.run import Outcome, simulate_requests
from forebay.simulate.requests.unseen import unseen_experiments
from forebay.simulate.requests.workload import PAPER_TOTAL, PAPER_WINDOWS, Experiment, paper_experiments
from forebay.studies.pieces import Store, do_all
from forebay.studies.request_windows.demand import learn_under_demand
from forebay.studies.request_windows.detection import detect_seen, detect_unseen
from forebay.studies.request_windows.results import (
    DEMANDED,
    DETECTED,
    FIFO,
    INSTANCES,
    PERIOD,
    TWINS,
    RequestWindowsResults,
    samples_of,
)
from forebay.studies.study import policy_digests
from forebay.work import Workers

EPSILONS = (0.05, 0.1, 0.15, 0.2, 0.3)
_UNSEEN_EACH = 12  # experiments in one piece


def default_tuners() -> tuple[str, ...]:
    """epsilon-greedy with several epsilons, and all others as they are."""
    others = (name for name in policies("tune") if name not in ("epsilon-greedy", "fixed"))
    return (*(f"epsilon-greedy:epsilon={e:g}" for e in EPSILONS), *sorted(others))


def other_schedulers() -> tuple[str, ...]:
    """All but fifo and twins, which are run anyway."""
    return tuple(sorted(name for name in policies("order") if name not in (FIFO, TWINS)))


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestWindowsStudy:
    """What to run: `repetitions` of each experiment under fifo and each window, one under each other scheduler.

    `period` is how long I/O nodes observe (seconds), `steps` how many decisions each tuner has, `replays` how
    often learning is repeated; `together` are the steps of the three instances of section 6.1. Under changing
    demand, learning is repeated `demand_replays` times on periods of `demand_period`.
    """

    experiments: Sequence[Experiment] = field(default_factory=paper_experiments)
    unseen: Sequence[Experiment] = field(default_factory=unseen_experiments)
    windows: Sequence[int] = PAPER_WINDOWS
    schedulers: Sequence[str] = field(default_factory=other_schedulers)
    tuners: Sequence[str] = field(default_factory=default_tuners)
    repetitions: int = 2
    period: float = 0.25
    steps: int = 200
    together: int = 600
    replays: int = 100
    demand_replays: int = 30
    demand_period: float = 1.0
    seed: int = 0

    def about(self) -> dict[str, object]:
        """What the pieces depend on."""
        return {
            "version of Forebay": sources_digest(),
            "sources": policy_digests((("order", self.schedulers), ("tune", self.tuners))),
            "experiments": [f"{e.name}-{e.workload.total}" for e in self.experiments],
            "unseen": [f"{e.name}-{e.workload.total}" for e in self.unseen],
            "windows": list(self.windows),
            "schedulers": list(self.schedulers),
            "tuners": list(self.tuners),
            "repetitions": self.repetitions,
            "period": self.period,
            "steps": self.steps,
            "together": self.together,
            "replays": self.replays,
            "demand replays": self.demand_replays,
            "demand period": self.demand_period,
            "seed": self.seed,
        }

    def instances(self) -> dict[str, int]:
        """By letter, where in the experiments the paper's instances are, those that are there."""
        names = [e.name for e in self.experiments]
        return {letter: names.index(e.name) for letter, e in INSTANCES.items() if e.name in names}

    def window_keys(self) -> list[str]:
        return [f"windows/{e.name}" for e in self.experiments]

    def later_keys(self) -> list[str]:
        """Of pieces that need the periods that all others made."""
        learning = [f"learning/{number}" for number in range(len(self.tuners))]
        similar = [f"similar/{number}" for number in range(len(self.tuners)) if _hears(self.tuners[number])]
        together = [f"together/{number}" for number in range(len(self.tuners))] if self.instances() else []
        demand = [f"demand/{letter}" for letter in self.instances()]
        unseen = [f"unseen/{first}" for first in range(0, len(self.unseen), _UNSEEN_EACH)]
        return [*similar, *learning, *together, *demand, *unseen, "seen/all"]

    def count(self) -> int:
        """Of all pieces."""
        return len(self.window_keys()) + len(self.later_keys())


def paper_study(*, repetitions: int = 2, seed: int = 0, total: int = PAPER_TOTAL) -> RequestWindowsStudy:
    """All of it, on `total` bytes an experiment."""
    return RequestWindowsStudy(experiments=paper_experiments(total), repetitions=repetitions, seed=seed)


def run(
    study: RequestWindowsStudy,
    folder: Path,
    *,
    workers: Workers,
    progress: Callable[[int], None],
    detector: Detector | None = None,
) -> RequestWindowsResults:
    """Every piece, from `folder` what is there already, and all of them as tables."""
    check(study)
    about, detector = study.about(), detector or shipped_detector()
    store = Store(folder, about)
    store.open()
    first, later = study.window_keys(), study.later_keys()
    do_all(first, partial(window_piece, study), store, workers=workers, progress=progress)
    periods = np.concatenate([store.get(key) for key in first])
    samples = Samples.of(samples_of(periods, len(study.experiments), study.windows))
    if "seen/all" not in store:
        store.put("seen/all", detect_seen(periods, study.experiments, detector))
    work = partial(later_piece, study, samples, detector)
    do_all(later, work, store, workers=workers, progress=lambda done: progress(len(first) + done))
    tables: dict[Any, list[Any]] = {kind: [np.zeros(0, dtype=kind)] for kind in (LEARNED, DETECTED, DEMANDED)}
    for key in later:
        piece = store.get(key)
        tables[piece.dtype].append(piece)
    learned, detected, demanded = (np.concatenate(own) for own in tables.values())
    return RequestWindowsResults(
        settings=about,
        experiments=study.experiments,
        unseen=study.unseen,
        windows=study.windows,
        periods=periods,
        learned=learned,
        detected=detected,
        demanded=demanded,
    )


def check(study: RequestWindowsStudy) -> None:
    """Everything that could be wrong with the study, before the first piece."""
    for name in ("repetitions", "steps", "replays", "demand_replays"):
        if getattr(study, name) < 1:
            raise BadInput(name.replace("_", " "), f"must be 1 or more, not {getattr(study, name)}")
    if not study.experiments or not study.windows:
        raise BadInput("request windows", "needs an experiment and a window at least")
    for spec in study.schedulers:
        find("order", spec)
    for spec in study.tuners:
        find("tune", spec)


def window_piece(study: RequestWindowsStudy, key: str) -> Any:
    """One experiment under fifo and every window, and once under every other scheduler: PERIOD rows."""
    names = [e.name for e in study.experiments]
    number = names.index(key.removeprefix("windows/"))
    nodes, work = study.experiments[number].nodes, study.experiments[number].workload
    plain, rows = [(FIFO, 0), *((TWINS, window) for window in study.windows)], []
    for repetition in range(study.repetitions):
        others = [(spec, 0) for spec in study.schedulers] if repetition == 0 else []
        # The same chance for all, so that they differ in what they do with it.
        seed = zlib.crc32(f"{study.seed} {key} {repetition}".encode())
        for scheduler, window in (*plain, *others):
            layer = Forwarding(nodes=nodes, scheduler=scheduler, window=window or None)
            found = simulate_requests(layer, work, seed=seed, period=study.period, periods=_most(study))
            rows.append(_period_rows(number, scheduler, window, repetition, found))
    return np.concatenate(rows)


def later_piece(study: RequestWindowsStudy, samples: Samples, detector: Detector, key: str) -> Any:
    """What one tuner learns, what is learned in one instance under changing demand, or what is detected."""
    part, _, which = key.partition("/")
    if part == "demand":
        number = study.instances()[which]
        return learn_under_demand(
            study.experiments[number],
            number,
            [spec for spec in study.tuners if spec in ("epsilon-greedy:epsilon=0.1", "forebay")] or study.tuners[:1],
            study.windows,
            period=study.demand_period,
            steps=study.steps,
            repetitions=study.demand_replays,
            seed=study.seed,
        )
    if part == "unseen":
        first = int(which)
        return detect_unseen(study.unseen[first : first + _UNSEEN_EACH], first, detector, study.seed)
    spec = study.tuners[int(which)]
    if part == "together":
        own = list(study.instances().values())
        return learn_together(samples, own, spec, steps=study.together, repetitions=study.replays, seed=study.seed)
    return learn_all(
        samples,
        study.experiments,
        spec,
        similar=part == "similar",
        steps=study.steps,
        repetitions=study.replays,
        seed=study.seed,
    )


def _hears(spec: str) -> bool:
    """Whether the tuner makes use of what similar situations told."""
    return spec.partition(":")[0] == "forebay"


def _most(study: RequestWindowsStudy) -> int:
    """Periods of a run that are kept: more than enough for the slowest."""
    return max(round(600 / study.period), 1)


def _period_rows(experiment: int, scheduler: str, window: int, repetition: int, found: Outcome) -> Any:
    periods, nodes, _ = found.periods.shape
    rows = np.zeros((periods, nodes), dtype=PERIOD)
    rows["experiment"], rows["repetition"] = experiment, repetition
    rows["scheduler"], rows["window"] = scheduler, window
    rows["period"], rows["node"] = np.arange(periods)[:, np.newaxis], np.arange(nodes)
    rows["run"], rows["seconds"] = found.bandwidth, found.period
    rows["seconds"][-1] = max(found.last, 1e-9)
    for column, name in enumerate(TALLY):
        rows[name] = found.periods[:, :, column]
    return rows.ravel()
