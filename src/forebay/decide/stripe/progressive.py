"""Progressive layouts: few stripes at the beginning of a file, where small files end, and more beyond.

A program that writes small and large files into one folder has no good stripe count: one stripe makes the large files
slow, and many stripes give every small file objects that hold nothing. A layout of several components gives each file
the stripes that its size can use. On Lustre, the first component can lie on the metadata target, so that a small file
needs no other server at all.

The ends of components are sizes of the application's own files. Of all such layouts, the one is taken that needs the
fewest seconds in the model (`file_costs`), if it is worth it: faster than the layout of one component by at least
`LEAST_GAIN`, and not slower if the costs assumed for files, and the rate of the MDT, are half or twice as large. It is
also worth it if it is not slower and saves half of many objects, each of which takes an inode of a target.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from forebay.decide.stripe.file_costs import FileModel, count_objects, model_files
from forebay.decide.stripe.phrases import describe_components, stripe_size
from forebay.decide.stripe.view import Gain, StripeView, Striping
from forebay.model.layout import ANY, KIB, MIB, Component, Layout
from forebay.model.units import format_size, plural

LEAST_GAIN = 1.05
_NOT_SLOWER = 0.98
_MANY_OBJECTS = 1000
_SIMPLER = 1.01  # each more component has to make the run so much faster
_MOST_ENDS = 10  # sizes at which a component may end, the smallest
_ON_MDT = (64 * KIB, MIB)  # the smallest and the largest part of a file on an MDT; 1 MiB is the default limit of Lustre
_MDT_SHARE = 0.01  # of the free space of an MDT, for the files of one run
_COMPARED = 10  # the newest runs with components
_ENOUGH = 2  # runs with components that show what these are worth


@dataclass(frozen=True, slots=True, kw_only=True)
class _Refinement:
    """The best layout of several components, and its gain over one component."""

    layout: Layout
    gain: Gain


def refine(view: StripeView, plain: Striping, *, margin: float, share: float) -> Striping:
    """Return the decision with components for files of different sizes, if that gains; else say why not.

    `share` is the share of its bandwidth that the busiest target of the plain layout leaves this job.
    """
    if not view.file_sizes:
        return plain
    single = replace(plain.layout, start=ANY)
    model = model_files(view, single.size)
    if slower := _explain_measured_loss(view, model.seconds(single), margin):
        return _add_reason(plain, slower)
    # Nobody chooses the targets of components, so they may be those of other jobs.
    kept = 1.0 if plain.layout.start == ANY else min(1.0, _share_anywhere(view, single.count) / share)
    best = _find_best(model, view, single, kept)
    features = view.features
    if best is None:
        return plain
    if not features.progressive:
        missing = features.no_progressive
        return _add_reason(plain, f"{_describe_gain(best)}, but {missing}") if missing else plain
    because, missing = "", _explain_missing_room(view, best.layout)
    if missing:
        because = f"; small files stay off the MDT: {missing}"
        best = _find_best(model, view, single, kept, on_mdt=False)
        if best is None:
            return replace(plain, because=f"{plain.because}{because}")
    of_sizes = () if view.size_run is None or view.size_run in plain.runs else (view.size_run,)
    return replace(
        plain,
        layout=replace(best.layout, pool=features.pool),
        because=f"{plain.because}; {_because(view, single, best)}{because}",
        where="the file system chooses the targets of each component",
        targets=(),
        runs=(*plain.runs, *of_sizes),
        gain=best.gain,
    )


def _add_reason(striping: Striping, reason: str) -> Striping:
    return replace(striping, because=f"{striping.because}; {reason}")


def _find_best(
    model: FileModel, view: StripeView, single: Layout, kept: float, *, on_mdt: bool = True
) -> _Refinement | None:
    """Return the fastest layout of several components, the simplest of nearly equal ones; None if none is worth it."""
    varied = (model, model.vary(0.5), model.vary(2.0))

    def choose(layouts: Iterable[Layout]) -> _Refinement | None:
        best, least = single, model.seconds(single)
        for layout in layouts:
            seconds = model.seconds(layout, share=kept)
            if seconds * _SIMPLER ** (len(layout.before) - len(best.before)) < least:
                best, least = layout, seconds
        factors = [each.seconds(single) / each.seconds(best, share=kept) for each in varied]
        gain = Gain(factor=factors[0], low=min(factors), high=max(factors))
        is_faster = gain.factor >= LEAST_GAIN and gain.low >= 1.0
        is_lighter = gain.low >= _NOT_SLOWER and _saves_objects(view, single, best)
        return _Refinement(layout=best, gain=gain) if best.before and (is_faster or is_lighter) else None

    divided = choose(_divide(view, single))
    if not on_mdt:
        return divided
    heads = [single, divided.layout] if divided else [single]
    with_mdt = choose(layout for head in heads for layout in _begin_on_mdt(view, head))
    if divided is None or with_mdt is None:
        return divided or with_mdt
    return with_mdt if with_mdt.gain.factor > _SIMPLER * divided.gain.factor else divided


def _saves_objects(view: StripeView, single: Layout, several: Layout) -> bool:
    before, after = (_all_objects(view, layout) for layout in (single, several))
    return before - after >= _MANY_OBJECTS and 2 * after <= before


def _all_objects(view: StripeView, layout: Layout) -> int:
    return sum(c.files * count_objects(c.size, layout)[0] for c in view.file_sizes)


def _divide(view: StripeView, single: Layout) -> Iterator[Layout]:
    """Yield layouts with one or two components before the last. They end where the application's small files end."""
    ends = sorted({max(c.below, MIB) for c in view.file_sizes})[:_MOST_ENDS]
    # A count that was never run may be slow, whatever the sizes of the files are.
    known = {single.count, *(run.count for run in view.runs if run.processes == view.processes)}
    heads: list[tuple[Component, ...]] = [(_component(end, 1, single.size),) for end in ends]
    for first, second in combinations(ends, 2):
        between = (1 << k for k in range(1, (max(known) - 1).bit_length()))
        heads += [(_component(first, 1, single.size), _component(second, count, single.size)) for count in between]
    for head in heads:
        # A later component avoids the targets of earlier ones.
        left = view.most - sum(component.count for component in head)
        for last in sorted({min(count, left) for count in known}):
            if last > head[-1].count:
                yield replace(single, count=last, before=head)


def _begin_on_mdt(view: StripeView, layout: Layout) -> Iterator[Layout]:
    """Yield the layout with the first part of each file on an MDT."""
    low, high = _ON_MDT
    for end in sorted({max(c.below, low) for c in view.file_sizes if c.below <= high}):
        if not layout.before or layout.before[0].end > end:
            yield replace(layout, before=(Component(end=end, count=0, size=end), *layout.before))


def _component(end: int, count: int, size: int) -> Component:
    """Return a component with stripes of the largest power of two up to `size` that fits, and at least 1 MiB."""
    fitting = min(max(size, MIB), end, 1 << 31)
    return Component(end=end, count=count, size=1 << (fitting.bit_length() - 1))


def _explain_missing_room(view: StripeView, layout: Layout) -> str:
    """Return why the beginning of each file cannot lie on an MDT, or "" if it can or does not."""
    first = layout.before[0]
    if first.count:
        return ""
    free = view.features.mdt_free
    if not free:
        return view.features.no_mdt or "no MDT takes file data"
    needed = sum(c.files * min(c.size, first.end) for c in view.file_sizes)
    if needed <= _MDT_SHARE * free:
        return ""
    return f"a run would put {format_size(needed)} there, and 1 % of its free space is {format_size(_MDT_SHARE * free)}"


def _share_anywhere(view: StripeView, count: int) -> float:
    """Return the share of its bandwidth that the busiest of `count` targets leaves, if nobody chooses them."""
    users = np.array([target.users for target in view.usable])
    free = float(np.mean(users == 0)) ** count
    return free + (1 - free) / (1.0 + float(users.max()))


def _explain_measured_loss(view: StripeView, expected: float, margin: float) -> str:
    """Say so if runs with components took longer than is expected with one component."""
    volume = sum(c.bytes for c in view.file_sizes)
    several = [
        volume / run.throughput
        for run in view.runs
        if run.components > 1 and run.processes == view.processes and run.throughput > 0 and not run.partial
    ][-_COMPARED:]
    if len(several) < _ENOUGH:
        return ""
    loss = 1 - expected / float(np.exp(np.mean(np.log(several))))
    if loss <= margin:
        return ""
    what = f"{plural(len(several), 'run')} with one had {100 * loss:.0f} % less throughput than is predicted without"
    return f"no progressive layout, as {what}"


def _describe_gain(best: _Refinement) -> str:
    gain = best.gain
    return (
        f"{describe_components(best.layout)} is predicted to be {gain.factor:.3g} times as fast "
        f"({gain.low:.3g} to {gain.high:.3g} if the costs assumed for files are off by a factor of 2)"
    )


def _because(view: StripeView, single: Layout, best: _Refinement) -> str:
    """State the numbers that decided: the files and bytes within the first component, the objects, and the gain."""
    first = best.layout.before[0]
    small = [c for c in view.file_sizes if c.below <= first.end]
    files, every = (sum(c.files for c in classes) for classes in (small, view.file_sizes))
    held, volume = (sum(c.bytes for c in classes) for classes in (small, view.file_sizes))
    before, after = (_all_objects(view, layout) for layout in (single, best.layout))
    run = "" if view.size_run is None else f" of run {view.size_run}"
    return (
        f"{files:,} of {plural(every, 'file')}{run} fit into the first {stripe_size(first.end)} and hold "
        f"{100 * held / volume:.1f} % of the bytes; {after:,} objects instead of {before:,}; {_describe_gain(best)}"
    )
