"""Tables 2 and 3 of the DCA-IO paper, from sums over runs."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay.history.store.totals import LayoutSums
from forebay.profile.filesystem_usage import bin_of, usage

MIB = 1 << 20


def sums(count: int, runs: int, size: int = MIB, files: int | None = None, **others: int) -> LayoutSums:
    told = {"partial_flag": False, "total_bytes": 0, "pattern_requests": 0, "seq_requests": 0}
    return LayoutSums(
        stripe_count=count,
        file_stripe_count=count if files is None else files,
        stripe_size=size,
        runs=runs,
        **{**told, "io_less_1k": 0, "io_1k_to_100k": 0, **others},  # type: ignore[arg-type]
    )


PAPER = {1: 1_275_869, 2: 39, 4: 62, 7: 269, 16: 6_850, 20: 443, 64: 374, 100: 450, 248: 287}


def test_the_paper_s_own_numbers_give_its_percentages() -> None:
    found = usage([sums(count, runs) for count, runs in PAPER.items()])
    assert found.runs == 1_284_643
    assert [b.label for b in found.stripe_counts] == [
        *("1", "2", "3–4", "5–8", "9–16", "17–32", "33–64", "65–128", "129–256"),
    ]
    assert [b.runs for b in found.stripe_counts] == list(PAPER.values())
    percentages = [round(100 * b.share, 3) for b in found.stripe_counts]
    assert percentages == [99.317, 0.003, 0.005, 0.021, 0.533, 0.034, 0.029, 0.035, 0.022]
    assert found.default_count == pytest.approx(0.99317, abs=5e-6)


def test_stripe_sizes_are_listed_as_they_are_ascending() -> None:
    found = usage([sums(1, 3, 8 * MIB), sums(2, 1), sums(4, 4, 8 * MIB)])
    assert [(b.low, b.runs, b.share) for b in found.stripe_sizes] == [(MIB, 1, 1 / 8), (8 * MIB, 7, 7 / 8)]


@given(st.integers(1, 10**6))
def test_every_count_is_in_a_bin_that_ends_at_a_power_of_two(count: int) -> None:
    found = usage([sums(count, 5)])
    (own,) = (b for b in found.stripe_counts if b.runs)
    assert own.low <= count <= own.high == 1 << bin_of(count)
    assert own.low == (own.high // 2 + 1 if own.high > 1 else 1)


def test_bins_beyond_the_paper_s_appear_where_there_are_runs() -> None:
    assert [b.label for b in usage([sums(600, 1)]).stripe_counts][-3:] == ["129–256", "257–512", "513–1,024"]


def test_runs_without_lustre_records_are_apart_and_in_no_table() -> None:
    found = usage([sums(0, 7, 0), sums(1, 3)])
    assert (found.runs, found.runs_without_lustre) == (10, 7)
    assert sum(b.runs for b in found.stripe_counts) == sum(b.runs for b in found.stripe_sizes) == 3
    assert found.default_both == 1.0


def test_a_size_without_osts_counts_in_its_own_table_only() -> None:
    found = usage([sums(0, 2, MIB), sums(1, 3)])
    assert found.runs_without_lustre == 0
    assert (sum(b.runs for b in found.stripe_counts), sum(b.runs for b in found.stripe_sizes)) == (3, 5)


def test_default_shares_by_osts_used_and_by_layout_of_files_differ() -> None:
    # 6 runs on the default; 3 whose files have one stripe each, on 24 OSTs; 1 with large stripes
    found = usage([sums(1, 6), sums(24, 3, files=1), sums(1, 1, 4 * MIB)])
    assert (found.default_count, found.default_size) == (0.7, 0.9)
    assert (found.default_both, found.default_layout) == (0.6, 0.9)


def test_shares_of_requests_are_of_those_that_tell() -> None:
    told = {"pattern_requests": 100, "seq_requests": 80, "io_less_1k": 10, "io_1k_to_100k": 30}
    found = usage([sums(1, 1, **told), sums(1, 1, partial_flag=True)])
    assert (found.sequential, found.less_1k, found.from_1k_to_100k) == (0.8, 0.1, 0.3)
    assert found.partial_runs == 1


def test_nothing_known_is_none_not_zero() -> None:
    found = usage([sums(0, 4, 0)])
    assert (found.default_count, found.default_size, found.default_both, found.sequential) == (None,) * 4
    assert found.stripe_sizes == ()
