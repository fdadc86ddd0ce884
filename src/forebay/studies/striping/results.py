"""The results, and what the paper says they should be."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from forebay.show.rows import Floats, Rows, distinct, read_columns, select

_COLUMNS = read_columns(__file__)
RUN, NOISE, ASSUMED = (np.dtype(_COLUMNS[kind]) for kind in ("run", "noise", "assumed"))
DEFAULT, TAPP, DCA, FOREBAY = "default", "tapp-io", "dca-io", "forebay"
OTHERS, NOBODY = "others", "nobody"
APART = "dca-io:interference=false"
BESIDE = 4  # processes of each application beside FIO, in the paper


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """By how many percent, at most, `dca-io` is faster than `against` in a figure of the paper."""

    figure: int
    application: str
    against: str
    percent: float


CLAIMS = (
    Claim(figure=7, application="FIO sequential", against=DEFAULT, percent=75),
    Claim(figure=7, application="FIO sequential", against=TAPP, percent=75),
    Claim(figure=8, application="FIO random", against=DEFAULT, percent=56),
    Claim(figure=8, application="FIO random", against=TAPP, percent=56),
    Claim(figure=9, application="VPIC-IO", against=DEFAULT, percent=70),
    Claim(figure=9, application="VPIC-IO", against=TAPP, percent=45),
    Claim(figure=10, application="GCRM-IO", against=DEFAULT, percent=58),
    Claim(figure=10, application="GCRM-IO", against=TAPP, percent=48),
    Claim(figure=11, application="VORPAL-IO", against=DEFAULT, percent=52),
    Claim(figure=11, application="VORPAL-IO", against=TAPP, percent=51),
    Claim(figure=12, application="VPIC-IO independent", against=TAPP, percent=37),
    Claim(figure=13, application="VPIC-IO collective", against=TAPP, percent=50),
    Claim(figure=14, application="VPIC-IO", against=DEFAULT, percent=263),
    Claim(figure=14, application="GCRM-IO", against=DEFAULT, percent=241),
    Claim(figure=14, application="GCRM-IO", against=APART, percent=31),
    Claim(figure=14, application="VORPAL-IO", against=DEFAULT, percent=252),
    Claim(figure=14, application="VORPAL-IO", against=APART, percent=53),
)


@dataclass(frozen=True)
class StripingResults:
    """All runs (RUN), how the policies do under noise (NOISE), and what other numbers would do (ASSUMED)."""

    settings: Mapping[str, object]
    runs: Rows
    noise: Rows
    assumed: Rows

    def figures(self) -> list[int]:
        return sorted(set(self.runs["figure"].tolist()))

    @property
    def noise_runs(self) -> int:
        """How many runs there are under noise."""
        return int(str(self.settings.get("noise runs", 20)))

    def of(self, **wanted: object) -> Rows:
        """The runs whose columns have these values."""
        return select(self.runs, **wanted)

    def panels(self, figure: int) -> list[tuple[str, int, int]]:
        """Application, processes and targets of FIO of everything that the figure compares, in order."""
        return distinct(self.of(figure=figure), "application", "processes", "fio")


def later_runs(runs: Rows) -> Rows:
    """The second half of the runs, when the policies have learned what they learn."""
    later: Rows = runs[runs["run"] > runs["run"].max(initial=0) // 2]
    return later


def first_near(rows: Rows, last: int) -> Floats:
    """The first run within 5 % of the best layout; one more than there are where none is."""
    first: Floats = np.where(rows["reached"] > 0, rows["reached"], last + 1)
    return first


@dataclass(frozen=True, slots=True, kw_only=True)
class Gain:
    """By how many percent `policy` is faster than `against` where that is most, and where that is.

    `paper` is nan for a policy that the paper doesn't have.
    """

    figure: int
    application: str
    policy: str
    against: str
    paper: float
    percent: float
    processes: int
    fio: int


def gains(results: StripingResults) -> Iterator[Gain]:
    """Every claim of the paper beside what we find, for `dca-io` and for `forebay` in its place."""
    for claim in CLAIMS:
        for policy in (DCA, FOREBAY):
            every = [gain for panel in results.panels(claim.figure) if (gain := _gain(results, claim, policy, panel))]
            if every:
                yield max(every, key=lambda gain: gain.percent)


def _gain(results: StripingResults, claim: Claim, policy: str, panel: tuple[str, int, int]) -> Gain | None:
    application, processes, fio = panel
    if application != claim.application or (fio and processes != BESIDE):
        return None
    here = later_runs(results.of(figure=claim.figure, application=application, processes=processes, fio=fio))
    ours, other = (select(here, policy=name)["throughput"] for name in (policy, claim.against))
    if not ours.size or not other.size:
        return None
    return Gain(
        figure=claim.figure,
        application=application,
        policy=policy,
        against=claim.against,
        paper=float(claim.percent) if policy == DCA else float("nan"),
        percent=100.0 * (float(ours.mean()) / float(other.mean()) - 1.0),
        processes=processes,
        fio=fio,
    )
