"""What suits an application that never ran: what was fastest for others (Kim et al. 2022, Procedure 1)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from math import fsum

from forebay.decide.stripe.choice import Choice, valid_size
from forebay.decide.stripe.reasons import many, no_run_tells, only, stripe_size
from forebay.decide.stripe.rule import unstriped
from forebay.decide.stripe.view import Peers, StripeView
from forebay.model.units import format_bandwidth


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
