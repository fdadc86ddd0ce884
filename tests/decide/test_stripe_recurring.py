"""Procedure 2: by the rule, then run by run, against a tuner that remembers between runs."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay.decide.registry import find
from forebay.decide.stripe.dca_io import climb, follow_rule
from forebay.decide.stripe.view import Past, StripeView, Striping
from forebay.model.layout import MIB, MOST_SIZE, Target

DCA_IO = find("stripe", "dca-io")


def past(run: int, count: int, speed: float, *, size: int = MIB, processes: int = 8, partial: bool = False) -> Past:
    return Past(run=run, processes=processes, count=count, size=size, throughput=speed, partial=partial)


def view(*runs: Past, targets: int = 16, **known: Any) -> StripeView:
    own = tuple(Target(index=k) for k in range(targets))
    given = {"application": "app", "processes": 8, "shared_file": False, "io_processes": 8, **known}
    return StripeView(targets=own, runs=runs, **given)


def repeat(speed: Callable[[int, int], float], first: tuple[int, int], runs: int, **known: Any) -> list[Striping]:
    """What dca-io answers while the application runs again and again, the first time with the layout `first`."""
    history, answers = [past(1, first[0], speed(*first), size=first[1])], []
    for number in range(2, runs + 1):
        answers.append(DCA_IO.decide(view(*history, **known)))
        layout = answers[-1].layout
        history.append(past(number, layout.count, speed(layout.count, layout.size), size=layout.size))
    return answers


class Tuner:
    """The same, as a program that is told of every run and remembers."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.best: Past | None = None
        self.rejected: list[tuple[int, int]] = []

    def ran(self, run: Past) -> None:
        same = self.best is not None and (run.count, run.size) == (self.best.count, self.best.size)
        if self.best is None or same or run.throughput > self.best.throughput:
            self.best = run
        else:
            self.rejected.append((run.count, run.size))

    def next(self) -> tuple[int, int]:
        assert self.best is not None
        count, size = self.best.count, self.best.size
        doubled = count * 2
        if doubled > self.most:
            doubled = self.most
        if doubled != count and (doubled, size) not in self.rejected:
            return doubled, size
        count = min(count, self.most)
        if size * 2 < 2**32 and (count, size * 2) not in self.rejected:
            return count, size * 2
        return count, size


RUNS = st.lists(
    st.tuples(
        st.sampled_from([1, 2, 3, 4, 8, 16]),
        st.sampled_from([MIB, 2 * MIB, 4 * MIB, 2**31]),
        st.integers(0, 6).map(float),
        st.sampled_from([8, 8, 8, 4]),
        st.sampled_from([False, False, False, True]),
    ),
    max_size=12,
)


@given(RUNS, st.sampled_from([1, 3, 8, 11, 16]))
def test_going_through_the_history_is_as_good_as_remembering(
    made: list[tuple[int, int, float, int, bool]], targets: int
) -> None:
    runs = [
        past(k, count, speed, size=size, processes=processes, partial=partial)
        for k, (count, size, speed, processes, partial) in enumerate(made)
    ]
    usable = [run for run in runs if run.processes == 8 and not run.partial]
    answer = DCA_IO.decide(view(*runs, targets=targets))
    if len(usable) < 2:
        assert (answer.phase, answer.layout.count, answer.layout.size) == ("rule", 1, MIB)
        return
    tuner = Tuner(targets)
    for run in usable:
        tuner.ran(run)
    assert answer.phase == "heuristic"
    assert (answer.layout.count, answer.layout.size) == tuner.next()
    assert set(answer.runs) <= {run.run for run in usable}
    left_out = sum(run.partial for run in runs if run.processes == 8)
    assert (f"({left_out} partial run" in answer.because) == (left_out > 0)


@given(
    st.dictionaries(st.tuples(st.integers(0, 4), st.integers(0, 12)), st.integers(1, 9), max_size=40),
    st.sampled_from([1, 4, 16]),
    st.integers(0, 9),
)
def test_without_noise_it_comes_to_rest_and_is_never_slower_than_the_first_run(
    table: dict[tuple[int, int], int], first: int, otherwise: int
) -> None:
    def speed(count: int, size: int) -> float:
        return float(table.get((count.bit_length() - 1, (size // MIB).bit_length() - 1), otherwise))

    answers = repeat(speed, (first, MIB), 60)
    layouts = [(a.layout.count, a.layout.size) for a in answers]
    assert len(set(layouts[-20:])) == 1
    assert speed(*layouts[-1]) >= speed(first, MIB)


def test_the_second_run_goes_by_the_rule_and_a_slower_one_leads_back() -> None:
    answers = repeat(lambda count, _: {1: 1.0, 4: 3.0, 8: 2.0}[count] * 1e8, (4, MIB), 7)
    layouts = [(a.layout.count, a.layout.size // MIB) for a in answers]
    # By the rule 1, which is slower than the 4 before; 8 is no better, and neither are larger stripes.
    assert layouts == [(1, 1), (8, 1), (4, 2), (4, 1), (4, 1), (4, 1)]
    assert [a.phase for a in answers] == ["rule"] + ["heuristic"] * 5


def test_the_count_doubles_up_to_the_targets_there_are_and_then_the_size() -> None:
    answers = repeat(lambda count, size: count * 1e8 + size, (1, MIB), 9, targets=6)
    layouts = [(a.layout.count, a.layout.size // MIB) for a in answers]
    assert layouts == [(1, 1), (2, 1), (4, 1), (6, 1), (6, 2), (6, 4), (6, 8), (6, 16)]


def test_the_size_stops_below_4_gib() -> None:
    answers = repeat(lambda count, size: count * 1e10 + size, (1, MIB), 30, targets=2)
    assert answers[-1].layout.size == 2**31
    assert answers[-1].because.startswith("its run 29 with 2 stripes of 2 GiB reached 22.15 GB/s, after 22.15 GB/s")
    assert "so it keeps 2 stripes of 2 GiB" in answers[-1].because


def test_the_reason_of_a_faster_run() -> None:
    choice = climb(view(past(16, 2, 0.8e9), past(17, 4, 1.2e9)))
    assert (choice.count, choice.size, choice.runs) == (8, MIB, (16, 17))
    assert choice.because == (
        "its run 17 with 4 stripes of 1 MiB reached 1.20 GB/s, more than the 800.00 MB/s of run 16 with 2, "
        "so it tries 8 stripes"
    )


def test_the_reason_of_a_slower_run() -> None:
    choice = climb(view(past(16, 2, 0.8e9), past(17, 4, 0.7e9)))
    assert (choice.count, choice.size) == (2, 2 * MIB)
    assert choice.because == (
        "its run 17 with 4 stripes of 1 MiB reached 700.00 MB/s, no more than the 800.00 MB/s of run 16 with 2, "
        "so it tries 2 stripes of 2 MiB"
    )


def test_the_reason_names_the_run_that_rules_more_stripes_out() -> None:
    choice = climb(view(past(3, 2, 8e8), past(5, 4, 7e8), past(6, 2, 9e8)))
    assert choice.runs == (3, 5, 6)
    assert choice.because == (
        "its run 6 with 2 stripes of 1 MiB reached 900.00 MB/s, after 800.00 MB/s with the same layout in run 3, "
        "and 4 stripes were no faster in run 5, so it tries 2 stripes of 2 MiB"
    )


def test_the_latest_run_of_a_layout_counts_and_not_its_best() -> None:
    runs = [past(1, 2, 9.0), past(2, 2, 5.0), past(3, 4, 6.0)]
    assert climb(view(*runs)).count == 8  # 6 is more than the 5 of the latest run with 2


def test_partial_runs_and_those_with_other_processes_are_left_out() -> None:
    runs = [past(1, 1, 1.0), past(2, 8, 9.0, partial=True), past(3, 16, 9.0, processes=4), past(4, 2, 2.0)]
    choice = climb(view(*runs))
    assert (choice.count, choice.runs) == (4, (1, 4))
    assert choice.because.endswith("so it tries 4 stripes (1 partial run left out)")


@pytest.mark.parametrize(
    ("known", "count"),
    [
        ({"shared_file": False, "io_processes": 8}, 1),
        ({"shared_file": True, "io_processes": 8}, 8),
        ({"shared_file": True, "io_processes": 2}, 2),
        ({"shared_file": True, "io_processes": 0}, 1),
        ({"shared_file": True, "io_processes": None}, 8),
        ({"shared_file": True, "io_processes": 8, "processes": 12}, 12),  # all 8 did, so all 12 will
        ({"shared_file": True, "io_processes": 8, "processes": 2}, 2),
        ({"shared_file": True, "io_processes": 5, "processes": 12}, 5),
        ({"shared_file": True, "io_processes": 5, "processes": 3}, 3),
        ({"shared_file": True, "io_processes": 8, "processes": 5000}, 16),
    ],
)
def test_the_rule_counts_the_processes_that_will_do_io(known: dict[str, Any], count: int) -> None:
    choice = follow_rule(view(past(7, 4, 1e9, size=4 * MIB), **known))
    assert (choice.count, choice.size, choice.phase, choice.runs) == (count, MIB, "rule", (7,))


def test_the_rule_says_what_it_rests_on() -> None:
    choice = follow_rule(view(past(7, 4, 1e9), past(9, 4, 1e9, partial=True), shared_file=True, targets=4))
    assert choice.because == (
        "it has only one run with 8 processes and a known layout (1 partial run left out); "
        "in its latest run with 8 processes (run 9) processes "
        "shared files, and 8 processes will do I/O, so the files get 4 stripes, as there are only 4 usable targets"
    )


def test_runs_with_another_number_of_processes_only_tell_the_pattern() -> None:
    runs = [past(k, 2**k, 1e8 * k, processes=4) for k in range(1, 5)]
    answer = DCA_IO.decide(view(*runs, shared_file=True, io_processes=4))
    assert (answer.phase, answer.layout.count) == ("rule", 8)
    assert answer.because.startswith(
        "it has no run with 8 processes and a known layout; in its latest run with 4 processes (run 4)"
    )


def test_layouts_that_no_file_can_have_here_any_more_are_moved_to_ones_that_it_can() -> None:
    fewer = climb(view(past(1, 16, 1.0), past(2, 64, 2.0), targets=4))
    assert (fewer.count, fewer.size) == (4, MIB)
    assert fewer.because.endswith("so it tries 4 stripes, as there are only 4 usable targets")
    slower = climb(view(past(1, 16, 1.0), past(2, 64, 2.0), past(3, 4, 0.5), targets=4))
    assert (slower.count, slower.size) == (4, 2 * MIB)
    odd = climb(view(past(1, 0, 1.0, size=0), past(2, 16, 2.0, size=2**50), targets=16))
    assert (odd.count, odd.size) == (16, MOST_SIZE)
