"""The evaluation of Bez et al. 2019, section 6: windows in 144 situations, and tuners that learn the best of them."""

import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from forebay.decide.registry import policies
from forebay.kernel_cache import sources_digest
from forebay.model.errors import BadInput
from forebay.model.process_mapping import BLOCK
from forebay.profile.pattern_detector import Detector, shipped_detector
from forebay.profile.request_watch import TALLY
from forebay.show.rows import Rows
from forebay.simulate.requests.learning import LEARNED, Samples, learn_all, learn_together
from forebay.simulate.requests.run import build_layer, simulate_requests
from forebay.simulate.requests.workload import PAPER_TOTAL, PAPER_WINDOWS, Experiment, paper_experiments
from forebay.studies.finished_pieces import Store, concatenate
from forebay.studies.request_windows.demand import learn_under_demand
from forebay.studies.request_windows.detection import detect_seen, detect_unseen, unseen_experiments
from forebay.studies.request_windows.results import (
    DEMANDED,
    DETECTED,
    FIFO,
    PERIOD,
    TWINS,
    RequestWindowsResults,
    find_instances,
    samples_of,
)
from forebay.studies.study import Stage, Study, policy_digests

EPSILONS = (0.05, 0.1, 0.15, 0.2, 0.3)
_UNSEEN_EACH = 12  # experiments in one piece
_SEEN = "seen/all"


def default_tuners() -> tuple[str, ...]:
    """Return epsilon-greedy with several epsilons, and all other tuners with their defaults."""
    others = (name for name in policies("tune") if name not in ("epsilon-greedy", "fixed"))
    return (*(f"epsilon-greedy:epsilon={e:g}" for e in EPSILONS), *sorted(others))


def other_schedulers() -> tuple[str, ...]:
    """Return all schedulers but fifo and twins, which always run."""
    return tuple(sorted(name for name in policies("order") if name not in (FIFO, TWINS)))


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestWindowsStudy(Study[RequestWindowsResults]):
    """The runs of a study: `repetitions` of each experiment under fifo and each window, one under each other scheduler.

    I/O nodes observe for `period` seconds. Each tuner makes `steps` decisions, in each of `replays` repetitions.
    The three instances of section 6.1 take `together` steps in turns, and `horizon` steps alone. Under changing demand,
    learning is repeated `demand_replays` times on periods of `demand_period`.
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
    horizon: int = 2000
    replays: int = 100
    demand_replays: int = 30
    demand_period: float = 1.0
    seed: int = 0
    name = "request-windows"

    def settings(self) -> dict[str, object]:
        return {
            "version of Forebay": sources_digest(),
            "sources": policy_digests((("order", self.schedulers), ("tune", self.tuners))),
            "experiments": [f"{e.name}-{e.workload.total}" for e in self.experiments],
            "unseen": [f"{e.name}-{e.workload.total}" for e in self.unseen],
            "mapping": sorted({e.mapping for e in (*self.experiments, *self.unseen)}),
            **self.fields("windows", "schedulers", "tuners", "repetitions", "period", "steps", "together", "replays"),
            **self.fields("horizon"),
            **self.fields("demand_replays", "demand_period", "seed"),
        }

    def check(self) -> None:
        for name in ("repetitions", "steps", "replays", "demand_replays"):
            if getattr(self, name) < 1:
                raise BadInput(name.replace("_", " "), f"must be 1 or more, not {getattr(self, name)}")
        if not self.experiments or not self.windows:
            raise BadInput("request windows", "needs at least one experiment and one window")

    def keys(self) -> list[str]:
        return [*self.window_keys(), *self.later_keys()]

    def window_keys(self) -> list[str]:
        return [f"windows/{e.name}" for e in self.experiments]

    def later_keys(self) -> list[str]:
        """Return the keys of the pieces that need the periods of all experiments."""
        tuners = range(len(self.tuners))
        return [
            # Only forebay uses knowledge of similar situations.
            *(f"similar/{number}" for number in tuners if self.tuners[number].partition(":")[0] == "forebay"),
            *(f"learning/{number}" for number in tuners),
            *(f"together/{number}" for number in tuners if self.instances()),
            *self.horizon_keys(),
            *(f"demand/{letter}" for letter in self.instances()),
            *(f"unseen/{first}" for first in range(0, len(self.unseen), _UNSEEN_EACH)),
            _SEEN,
        ]

    def horizon_keys(self) -> list[str]:
        """Return the keys of the pieces in which a tuner learns in the paper's instances for longer."""
        return [f"horizon/{number}" for number in range(len(self.tuners)) if self.instances()]

    def instances(self) -> dict[str, int]:
        """Return, by letter, the places of the paper's instances among the experiments."""
        return find_instances(self.experiments)

    def stages(self, pieces: Store) -> Iterator[Stage]:
        """Yield the experiments first, then learning and detection, which use their periods."""
        yield Stage(self.window_keys(), self.run_piece)
        detector = shipped_detector()
        periods = np.concatenate([pieces.get(key) for key in self.window_keys()])
        samples = Samples.of(samples_of(periods, len(self.experiments), self.windows))
        if _SEEN not in pieces:
            pieces.put(_SEEN, detect_seen(periods, self.experiments, detector))
        yield Stage(self.later_keys(), partial(self.run_later_piece, samples, detector))

    def run_piece(self, key: str) -> Rows:
        """Run one experiment under fifo and every window, and once under every other scheduler: PERIOD rows."""
        number = [e.name for e in self.experiments].index(key.removeprefix("windows/"))
        experiment = self.experiments[number]
        plain, pieces = [(FIFO, 0), *((TWINS, window) for window in self.windows)], []
        most = max(round(600 / self.period), 1)  # periods: more than enough for the slowest
        for repetition in range(self.repetitions):
            others = [(spec, 0) for spec in self.schedulers] if repetition == 0 else []
            # All schedulers get the same random numbers, so that only their decisions differ.
            seed = zlib.crc32(f"{self.seed} {key} {repetition}".encode())
            for scheduler, window in (*plain, *others):
                layer = build_layer(experiment, scheduler, window)
                outcome = simulate_requests(layer, experiment.workload, seed=seed, period=self.period, periods=most)
                rows = np.zeros(outcome.periods.shape[:2], dtype=PERIOD)
                rows["experiment"], rows["repetition"] = number, repetition
                rows["scheduler"], rows["window"] = scheduler, window
                rows["period"], rows["node"] = np.indices(rows.shape)
                rows["run"], rows["seconds"] = outcome.bandwidth, outcome.period
                rows["seconds"][-1] = max(outcome.last, 1e-9)
                for column, name in enumerate(TALLY):
                    rows[name] = outcome.periods[:, :, column]
                pieces.append(rows.ravel())
        return np.concatenate(pieces)

    def run_later_piece(self, samples: Samples, detector: Detector, key: str) -> Rows:
        """Run one tuner, all shown tuners in one instance under changing demand, or the detection of patterns."""
        part, _, which = key.partition("/")
        if part == "demand":
            number = self.instances()[which]
            shown = ("epsilon-greedy:epsilon=0.1", "forebay")
            return learn_under_demand(
                self.experiments[number],
                number,
                [spec for spec in self.tuners if spec in shown] or self.tuners[:1],
                self.windows,
                period=self.demand_period,
                steps=self.steps,
                repetitions=self.demand_replays,
                seed=self.seed,
            )
        if part == "unseen":
            first = int(which)
            return detect_unseen(self.unseen[first : first + _UNSEEN_EACH], first, detector, self.seed)
        spec, repeated = self.tuners[int(which)], {"repetitions": self.replays, "seed": self.seed}
        if part == "together":
            return learn_together(samples, list(self.instances().values()), spec, steps=self.together, **repeated)
        if part == "horizon":
            places = np.array(list(self.instances().values()))
            chosen = [self.experiments[at] for at in places]
            rows = learn_all(samples.select(places), chosen, spec, similar=False, steps=self.horizon, **repeated)
            rows["experiment"] = places[rows["experiment"]]
            return rows
        return learn_all(samples, self.experiments, spec, similar=part == "similar", steps=self.steps, **repeated)

    def collect(self, pieces: Store) -> RequestWindowsResults:
        [periods] = concatenate(pieces, self.window_keys(), PERIOD)
        longer = self.horizon_keys()
        others = [key for key in self.later_keys() if key not in longer]
        learned, detected, demanded = concatenate(pieces, others, LEARNED, DETECTED, DEMANDED)
        [learned_longer] = concatenate(pieces, longer, LEARNED)
        return RequestWindowsResults(
            settings=self.settings(),
            experiments=self.experiments,
            unseen=self.unseen,
            windows=self.windows,
            periods=periods,
            learned=learned,
            learned_longer=learned_longer,
            detected=detected,
            demanded=demanded,
        )


def paper_study(
    *, repetitions: int = 2, seed: int = 0, total: int = PAPER_TOTAL, mapping: str = BLOCK
) -> RequestWindowsStudy:
    """Return the whole study of the paper, with `total` bytes in each experiment."""
    return RequestWindowsStudy(
        experiments=[e._replace(mapping=mapping) for e in paper_experiments(total)],
        unseen=[e._replace(mapping=mapping) for e in unseen_experiments()],
        repetitions=repetitions,
        seed=seed,
    )
