"""Inputs, ordinary and awkward: single points, dips, ties, no computing, no I/O, curves that start late."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from forebay.decide.view import View
from forebay.model.application import Application
from forebay.model.curve import Curve
from forebay.model.decision import Placement
from forebay.model.system import System

BANDWIDTHS = st.one_of(
    st.floats(1e-3, 1e12), st.integers(1, 6).map(float), st.integers(1, 400).map(lambda mib: mib * 2.0**20)
)
SECONDS = st.one_of(st.just(0.0), st.integers(1, 20).map(float), st.floats(1e-3, 1e5))


@st.composite
def curves(draw: DrawFn, last: int = 12, first: SearchStrategy[int] | None = None) -> Curve:
    """Curves on some of `first` to `last` targets."""
    low = draw(first if first is not None else st.one_of(st.just(1), st.integers(1, last)))
    others = draw(st.sets(st.integers(low, last), max_size=6))
    counts = sorted({low, *others})
    return Curve.of({n: draw(BANDWIDTHS) for n in counts})


@st.composite
def applications(draw: DrawFn, own: SearchStrategy[Curve]) -> Application:
    """Any application: also one that only computes, or only does I/O."""
    curve = draw(own)
    compute = draw(SECONDS)
    io_seconds = draw(SECONDS.filter(lambda io: compute + io > 0))
    return Application(
        name=draw(st.sampled_from("abcdef")),
        compute_nodes=draw(st.one_of(st.integers(1, 64).map(float), st.floats(0.1, 500.0))),
        phases=draw(st.integers(1, 8)),
        compute_seconds=compute,
        volume=io_seconds * draw(st.sampled_from(curve.bandwidths)),
        curve=curve,
    )


@st.composite
def views(draw: DrawFn, most: int = 8, targets: int = 12, late: bool = True) -> View:
    """A machine, and applications whose curves end with its last target or before.

    One in some has twins: equal applications, so that everything ties. `late` lets curves start after 1.
    """
    n = draw(st.integers(1, targets))
    own = curves(last=n, first=None if late else st.just(1))
    some = draw(st.lists(applications(own), min_size=1, max_size=most))
    if draw(st.booleans()):
        some = [draw(st.sampled_from(some)) for _ in some]
    nodes = draw(st.one_of(st.just(sum(a.compute_nodes for a in some)), st.integers(1, 1000).map(float)))
    return View(System(targets=n, compute_nodes=nodes), tuple(replace(a, name=str(i)) for i, a in enumerate(some)))


@st.composite
def exact_views(draw: DrawFn, most: int = 8) -> View:
    """Every I/O ratio is 1/2, 3/4, 7/8, 15/16 or 1, so that loads add up without rounding and can be exactly 1.

    The I/O takes 1, 3, 7 or 15 seconds, whatever the number of targets: curves with dips.
    """
    targets = draw(st.sampled_from([1, 2, 4, 8, 16]))
    some = []
    for index in range(draw(st.integers(1, most))):
        first = draw(st.integers(1, targets))
        length = draw(st.integers(1, targets - first + 1))
        bandwidths = draw(st.lists(st.sampled_from([105.0, 35.0, 15.0, 7.0]), min_size=length, max_size=length))
        some.append(
            Application(
                name=str(index),
                compute_nodes=float(draw(st.integers(1, 8))),
                phases=1,
                compute_seconds=draw(st.sampled_from([0.0, 1.0, 1.0])),
                volume=105.0,
                curve=Curve(tuple(range(first, first + length)), tuple(bandwidths)),
            )
        )
    return View(System(targets=targets, compute_nodes=64), tuple(some))


def counts_for(view: View) -> SearchStrategy[tuple[int, ...]]:
    """Any allocation that the curves allow."""
    return st.tuples(*(st.integers(a.curve.first, a.curve.last) for a in view.applications))


def placements_for(targets: int, counts: Sequence[int]) -> SearchStrategy[Placement]:
    """Any placement of that allocation."""

    def first(n: int) -> SearchStrategy[tuple[int, ...]]:
        return st.permutations(range(targets)).map(lambda order: tuple(sorted(order[:n])))

    return st.tuples(*map(first, counts))
