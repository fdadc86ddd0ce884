"""Use of a machine's file system over all runs: the tables of Kim et al. 2022 (DCA-IO), Section 3."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from forebay.history.store.totals import LayoutSums
from forebay.model.layout import DEFAULT_SIZE

DEFAULT_COUNT = 1
PAPER_BINS = 9
"""The bins 1, 2, 3-4, ... 129-256 are always shown; larger ones only if they have runs."""


class Bin(NamedTuple):
    """Runs whose stripe count or size is in [low, high], and their share of the runs for which it is known."""

    low: int
    high: int
    runs: int
    share: float

    @property
    def label(self) -> str:
        """
        >>> Bin(low=3, high=4, runs=0, share=0.0).label
        '3–4'
        """
        return f"{self.low:,}" if self.low == self.high else f"{self.low:,}–{self.high:,}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Use of the file system. Shares are of the runs or requests with a known value; None without any.

    `default_count` is the share of runs on one OST, `default_size` of those with 1 MiB stripes, `default_both` of those
    with both. `default_layout` is the share whose files have one stripe of 1 MiB each, on any number of OSTs.
    """

    runs: int
    partial_runs: int
    runs_without_lustre: int
    total_bytes: int
    stripe_counts: tuple[Bin, ...]
    stripe_sizes: tuple[Bin, ...]
    default_count: float | None
    default_size: float | None
    default_both: float | None
    default_layout: float | None
    sequential: float | None
    less_1k: float | None
    from_1k_to_100k: float | None


def usage(sums: Sequence[LayoutSums]) -> Usage:
    counted = [s for s in sums if s.stripe_count > 0]
    sized = [s for s in sums if s.stripe_size > 0]
    both = [s for s in counted if s.stripe_size > 0]
    laid_out = [s for s in sized if s.file_stripe_count > 0]
    last = max([PAPER_BINS, *(bin_of(s.stripe_count) + 1 for s in counted)])
    requests = sum(s.pattern_requests for s in sums)  # without STDIO's, whose order and size are unknown
    return Usage(
        runs=_runs(sums),
        partial_runs=_runs(s for s in sums if s.partial_flag),
        runs_without_lustre=_runs(s for s in sums if not (s.stripe_count or s.stripe_size)),
        total_bytes=sum(s.total_bytes for s in sums),
        stripe_counts=_bins(counted, lambda s: _bounds(bin_of(s.stripe_count)), map(_bounds, range(last))),
        stripe_sizes=_bins(sized, lambda s: (s.stripe_size, s.stripe_size)),
        default_count=_share_of(counted, lambda s: s.stripe_count == DEFAULT_COUNT),
        default_size=_share_of(sized, lambda s: s.stripe_size == DEFAULT_SIZE),
        default_both=_share_of(both, lambda s: (s.stripe_count, s.stripe_size) == (DEFAULT_COUNT, DEFAULT_SIZE)),
        default_layout=_share_of(
            laid_out, lambda s: (s.file_stripe_count, s.stripe_size) == (DEFAULT_COUNT, DEFAULT_SIZE)
        ),
        sequential=_share(sum(s.seq_requests for s in sums), requests),
        less_1k=_share(sum(s.io_less_1k for s in sums), requests),
        from_1k_to_100k=_share(sum(s.io_1k_to_100k for s in sums), requests),
    )


def bin_of(count: int) -> int:
    """The index of a stripe count's bin; bin k ends at 2**k.

    >>> [bin_of(count) for count in (1, 2, 3, 4, 5, 256, 257)]
    [0, 1, 2, 2, 3, 8, 9]
    """
    return (count - 1).bit_length()


def _bounds(number: int) -> tuple[int, int]:
    return (1 << number - 1) + 1 if number else 1, 1 << number


def _bins(
    sums: Sequence[LayoutSums], bounds: Callable[[LayoutSums], tuple[int, int]], shown: Iterable[tuple[int, int]] = ()
) -> tuple[Bin, ...]:
    """Count runs by the bounds of their bins, ascending; bins in `shown` exist even without runs."""
    runs = Counter(dict.fromkeys(shown, 0))
    for s in sums:
        runs[bounds(s)] += s.runs
    total = runs.total() or 1
    return tuple(Bin(*limits, runs=number, share=number / total) for limits, number in sorted(runs.items()))


def _runs(sums: Iterable[LayoutSums]) -> int:
    return sum(s.runs for s in sums)


def _share_of(sums: Sequence[LayoutSums], is_wanted: Callable[[LayoutSums], bool]) -> float | None:
    return _share(_runs(filter(is_wanted, sums)), _runs(sums))


def _share(part: int, whole: int) -> float | None:
    # If only MPI-IO was recorded, requests have known sizes but no known order.
    return min(part / whole, 1.0) if whole else None
