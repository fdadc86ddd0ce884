"""From the runs of others, then by rules, then run by run, and out of the way of others."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import fsum

from forebay.decide.policy import Input, striping
from forebay.decide.stripe.choice import Choice, valid_size
from forebay.decide.stripe.first_target import anywhere, place
from forebay.decide.stripe.reasons import left_out, many, no_run_tells, only, small_files, stripe_size, stripes
from forebay.decide.stripe.rule import by_pattern, unstriped
from forebay.decide.stripe.view import Past, Peers, StripeView, Striping
from forebay.model.layout import MOST_SIZE
from forebay.model.units import format_bandwidth


@striping(
    "dca-io",
    inputs=[
        Input.PROCESSES,
        Input.FREE_SPACE,
        Input.TARGETS_IN_USE,
        Input.ACCESS_PATTERN,
        Input.OWN_RUNS,
        Input.RUNS_OF_OTHERS,
    ],
    source="Kim et al. 2022, Procedures 1 to 3",
)
def dca_io(view: StripeView, *, interference: bool = True) -> Striping:
    """As others did, then by rules, then doubled while that is faster, on targets that others don't use."""
    choice = _choice(view)
    return choice.at(place(view, choice.count) if interference else anywhere(view, choice.count))


def _choice(view: StripeView) -> Choice:
    if len(comparable(view)) >= 2:
        return climbed(view)
    return initial(view) if view.shared_file is None else ruled(view)


def initial(view: StripeView) -> Choice:
    """The stripe count, and apart from it the stripe size, with the highest mean throughput among the runs of others.

    Of those with as many processes, or else with the nearest number on a log scale.
    """
    known = [p for p in view.peers if p.runs > 0 and p.processes > 0]
    if not known:
        return unstriped(
            f"{_is_new(view)}, and nothing is known of any other application, so it gets the default layout"
        )
    processes = nearest(view.processes, {p.processes for p in known})
    same = [p for p in known if p.processes == processes]
    count, by_count = fastest(same, lambda p: max(p.count, 1))
    size, by_size = fastest(same, lambda p: valid_size(p.size))
    because = (
        f"{_is_new(view)}, and {_whose(view, processes, same)} those with {many(count, 'stripe')} were fastest on "
        f"average ({format_bandwidth(by_count)}), and those with stripes of {stripe_size(size)} "
        f"({format_bandwidth(by_size)})"
    )
    if count > view.most:
        because += f", but {only(view.most)}"
    return Choice(count=min(count, view.most), size=size, phase="initial", because=because)


def nearest(processes: int, known: Iterable[int]) -> int:
    """Of the `known` numbers the one nearest to `processes` on a log scale; of two equally near, the smaller."""
    return min(known, key=lambda n: (Fraction(max(n, processes), min(n, processes)), n))


def fastest(peers: Sequence[Peers], of: Callable[[Peers], int]) -> tuple[int, float]:
    """The value with the highest mean throughput over all runs, and that mean; of equally fast ones the smallest."""
    groups: dict[int, list[Peers]] = {}
    for one in peers:
        groups.setdefault(of(one), []).append(one)
    means = {value: _mean(groups[value]) for value in sorted(groups)}
    best = max(means, key=means.__getitem__)
    return best, means[best]


def _mean(peers: Sequence[Peers]) -> float:
    return fsum(p.runs * p.throughput for p in peers) / sum(p.runs for p in peers)


def _is_new(view: StripeView) -> str:
    if view.known_runs:
        return no_run_tells(view, "how it uses files")
    return "it is new on this file system" if view.runs_elsewhere else "it is new"


def _whose(view: StripeView, processes: int, same: Sequence[Peers]) -> str:
    runs = many(sum(p.runs for p in same), "run")
    if processes == view.processes:
        return f"of the {runs} of others with {many(processes, 'process')}"
    return (
        f"as no other ran with {many(view.processes, 'process')}, of the {runs} of others with {processes:,}, "
        f"the nearest number,"
    )


_Shape = tuple[int, int]  # stripe count and size


@dataclass(frozen=True, slots=True, kw_only=True)
class Climb:
    """Where the runs so far lead: the `best`, the `last`, the best before that, and what was `no_better` by shape."""

    best: Past
    last: Past
    before: Past
    no_better: Mapping[_Shape, Past]


def comparable(view: StripeView) -> tuple[Past, ...]:
    """The runs with as many processes as are asked for and a complete log, oldest first."""
    return tuple(run for run in view.runs if run.processes == view.processes and not run.partial)


def ruled(view: StripeView) -> Choice:
    """The rule, for an application with fewer than two comparable runs (lines 2 to 8)."""
    choice = by_pattern(view)
    known = f"{'only one' if comparable(view) else 'no'} run with {many(view.processes, 'process')}"
    return replace(choice, because=f"it has {known} and a known layout{left_out(_alike(view))}; {choice.because}")


def climbed(view: StripeView) -> Choice:
    """Twice the stripes of the best run, then twice their size, unless that was no better; else the same again.

    (Lines 10 to 23.) Needs two comparable runs.
    """
    climb = climb_over(comparable(view))
    count, size, why, others = _step(climb, view)
    runs = {past.run for past in (climb.best, climb.last, climb.before, *others)}
    return Choice(
        count=count,
        size=size,
        phase="heuristic",
        because=f"{_last(climb)}, {why}{left_out(_alike(view))}",
        runs=tuple(sorted(runs)),
    )


def climb_over(runs: Sequence[Past]) -> Climb:
    """Each run against the best before it; the same layout again counts as it was the last time."""
    best = before = runs[0]
    best_shape = _shape(best)
    no_better: dict[_Shape, Past] = {}
    for run in runs[1:]:
        before, shape = best, _shape(run)
        if shape == best_shape or run.throughput > best.throughput:
            best, best_shape = run, shape
        else:
            no_better[shape] = run
    return Climb(best=best, last=runs[-1], before=before, no_better=no_better)


def _step(climb: Climb, view: StripeView) -> tuple[int, int, str, list[Past]]:
    """The next count and size, the end of the sentence that says why, and the runs that rule other steps out."""
    count, size = _shape(climb.best)
    most = view.useful(size)
    more = min(2 * count, most)
    if more != count and (more, size) not in climb.no_better:
        return more, size, f"so it tries {_more(view, more, count, size)}", []
    slower = [climb.no_better[more, size]] if more != count else []
    why = _no_more(slower, climb, view, size)
    count, larger = min(count, most), 2 * size
    fits = larger <= MOST_SIZE and (view.file_size is None or view.file_size > size)
    if fits and (count, larger) not in climb.no_better:
        count = min(count, view.useful(larger))
        return count, larger, f"{why}so it tries {stripes(count, larger)}", slower
    slower += [climb.no_better[count, larger]] if fits else []
    return count, size, f"{_nothing_left(view, size)}so it keeps {stripes(count, size)}", slower


def _more(view: StripeView, more: int, count: int, size: int) -> str:
    if more == 2 * count:
        return many(more, "stripe")
    return f"{many(more, 'stripe')}, as {_limit(view, size)}"


def _no_more(slower: Sequence[Past], climb: Climb, view: StripeView, size: int) -> str:
    """Why there are not to be more stripes, unless the sentence has said so already."""
    if not slower:
        return f"and {_limit(view, size)}, "
    if slower[0] == climb.last:
        return ""
    return f"and {many(slower[0].count, 'stripe')} were no faster in run {slower[0].run}, "


def _nothing_left(view: StripeView, size: int) -> str:
    if view.file_size is not None and view.file_size <= size:
        return f"and {small_files(view, size)}, "
    return "and neither more nor larger ones are left to try, "


def _limit(view: StripeView, size: int) -> str:
    """What keeps the count down: the targets, or the files."""
    return only(view.most) if view.useful(size) == view.most else small_files(view, size)


def _last(climb: Climb) -> str:
    """What the last run showed."""
    last, before = climb.last, climb.before
    reached = f"its run {last.run} with {stripes(*_shape(last))} reached {format_bandwidth(last.throughput)}"
    if _shape(last) == _shape(before):
        return f"{reached}, after {format_bandwidth(before.throughput)} with the same in run {before.run}"
    compared = "more than" if last.throughput > before.throughput else "no more than"
    return f"{reached}, {compared} the {format_bandwidth(before.throughput)} of run {before.run} with {_unlike(climb)}"


def _unlike(climb: Climb) -> str:
    """The layout of the best run before the last one, as far as it differs."""
    (count, size), (_, last) = _shape(climb.before), _shape(climb.last)
    return f"{count}" if size == last else stripes(count, size)


def _shape(run: Past) -> _Shape:
    return max(run.count, 1), valid_size(run.size)


def _alike(view: StripeView) -> list[Past]:
    return [run for run in view.runs if run.processes == view.processes]
