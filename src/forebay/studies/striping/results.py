"""The results, and the claims of the paper."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import numpy as np

from forebay.history.toml import load_toml
from forebay.model.arrays import Floats
from forebay.show.rows import Rows, distinct_values, read_columns, select

_COLUMNS = read_columns(__file__)
RUN, NOISE, ASSUMED = (np.dtype(_COLUMNS[kind]) for kind in ("run", "noise", "assumed"))
DEFAULT, TAPP, DCA, FOREBAY = "default", "tapp-io", "dca-io", "forebay"
OTHERS, NOBODY = "others", "nobody"
APART = "dca-io:interference=false"
BESIDE = 4  # processes of each application beside FIO, in the paper


PAPER = load_toml(Path(__file__).with_name("paper.toml"))


@dataclass(frozen=True)
class StripingResults:
    """All runs (RUN), the policies under noise (NOISE), and the gains with changed numbers of the model (ASSUMED)."""

    settings: Mapping[str, object]
    runs: Rows
    noise: Rows
    assumed: Rows

    def figures(self) -> list[int]:
        return sorted(set(self.runs["figure"].tolist()))

    @property
    def noise_runs(self) -> int:
        """The number of runs of each case under noise."""
        return int(str(self.settings.get("noise runs", 20)))

    def of(self, **wanted: object) -> Rows:
        """Return the runs whose columns have these values."""
        return select(self.runs, **wanted)

    def panels(self, figure: int) -> list[tuple[str, int, int]]:
        """Return application, processes and targets of FIO of each panel of the figure, in order."""
        return distinct_values(self.of(figure=figure), "application", "processes", "fio")


def later_runs(runs: Rows) -> Rows:
    """Return the second half of the runs, when policies have finished learning."""
    later: Rows = runs[runs["run"] > runs["run"].max(initial=0) // 2]
    return later


def first_near(rows: Rows, last: int) -> Floats:
    """Return the first run within 5 % of the best layout, or `last` + 1 if none is."""
    first: Floats = np.where(rows["reached"] > 0, rows["reached"], last + 1)
    return first


@dataclass(frozen=True, slots=True, kw_only=True)
class Gain:
    """The largest gain of `policy` over `against` in percent, and the panel that has it."""

    figure: int
    application: str
    policy: str
    against: str
    paper: float
    percent: float
    processes: int
    fio: int


def gains(results: StripingResults) -> Iterator[Gain]:
    """Yield our gain beside each claim of the paper, for `dca-io` and for `forebay` in its place."""
    for claim, policy in product(PAPER["claims"], (DCA, FOREBAY)):
        paper, every = float(claim["percent"]) if policy == DCA else float("nan"), []
        for application, processes, fio in results.panels(claim["figure"]):
            if application == claim["application"] and not (fio and processes != BESIDE):
                here = results.of(figure=claim["figure"], application=application, processes=processes, fio=fio)
                ours, other = (select(later_runs(here), policy=p)["throughput"] for p in (policy, claim["against"]))
                if ours.size and other.size:
                    where = {"percent": 100.0 * (float(ours.mean()) / float(other.mean()) - 1.0), "fio": fio}
                    every.append(Gain(**claim | where, policy=policy, paper=paper, processes=processes))
        if every:
            yield max(every, key=lambda gain: gain.percent)
