"""DCA-IO (Kim et al. 2022): start from runs of other applications, then use rules, then improve run by run.

Each decision reads all runs of the application from the first to the last, so the policy keeps no state.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import fsum

from forebay.decide.policy import STRIPING_INPUTS, striping
from forebay.decide.stripe.choice import Choice, valid_size
from forebay.decide.stripe.first_target import place, start_anywhere
from forebay.decide.stripe.phrases import missing_runs, partial_runs, small_files, stripe_size, stripes, target_limit
from forebay.decide.stripe.rule import by_pattern
from forebay.decide.stripe.view import Past, Peers, StripeView, Striping
from forebay.model.layout import MOST_SIZE
from forebay.model.units import format_bandwidth, plural

_Shape = tuple[int, int]  # stripe count and size


@striping("dca-io", inputs=STRIPING_INPUTS, source="Kim et al. 2022, Procedures 1 to 3")
def dca_io(view: StripeView, *, interference: bool = True) -> Striping:
    """Like other applications first, then by rules, then doubled while faster; on targets without other users."""
    if len(_comparable_runs(view)) >= 2:
        choice = climb(view)
    else:
        choice = follow_others(view) if view.shared_file is None else follow_rule(view)
    return choice.at(place(view, choice.count) if interference else start_anywhere(view, choice.count))


def follow_others(view: StripeView) -> Choice:
    """Choose the fastest count and the fastest size of other applications with similar process counts (Procedure 1)."""
    because = "it is new on this file system" if view.runs_elsewhere else "it is new"
    if view.known_runs:
        because = missing_runs(view, "how it uses files")
    known = [p for p in view.peers if p.runs > 0 and p.processes > 0]
    if not known:
        because += ", and no other application has runs, so it gets the default layout"
        return Choice(count=1, phase="initial", because=because)
    processes = nearest_number(view.processes, {p.processes for p in known})
    same = [p for p in known if p.processes == processes]
    count, by_count = _find_fastest(same, lambda p: max(p.count, 1))
    size, by_size = _find_fastest(same, lambda p: valid_size(p.size))
    runs = plural(sum(p.runs for p in same), "run")
    if processes == view.processes:
        because += f"; of the {runs} of other applications with {plural(processes, 'process')},"
    else:
        because += f"; no other application ran with {plural(view.processes, 'process')}; of the {runs}"
        because += f" with {processes:,}, the nearest number,"
    because += f" those with {plural(count, 'stripe')} were fastest on average ({format_bandwidth(by_count)})"
    because += f" and those with stripes of {stripe_size(size)} ({format_bandwidth(by_size)})"
    if count > view.most:
        because += f", but {target_limit(view.most)}"
    return Choice(count=min(count, view.most), size=size, phase="initial", because=because)


def nearest_number(processes: int, known: Iterable[int]) -> int:
    """Return the `known` number nearest to `processes` on a log scale; ties go to the smaller."""
    return min(known, key=lambda n: (Fraction(max(n, processes), min(n, processes)), n))


def _find_fastest(peers: Sequence[Peers], of: Callable[[Peers], int]) -> tuple[int, float]:
    """Return the value with the highest mean throughput over all runs, and this mean; ties go to the smallest."""
    groups: dict[int, list[Peers]] = {}
    for peer in peers:
        groups.setdefault(of(peer), []).append(peer)
    means = {
        value: fsum(p.runs * p.throughput for p in group) / sum(p.runs for p in group)
        for value, group in sorted(groups.items())
    }
    best = max(means, key=means.__getitem__)
    return best, means[best]


def _comparable_runs(view: StripeView) -> tuple[Past, ...]:
    """Return the runs with the same number of processes and a complete log, oldest first."""
    return tuple(run for run in view.runs if run.processes == view.processes and not run.partial)


def follow_rule(view: StripeView) -> Choice:
    """Apply the rule to an application with fewer than two comparable runs (Procedure 2, lines 2 to 8)."""
    choice = by_pattern(view)
    known = f"{'only one' if _comparable_runs(view) else 'no'} run with {plural(view.processes, 'process')}"
    return replace(choice, because=f"it has {known} and a known layout{partial_runs(view)}; {choice.because}")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Climb:
    """The runs so far: the `best`, the `last`, the best `before` the last, and those `no_better` by shape."""

    best: Past
    last: Past
    before: Past
    no_better: Mapping[_Shape, Past]


def climb(view: StripeView) -> Choice:
    """Double the stripes of the best run, then their size, unless that was no better (Procedure 2, from line 10)."""
    so_far = _climb_over(_comparable_runs(view))
    count, size, why, others = _step(so_far, view)
    runs = {past.run for past in (so_far.best, so_far.last, so_far.before, *others)}
    because = f"{_describe_last_run(so_far)}, {why}{partial_runs(view)}"
    return Choice(count=count, size=size, phase="heuristic", because=because, runs=tuple(sorted(runs)))


def _climb_over(runs: Sequence[Past]) -> _Climb:
    """Compare each run with the best before it; of runs with the same layout, the latest counts."""
    best = before = runs[0]
    no_better: dict[_Shape, Past] = {}
    for run in runs[1:]:
        before = best
        if _shape(run) == _shape(best) or run.throughput > best.throughput:
            best = run
        else:
            no_better[_shape(run)] = run
    return _Climb(best=best, last=runs[-1], before=before, no_better=no_better)


def _step(so_far: _Climb, view: StripeView) -> tuple[int, int, str, list[Past]]:
    """Return the next count and size, the rest of the reason, and the runs that rule out other steps."""
    count, size = _shape(so_far.best)
    most = view.useful(size)
    more = min(2 * count, most)
    limit = target_limit(view.most) if most == view.most else small_files(view, size)
    if more != count and (more, size) not in so_far.no_better:
        tries = plural(more, "stripe") if more == 2 * count else f"{plural(more, 'stripe')}, as {limit}"
        return more, size, f"so it tries {tries}", []
    slower = [so_far.no_better[more, size]] if more != count else []
    count, larger = min(count, most), 2 * size
    fits = larger <= MOST_SIZE and (view.file_size is None or view.file_size > size)
    if fits and (count, larger) not in so_far.no_better:
        count = min(count, view.useful(larger))
        why = "" if slower else f"and {limit}, "
        if slower and slower[0] != so_far.last:
            why = f"and {plural(slower[0].count, 'stripe')} were no faster in run {slower[0].run}, "
        return count, larger, f"{why}so it tries {stripes(count, larger)}", slower
    slower += [so_far.no_better[count, larger]] if fits else []
    why = "no more or larger stripes are left to try"
    if view.file_size is not None and view.file_size <= size:
        why = small_files(view, size)
    return count, size, f"and {why}, so it keeps {stripes(count, size)}", slower


def _describe_last_run(so_far: _Climb) -> str:
    last, before = so_far.last, so_far.before
    reached = f"its run {last.run} with {stripes(*_shape(last))} reached {format_bandwidth(last.throughput)}"
    earlier = format_bandwidth(before.throughput)
    (count, size), (_, last_size) = _shape(before), _shape(last)
    if _shape(last) == _shape(before):
        return f"{reached}, after {earlier} with the same layout in run {before.run}"
    compared = "more than" if last.throughput > before.throughput else "no more than"
    layout = f"{count}" if size == last_size else stripes(count, size)  # only what differs
    return f"{reached}, {compared} the {earlier} of run {before.run} with {layout}"


def _shape(run: Past) -> _Shape:
    return max(run.count, 1), valid_size(run.size)
