"""Procedure 1: what was fastest for others, against the listing written out run by run."""

from fractions import Fraction
from math import log

from hypothesis import given
from hypothesis import strategies as st

from forebay.decide.stripe.dca_io import follow_others, nearest_number
from forebay.decide.stripe.view import Peers, StripeView
from forebay.model.layout import MIB, MOST_SIZE, Target

PEERS = st.lists(
    st.builds(
        Peers,
        processes=st.sampled_from([1, 2, 8, 12, 32, 64]),
        count=st.sampled_from([1, 2, 4, 8, 128]),
        size=st.sampled_from([MIB, 2 * MIB, 4 * MIB]),
        runs=st.integers(1, 4),
        throughput=st.integers(0, 5).map(float),
    ),
    max_size=12,
)


def view(processes: int, *peers: Peers, targets: int = 256) -> StripeView:
    own = tuple(Target(index=k) for k in range(targets))
    return StripeView(application="new", processes=processes, targets=own, peers=peers)


def peers(processes: int, count: int, throughput: float, *, size: int = MIB, runs: int = 1) -> Peers:
    return Peers(processes=processes, count=count, size=size, runs=runs, throughput=throughput)


def listing(processes: int, known: list[Peers]) -> tuple[int, int]:
    """Lines 6 to 21, with a row for every run; a mean is compared with the best mean so far."""
    records = [p for p in known for _ in range(p.runs) if p.processes == processes]
    found = []
    for values in ([r.count for r in records], [r.size for r in records]):
        best, best_mean = 0, Fraction(-1)
        for value in sorted(set(values)):
            own = [Fraction(r.throughput) for v, r in zip(values, records, strict=True) if v == value]
            mean = sum(own, Fraction()) / len(own)
            if mean > best_mean:
                best, best_mean = value, mean
        found.append(best)
    return found[0], found[1]


@given(PEERS, st.sampled_from([1, 2, 3, 8, 16, 48, 1000]), st.sampled_from([1, 6, 256]))
def test_the_listing_finds_the_same(known: list[Peers], processes: int, targets: int) -> None:
    choice = follow_others(view(processes, *known, targets=targets))
    assert (choice.phase, choice.runs) == ("initial", ())
    if not known:
        assert (choice.count, choice.size) == (1, MIB)
        return
    as_many = min({p.processes for p in known}, key=lambda n: (max(n, processes) / min(n, processes), n))
    count, size = listing(as_many, known)
    assert (choice.count, choice.size) == (min(count, targets), size)
    assert ("the nearest number" in choice.because) == (as_many != processes)
    assert ("usable target" in choice.because) == (count > targets)


def test_figure_6_one_process_gets_128_stripes() -> None:
    means = {1: 95e6, 8: 180e6, 16: 240e6, 32: 210e6, 64: 330e6, 128: 480e6}
    choice = follow_others(view(1, *(peers(1, count, mean, runs=900 // count + 1) for count, mean in means.items())))
    assert (choice.count, choice.size) == (128, MIB)
    assert "those with 128 stripes were fastest on average (480.00 MB/s)" in choice.because


def test_means_are_over_runs_and_not_over_groups() -> None:
    choice = follow_others(view(4, peers(4, 2, 9.0), peers(4, 2, 1.0, size=2 * MIB, runs=9), peers(4, 8, 4.0)))
    assert choice.count == 8


def test_count_and_size_are_chosen_apart() -> None:
    choice = follow_others(view(4, peers(4, 2, 6.0, size=8 * MIB), peers(4, 8, 9.0), peers(4, 4, 1.0)))
    assert (choice.count, choice.size) == (8, 8 * MIB)  # no run had both


def test_ties_go_to_fewer_and_smaller_stripes() -> None:
    choice = follow_others(view(4, peers(4, 8, 5.0, size=4 * MIB), peers(4, 2, 5.0, size=2 * MIB), peers(4, 4, 5.0)))
    assert (choice.count, choice.size) == (2, MIB)


def test_the_nearest_number_of_processes_is_on_a_log_scale_and_said() -> None:
    choice = follow_others(view(12, peers(2, 1, 1.0), peers(32, 8, 1.0), peers(5, 4, 1.0, runs=1200)))
    assert choice.count == 4  # 12 is 2.4 times 5, and 32 is 2.7 times 12, though 20 away from 5 is farther than 7
    assert "no other application ran with 12 processes; of the 1,200 runs with 5, the nearest number," in choice.because
    choice = follow_others(view(12, peers(4, 2, 1.0), peers(32, 8, 1.0)))
    assert choice.count == 8  # though 4 is only 8 away


@given(st.integers(1, 10**6), st.sets(st.integers(1, 10**6), min_size=1))
def test_nearest_has_the_smallest_difference_of_logarithms(processes: int, known: set[int]) -> None:
    found = nearest_number(processes, known)
    assert found in known
    smallest = min(abs(log(n) - log(processes)) for n in known)
    assert abs(log(found) - log(processes)) <= smallest + 1e-9


def test_of_two_equally_near_numbers_the_smaller_is_taken() -> None:
    assert nearest_number(12, [24, 6]) == 6
    assert nearest_number(10**15 + 1, [(10**15 + 1) * 3, 10**15 + 2]) == 10**15 + 2


def test_sizes_that_no_file_can_have_here_become_ones_that_it_can() -> None:
    assert follow_others(view(4, peers(4, 2, 1.0, size=100_000))).size == 65536
    assert follow_others(view(4, peers(4, 2, 1.0, size=1))).size == 65536
    assert follow_others(view(4, peers(4, 2, 1.0, size=2**40))).size == MOST_SIZE


def test_with_nothing_to_go_by_the_layout_is_the_default_one_and_that_is_said() -> None:
    for empty in (view(4), view(4, peers(4, 8, 1.0, runs=0))):
        choice = follow_others(empty)
        assert (choice.count, choice.size) == (1, MIB)
        assert choice.because.endswith("so it gets the default layout")
