"""The results: a row for every disk of every run."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import permutations, product

import numpy as np

from forebay.show.phrases import MODES, size
from forebay.show.rows import Floats, Record, Rows, distinct, finite, read_columns, select
from forebay.simulate.storage.rules import OPTIMAL as OPTIMAL
from forebay.simulate.storage.rules import SPLIT

_COLUMNS = read_columns(__file__)
_RUN = [name for name, _ in _COLUMNS["run"]]
"""The columns of a run, the same in the rows of all its disks."""
ROW = np.dtype([*_COLUMNS["run"], *_COLUMNS["disk"]])
KEY = ("mode", "platform", "policy", "split", "tries", "interval")
LAYOUTS = ("nNnD", "nN1D", "1NnD", "1N1D")


def layout_of(platform: str) -> str:
    """The paper's name of a layout, if the platform is one of the paper's.

    >>> layout_of("32TB/nN1D")
    'nN1D'
    """
    _, _, layout = platform.rpartition("/")
    return layout if layout in LAYOUTS else ""


@dataclass(frozen=True)
class StorageResults:
    """All runs of a study; `rows` is a structured array of type ROW."""

    origin: str  # whose requests, in words
    requests: int
    settings: Mapping[str, object]
    rows: Rows

    @cached_property
    def runs(self) -> Rows:
        """The first row of every run, without its disk; `optimal` among them."""
        runs = self.rows[_RUN]
        _, first = np.unique(self.rows[list(KEY)], return_index=True)
        return runs[np.sort(first)]

    def policies(self) -> list[str]:
        """In the order in which they were asked for, without `optimal`."""
        return [policy for policy in distinct(self.rows, "policy") if policy != OPTIMAL]

    def modes(self) -> list[str]:
        return distinct(self.rows, "mode")

    def disks(self, **wanted: object) -> Rows:
        """Rows of real disks whose columns have these values."""
        return select(self.rows[self.rows["disk"] >= 0], **wanted)

    def select(self, **wanted: object) -> Rows:
        """Runs whose columns have these values."""
        return select(self.runs, **wanted)


def cohens_d(sample: Floats, other: Floats) -> float:
    """By how many standard deviations the mean of `sample` lies below that of `other` (Cohen 1988).

    >>> cohens_d(np.array([1.0, 2.0, 3.0]), np.array([3.0, 4.0, 5.0]))
    2.0
    """
    if sample.size < 2 or other.size < 2:
        return float("nan")
    free = sample.size - 1, other.size - 1
    pooled = (free[0] * sample.var(ddof=1) + free[1] * other.var(ddof=1)) / sum(free)
    difference = float(other.mean() - sample.mean())
    if pooled == 0:
        return 0.0 if difference == 0 else float(np.copysign(np.inf, difference))
    return difference / float(np.sqrt(pooled))


STORALLOC, CORRECT = "storalloc", "correct"
BASELINE = "1N1D"  # one disk of everything: what the paper leaves out of all comparisons of disks
BEST = "best-bandwidth"
FOREBAY = "forebay"
PAPER_POLICIES = ("random", "round-robin", "worst-fit", BEST)
METRICS = ("mean_allocations", "max_allocations")
ENOUGH = 0.99  # of the bytes: a capacity that serves them counts as large enough
_FOCUS = 32 * 10**12


@dataclass(frozen=True)
class StorageView:
    """A study's results as the figures and sentences of Monniot et al. 2023 look at them."""

    results: StorageResults

    @cached_property
    def modes(self) -> list[str]:
        """The original's rules before the correct ones."""
        modes = self.results.modes()
        return [m for m in MODES if m in modes] + [m for m in modes if m not in MODES]

    @property
    def mode(self) -> str:
        """The one that statements are about unless they say otherwise."""
        return CORRECT if CORRECT in self.modes or not self.modes else self.modes[0]

    @cached_property
    def _mixed(self) -> list[str]:
        disks = self.results.disks()
        platforms, kinds = np.unique(np.unique(disks[["platform", "kind"]])["platform"], return_counts=True)
        several = set(platforms[kinds > 1].tolist())
        return [p for p in distinct(disks, "platform") if p in several]

    @property
    def mixed(self) -> str | None:
        """The platform with disks of several kinds."""
        return self._mixed[0] if self._mixed else None

    @cached_property
    def runs(self) -> Rows:
        """Runs of policies on platforms whose disks are alike; on others only if there are no such."""
        return self._alike(self.results.runs[self.results.runs["policy"] != OPTIMAL])

    @cached_property
    def bounds(self) -> Rows:
        """What no policy can exceed on those platforms."""
        return self._alike(self.results.select(policy=OPTIMAL))

    def _alike(self, table: Rows) -> Rows:
        if np.isin(self.results.rows["platform"], self._mixed).all():
            return table
        return table[~np.isin(table["platform"], self._mixed)]

    @cached_property
    def splits(self) -> list[int]:
        return sorted(distinct(self.runs, "split"))

    @cached_property
    def split(self) -> int:
        """The threshold for comparing policies: the paper's, or the largest there is."""
        return SPLIT if SPLIT in self.splits else max(self.splits, default=0)

    @cached_property
    def capacities(self) -> list[int]:
        return sorted(distinct(self.runs, "capacity"))

    @cached_property
    def capacity(self) -> int:
        """The capacity for comparing disks: the paper's, else the least that is enough, else the largest."""
        here = self.compared()["capacity"].tolist()
        enough = self.enough()
        return _FOCUS if _FOCUS in here else enough if enough is not None else max(here, default=0)

    def enough(self) -> int | None:
        """The least capacity that is enough without requeueing."""
        return enough_of(self.plain(self.compared(self.mode)))

    @property
    def blocks(self) -> str:
        """Like `with 200 GB blocks`."""
        return f"with {size(self.split)} blocks" if self.split else "without splitting"

    @property
    def where(self) -> str:
        """Like `32 TB with 200 GB blocks`: what policies are compared on."""
        return f"{size(self.capacity)} {self.blocks}"

    def compared(self, mode: str | None = None, **wanted: object) -> Rows:
        """Runs with split requests, without the baseline."""
        modes = {} if mode is None else {"mode": mode}
        return select(without_baseline(self.runs), split=self.split, **modes, **wanted)

    def plain(self, runs: Rows) -> Rows:
        """Those without requeueing, if there are any."""
        return runs[runs["tries"] == 0] if (runs["tries"] == 0).any() else runs

    def disks(self, mode: str, capacity: int | None = None) -> dict[str, Rows]:
        """By policy, the disks of the runs that are compared, at the capacity for that unless another is given."""
        chosen = self.capacity if capacity is None else capacity
        rows = self._alike(self.results.disks(mode=mode, capacity=chosen, split=self.split))
        return by_policy(without_baseline(rows), self.results.policies())

    def mixed_disks(self, mode: str) -> dict[str, Rows]:
        """By policy, the disks of the platform that has several kinds, with split requests if there are such runs."""
        rows = self.results.disks(mode=mode, platform=self.mixed or "")
        splits = distinct(rows, "split")
        split = self.split if self.split in splits else max(splits, default=0)
        return by_policy(select(rows, split=split), self.results.policies())


def without_baseline(table: Rows) -> Rows:
    kept: Rows = table[table["layout"] != BASELINE]
    return kept


def by_policy(table: Rows, order: Sequence[str] = ()) -> dict[str, Rows]:
    """The rows of every policy that has any."""
    names = dict.fromkeys([*order, *distinct(table, "policy")])
    return {name: rows for name in names if (rows := select(table, policy=name)).size}


def enough_of(runs: Rows) -> int | None:
    """The least capacity at which some policy serves 99 % of the bytes in every layout."""
    for capacity in sorted(distinct(runs, "capacity")):
        policies = by_policy(select(runs, capacity=capacity)).values()
        if any(rows["allocated_share"].min() >= ENOUGH for rows in policies):
            return int(capacity)
    return None


def effects(view: StorageView) -> list[Record]:
    """Cohen's d between all policies: on the disks that are compared, and on each kind of the mixed platform."""
    records = []
    for mode in view.modes:
        groups = {(size(view.capacity), "all"): view.disks(mode)}
        if view.mixed is not None:
            disks = view.mixed_disks(mode)
            kinds = dict.fromkeys(kind for rows in disks.values() for kind in distinct(rows, "kind") if kind)
            groups[(view.mixed, "all")] = disks
            groups |= {(view.mixed, k): {p: select(rows, kind=k) for p, rows in disks.items()} for k in kinds}
        for ((platforms, kind), policies), metric in product(groups.items(), METRICS):
            where = {"mode": mode, "platforms": platforms, "disks": kind, "metric": metric}
            for policy, against in permutations(policies, 2):
                d = effect(policies[policy], policies[against], metric)
                records.append(where | {"policy": policy, "against": against, "d": d})
    return records


def effect(rows: Rows, other: Rows, metric: str) -> float:
    """Cohen's d; positive where `rows` has less."""
    return cohens_d(finite(rows[metric]), finite(other[metric]))


def cohens_table(view: StorageView, metric: str, mode: str) -> tuple[list[str], Floats]:
    """Policies, and Cohen's d of each of them (row) against each (column): Figures 7 and 8 of the paper."""
    rows = {name: disks for name, disks in view.disks(mode).items() if finite(disks[metric]).size > 1}
    table = [[0.0 if a == b else effect(rows[a], rows[b], metric) for b in rows] for a in rows]
    return list(rows), np.array(table, dtype=float).reshape(len(rows), len(rows))


def count_missed(runs: Rows) -> tuple[int, int]:
    """Failed and refused split requests of the run that has most of both together."""
    worst = runs[np.argmax(runs["split_failed"] + runs["split_refused"])]
    return int(worst["split_failed"]), int(worst["split_refused"])


def describe_missed(counts: tuple[int, int]) -> str:
    """Failed and refused requests, without what is 0.

    >>> describe_missed((3, 4)), describe_missed((0, 2)), describe_missed((0, 0))
    ('3 failed + 4 refused', '2 refused', '0')
    """
    parts = [f"{count} {what}" for count, what in zip(counts, ("failed", "refused"), strict=True) if count]
    return " + ".join(parts) or "0"
