"""The results: a row for every disk of every run."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import permutations, product
from typing import Any

import numpy as np

from forebay.model.arrays import Floats, Ints
from forebay.show.phrases import MODES, size
from forebay.show.rows import Record, Rows, distinct_values, finite_values, match_rows, read_columns, select
from forebay.simulate.storage.rules import OPTIMAL as OPTIMAL
from forebay.simulate.storage.rules import SPLIT

_COLUMNS = read_columns(__file__)
_RUN = [name for name, _ in _COLUMNS["run"]]
"""The columns of a run, the same in the rows of all its disks."""
ROW = np.dtype([*_COLUMNS["run"], *_COLUMNS["disk"]])
KEY = ("mode", "platform", "policy", "split", "tries", "interval")
LAYOUTS = ("nNnD", "nN1D", "1NnD", "1N1D")


def layout_of(platform: str) -> str:
    """Return the paper's name for the layout, or "" if the platform is not one of the paper's.

    >>> layout_of("32TB/nN1D")
    'nN1D'
    """
    _, _, layout = platform.rpartition("/")
    return layout if layout in LAYOUTS else ""


def platform_label(run: Any) -> str:
    """Return the layout of the run, or the name of a platform that is not one of the paper's."""
    return str(run["layout"]) or str(run["platform"])


STORALLOC, CORRECT = "storalloc", "correct"
BASELINE = "1N1D"  # one node with one disk; the paper excludes it from all comparisons of disks
BEST = "best-bandwidth"
FOREBAY = "forebay"
PAPER_POLICIES = ("random", "round-robin", "worst-fit", BEST)
METRICS = ("mean_allocations", "max_allocations")
ENOUGH = 0.99  # share of the bytes that a capacity must serve to count as large enough
_FOCUS = 32 * 10**12


@dataclass(frozen=True)
class StorageResults:
    """All runs of a study, and the selections of them that Monniot et al. 2023 compare."""

    origin: str  # where the requests come from, in words
    requests: int
    settings: Mapping[str, object]
    rows: Rows  # of type ROW

    @cached_property
    def runs(self) -> Rows:
        """One row for every run, without the columns of its disks; includes `optimal`."""
        runs = self.rows[_RUN]
        _, first = np.unique(self.rows[list(KEY)], return_index=True)
        return runs[np.sort(first)]

    @cached_property
    def policies(self) -> list[str]:
        """All policies but `optimal`, in the order of the request."""
        return [policy for policy in distinct_values(self.rows, "policy") if policy != OPTIMAL]

    @cached_property
    def modes(self) -> list[str]:
        """The modes that were run, StorAlloc's rules before the correct ones."""
        modes = distinct_values(self.rows, "mode")
        return [m for m in MODES if m in modes] + [m for m in modes if m not in MODES]

    @property
    def mode(self) -> str:
        """The mode that findings are about unless they name another."""
        return CORRECT if CORRECT in self.modes or not self.modes else self.modes[0]

    def disks(self, **wanted: object) -> Rows:
        """Return the rows of real disks whose columns have these values."""
        return select(self.rows[self.rows["disk"] >= 0], **wanted)

    @cached_property
    def _mixed_platforms(self) -> list[str]:
        disks = self.disks()
        platforms, kinds = np.unique(np.unique(disks[["platform", "kind"]])["platform"], return_counts=True)
        several = set(platforms[kinds > 1].tolist())
        return [p for p in distinct_values(disks, "platform") if p in several]

    @property
    def mixed_platform(self) -> str | None:
        """The platform with disks of several kinds."""
        return self._mixed_platforms[0] if self._mixed_platforms else None

    @cached_property
    def alike(self) -> Rows:
        """Runs of policies on platforms whose disks are alike, or on all platforms if no platform has such disks."""
        return self._keep_alike(self.runs[~match_rows(self.runs, policy=OPTIMAL)])

    @cached_property
    def bounds(self) -> Rows:
        """The upper bounds of all policies on those platforms."""
        return self._keep_alike(select(self.runs, policy=OPTIMAL))

    def _keep_alike(self, table: Rows) -> Rows:
        if np.isin(self.rows["platform"], self._mixed_platforms).all():
            return table
        return table[~np.isin(table["platform"], self._mixed_platforms)]

    @cached_property
    def splits(self) -> list[int]:
        return sorted(distinct_values(self.alike, "split"))

    @cached_property
    def split(self) -> int:
        """The threshold at which policies are compared: the paper's, or else the largest."""
        return SPLIT if SPLIT in self.splits else max(self.splits, default=0)

    @cached_property
    def capacities(self) -> list[int]:
        return sorted(distinct_values(self.alike, "capacity"))

    @cached_property
    def capacity(self) -> int:
        """The capacity at which disks are compared: the paper's, else the least that is enough, else the largest."""
        capacities = self.compared_runs()["capacity"].tolist()
        enough = enough_of(without_requeueing(self.compared_runs(self.mode)))
        return _FOCUS if _FOCUS in capacities else enough if enough is not None else max(capacities, default=0)

    @property
    def blocks(self) -> str:
        """Like `with 200 GB blocks`."""
        return f"with {size(self.split)} blocks" if self.split else "without splitting"

    @property
    def where(self) -> str:
        """The configuration on which policies are compared, like `32 TB with 200 GB blocks`."""
        return f"{size(self.capacity)} {self.blocks}"

    def compared_runs(self, mode: str | None = None, **wanted: object) -> Rows:
        """Return the runs with split requests, without the baseline."""
        modes = {} if mode is None else {"mode": mode}
        return select(without_baseline(self.alike), split=self.split, **modes, **wanted)

    def compared_disks(self, mode: str, capacity: int | None = None) -> dict[str, Rows]:
        """Return, by policy, the disks of the compared runs at `capacity`, or else at the compared capacity."""
        chosen = self.capacity if capacity is None else capacity
        rows = self._keep_alike(self.disks(mode=mode, capacity=chosen, split=self.split))
        return by_policy(without_baseline(rows), self.policies)

    def mixed_disks(self, mode: str) -> dict[str, Rows]:
        """Return, by policy, the disks of the mixed platform, from runs with split requests if possible."""
        rows = self.disks(mode=mode, platform=self.mixed_platform or "")
        splits = distinct_values(rows, "split")
        split = self.split if self.split in splits else max(splits, default=0)
        return by_policy(select(rows, split=split), self.policies)

    def example_runs(self, mode: str) -> dict[str, Rows]:
        """Return, by policy, the disks of a run on the mixed platform: for the paper's and for ours, or any two."""
        disks, examples = self.mixed_disks(mode), {}
        for name in [n for n in (BEST, FOREBAY) if n in disks] or list(disks)[:2]:
            tries: Ints = disks[name]["tries"]
            first = disks[name][np.argmin(tries)]  # a run without requeueing if possible, as in the paper
            examples[name] = select(disks[name], tries=first["tries"], interval=first["interval"])
        return examples

    def samples(self, mode: str, metric: str, capacity: int | None = None) -> dict[str, Floats]:
        """Return, by policy, the known values of a metric of the compared disks."""
        return known_values(self.compared_disks(mode, capacity), metric)

    def missed_requests(self, mode: str, capacity: int) -> dict[str, tuple[int, int]]:
        """Return, by policy, the failed and refused split requests of the run that has most of both together."""
        runs = select(self.alike, mode=mode, capacity=capacity, split=self.split)
        return {name: count_missed(rows) for name, rows in by_policy(runs, self.policies).items()}


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


def without_baseline(table: Rows) -> Rows:
    kept: Rows = table[~match_rows(table, layout=BASELINE)]
    return kept


def without_requeueing(runs: Rows) -> Rows:
    """Return the runs without requeueing, or all runs if every run requeues."""
    plain = select(runs, tries=0)
    return plain if plain.size else runs


def known_values(disks: Mapping[str, Rows], metric: str) -> dict[str, Floats]:
    """Return, by policy, the finite values of the metric; policies without any are left out."""
    return {name: values for name, rows in disks.items() if (values := finite_values(rows[metric])).size}


def by_policy(table: Rows, order: Sequence[str] = ()) -> dict[str, Rows]:
    """Return the rows of each policy that has any."""
    names = dict.fromkeys([*order, *distinct_values(table, "policy")])
    return {name: rows for name in names if (rows := select(table, policy=name)).size}


def enough_of(runs: Rows) -> int | None:
    """Return the least capacity at which some policy serves 99 % of the bytes in every layout."""
    for capacity in sorted(distinct_values(runs, "capacity")):
        policies = by_policy(select(runs, capacity=capacity)).values()
        if any(rows["allocated_share"].min() >= ENOUGH for rows in policies):
            return int(capacity)
    return None


def effects(results: StorageResults) -> list[Record]:
    """Return Cohen's d between all policies, on the compared disks and on each kind of disk of the mixed platform."""
    records = []
    for mode in results.modes:
        groups = {(size(results.capacity), "all"): results.compared_disks(mode)}
        if mixed := results.mixed_platform:
            disks = results.mixed_disks(mode)
            kinds = dict.fromkeys(kind for rows in disks.values() for kind in distinct_values(rows, "kind") if kind)
            groups[(mixed, "all")] = disks
            groups |= {(mixed, k): {p: select(rows, kind=k) for p, rows in disks.items()} for k in kinds}
        for ((platforms, kind), policies), metric in product(groups.items(), METRICS):
            where = {"mode": mode, "platforms": platforms, "disks": kind, "metric": metric}
            samples = {policy: finite_values(rows[metric]) for policy, rows in policies.items()}
            for policy, against in permutations(samples, 2):
                d = cohens_d(samples[policy], samples[against])
                records.append(where | {"policy": policy, "against": against, "d": d})
    return records


def cohens_table(results: StorageResults, metric: str, mode: str) -> tuple[list[str], Floats]:
    """Return the policies, and Cohen's d of each (row) against each (column): Figures 7 and 8 of the paper."""
    samples = {name: values for name, values in results.samples(mode, metric).items() if values.size > 1}
    table = [[0.0 if a == b else cohens_d(samples[a], samples[b]) for b in samples] for a in samples]
    return list(samples), np.array(table, dtype=float).reshape(len(samples), len(samples))


def count_missed(runs: Rows) -> tuple[int, int]:
    """Return the failed and refused split requests of the run that has most of both together."""
    failed: Ints = runs["split_failed"]
    refused: Ints = runs["split_refused"]
    worst = runs[np.argmax(failed + refused)]
    return int(worst["split_failed"]), int(worst["split_refused"])


def describe_missed(counts: tuple[int, int]) -> str:
    """Format the numbers of failed and refused requests, without those that are 0.

    >>> describe_missed((3, 4)), describe_missed((0, 2)), describe_missed((0, 0))
    ('3 failed + 4 refused', '2 refused', '0')
    """
    parts = [f"{count} {what}" for count, what in zip(counts, ("failed", "refused"), strict=True) if count]
    return " + ".join(parts) or "0"
