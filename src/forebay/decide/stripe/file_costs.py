"""How long a run's I/O takes with a layout, file by file: the model behind progressive layouts.

Bytes flow at the rate that the application's runs showed for the stripes that hold them (see `response`). Beyond that,
each file costs its opening, a round trip to the targets that hold it, and something for every object: the metadata
server assigns it, and each later look at the file asks its target.

The costs of files and objects, and the rate of a target, are assumed, and then fitted to the time that the runs took:
of all pairs that explain it, the one is taken that is closest to the assumed ones.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from forebay.decide.stripe.choice import valid_size
from forebay.decide.stripe.response import expect_throughput, points, respond, usable_runs
from forebay.decide.stripe.view import Past, StripeView
from forebay.model.arrays import Floats
from forebay.model.file_sizes import SizeClass
from forebay.model.layout import MIB, TO_THE_END, Component, Layout

_BANDWIDTH = 5e8  # bytes/s of a target
_MDT_BANDWIDTH = 1e9  # bytes/s of a metadata target, which is flash at most sites but serves everybody
_BANDWIDTH_OFF, _COSTS_OFF = math.log(4), math.log(2)  # how far the assumed values are off (one standard deviation)
_NOISE = 0.1  # of the logarithm of a run's time
_FACTORS = np.exp(np.linspace(-4.0, 4.0, 81))  # that are tried for the costs of files
_SLOWER = np.exp(np.linspace(-6.0, 6.0, 121))  # and for the time of data
_COMPARED = 10  # the newest runs to which they are fitted
_LEAST_DATA = 0.05  # part of the measured time that moving data takes at least


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """Seconds for a file beside moving its bytes, at the process that uses it and at the servers."""

    open: float = 5e-4
    trip: float = 5e-4  # to the targets or the MDT that hold its data: a lock and a request
    object: float = 5e-5  # at the process, for each
    served_file: float = 2e-5  # at the metadata server
    served_object: float = 5e-6  # at the metadata server, for each

    def scale(self, factor: float) -> "Costs":
        return Costs(
            open=self.open * factor,
            trip=self.trip * factor,
            object=self.object * factor,
            served_file=self.served_file * factor,
            served_object=self.served_object * factor,
        )


@dataclass(frozen=True)
class Rates:
    """Bytes per second over all files of a class that are used at the same time, by their stripe count.

    `alone` and `shared` are the rates of one more stripe in files of one and of several processes, relative to one
    stripe, for the counts 1, 2, 4 and so on; `target` is the rate of one target, and `mdt` that of a metadata target.
    """

    alone: Floats
    shared: Floats
    target: float
    mdt: float
    targets: int
    processes: int

    def of(self, sizes: SizeClass, count: int) -> float:
        """Return the rate of files of this class with `count` stripes that hold data."""
        steps = self.shared if sizes.shared else self.alone
        at_once = 1 if sizes.shared else min(sizes.files, self.processes, self.targets)
        relative = float(np.interp(math.log2(count), np.arange(steps.size), steps))
        return self.target * min(at_once * relative, self.targets)


@dataclass(frozen=True)
class FileModel:
    """The files of a run, the rates of their data, and the other costs of files.

    `observed` are layouts that runs had, and how many seconds they took.
    """

    sizes: tuple[SizeClass, ...]
    rates: Rates
    costs: Costs
    observed: tuple[tuple[Layout, float], ...] = ()

    def vary(self, factor: float) -> "FileModel":
        """Return the model with other costs of files and another rate of the MDT, that explains the runs as well."""
        varied = replace(self, costs=self.costs.scale(factor), rates=replace(self.rates, mdt=self.rates.mdt * factor))
        return varied.fit(np.ones(1))

    def fit(self, factors: Floats = _FACTORS) -> "FileModel":
        """Fit the rate of a target and the costs of files to the observed seconds, near the present ones.

        Only these factors are tried for the costs.
        """
        if not self.observed:
            return self
        overhead = np.array([self.overhead(layout) for layout, _ in self.observed])
        data = np.array([self.seconds(layout) for layout, _ in self.observed]) - overhead
        measured = np.array([seconds for _, seconds in self.observed])
        modelled = factors[:, None, None] * overhead + _SLOWER[:, None] * data
        unlikely = (np.log(modelled / measured) ** 2).sum(axis=2) / _NOISE**2
        unlikely += (np.log(factors)[:, None] / _COSTS_OFF) ** 2 + (np.log(_SLOWER) / _BANDWIDTH_OFF) ** 2
        i, k = np.unravel_index(int(np.argmin(unlikely)), unlikely.shape)
        rates = replace(self.rates, target=self.rates.target / float(_SLOWER[k]))
        return replace(self, rates=rates, costs=self.costs.scale(float(factors[i])))

    def seconds(self, layout: Layout, share: float = 1.0) -> float:
        """Return the seconds of a run whose data gets this share of the rates of targets."""
        on_mdt = sum(
            c.files * min(c.size, part.end) for part in layout.before[:1] if not part.count for c in self.sizes
        )
        on_targets = sum(self._data(c, layout) for c in self.sizes)
        return on_targets / share + on_mdt / self.rates.mdt + self.overhead(layout)

    def overhead(self, layout: Layout) -> float:
        """Return the seconds of all files beside moving data: at the processes or at the metadata server."""
        costs, at_processes, at_server = self.costs, 0.0, 0.0
        for c in self.sizes:
            objects, trips = count_objects(c.size, layout)
            in_turn = c.files if c.shared else math.ceil(c.files / self.rates.processes)
            at_processes += in_turn * (costs.open + trips * costs.trip + objects * costs.object)
            at_server += c.files * (costs.served_file + objects * costs.served_object)
        return max(at_processes, at_server)

    def _data(self, c: SizeClass, layout: Layout) -> float:
        """Return the seconds for the bytes of a class on targets, one component after the other."""
        seconds, begin = 0.0, 0
        for component in layout.components:
            end = c.size if component.end == TO_THE_END else min(c.size, component.end)
            if end <= begin:
                break
            held = end - begin
            if component.count:
                filled = min(component.count, math.ceil(held / component.size))
                seconds += c.files * held / self.rates.of(c, filled)
            begin = component.end
        return seconds


def count_objects(size: float, layout: Layout) -> tuple[int, int]:
    """Return how many objects a file of this size has, and how many times a process waits for their targets.

    Components beyond the end of the file have no objects. Data on the MDT comes with the opening of the file.
    """
    objects, trips, begin = 0, 0, 0
    for component in layout.components:
        if begin and begin >= size:
            break
        objects += component.count
        trips += component.count > 0
        begin = component.end
    return objects, trips


def model_files(view: StripeView, size: int) -> FileModel:
    """Build the model of the view's files from its runs, for stripes of `size` bytes.

    First the costs of files are fitted with the rates that physics expects for each stripe count. What the runs took
    beyond these costs then shows the rates for the kind of files that hold most bytes.
    """
    counts = [1 << k for k in range((view.most - 1).bit_length() + 1)]
    sizes = [size] * len(counts)
    rates = Rates(
        alone=_physics(view, counts, sizes, shared=False),
        shared=_physics(view, counts, sizes, shared=True),
        target=_BANDWIDTH,
        mdt=_MDT_BANDWIDTH,
        targets=view.most,
        processes=_active_processes(view),
    )
    model = FileModel(view.file_sizes, rates, Costs(), _observe(view)).fit()
    in_shared = sum(c.bytes for c in view.file_sizes if c.shared)
    mostly_shared = 2 * in_shared > sum(c.bytes for c in view.file_sizes)
    if not model.observed or view.shared_file != mostly_shared:
        return model
    learnt = np.exp(_subtract_mean(respond(_without_overhead(view, model), counts, sizes).mean))
    shown = replace(model.rates, shared=learnt) if mostly_shared else replace(model.rates, alone=learnt)
    return replace(model, rates=shown).fit(np.ones(1))


def _observe(view: StripeView) -> tuple[tuple[Layout, float], ...]:
    """Return layouts and seconds of the newest runs that compare best: with one component and as many processes."""
    volume = sum(c.bytes for c in view.file_sizes)
    valid = [run for run in usable_runs(replace(view, file_size=None)) if volume]
    alike = [run for run in valid if run.processes == view.processes]
    simple = [run for run in alike if run.components <= 1] or [run for run in valid if run.components <= 1] or alike
    return tuple((_layout_of(run), volume / run.throughput) for run in simple[-_COMPARED:])


def _layout_of(run: Past) -> Layout:
    """Return the layout of a run. Where a first component ended is not known, but it held files of up to 1 MiB."""
    before = (Component(end=MIB, count=1),) if run.components > 1 else ()
    return Layout(count=run.count, size=valid_size(run.size), before=before)


def _without_overhead(view: StripeView, model: FileModel) -> StripeView:
    """Return the view as if the runs had only moved data."""
    volume, runs = sum(c.bytes for c in model.sizes), []
    for run in usable_runs(replace(view, file_size=None)):
        measured = volume / run.throughput
        left = max(measured - model.overhead(_layout_of(run)), _LEAST_DATA * measured)
        runs.append(replace(run, throughput=volume / left))
    return replace(view, runs=tuple(runs))


def _active_processes(view: StripeView) -> int:
    """Return how many processes will do I/O: the same part of all as in the run that shows it."""
    if view.io_processes is None:
        return view.processes
    latest = view.telling_run[1] if view.telling_run else view.processes
    return max(1, round(view.processes * min(1.0, view.io_processes / latest)))


def _physics(view: StripeView, counts: Sequence[int], sizes: Sequence[int], shared: bool) -> Floats:
    """Return the rates that physics alone expects, relative to one stripe: the mean over all hypotheses."""
    assumed = replace(view, shared_file=shared)
    at = points(assumed, counts, sizes, np.full(len(counts), view.processes), 1.0, math.nan)
    return np.exp(_subtract_mean(expect_throughput(assumed, at).mean(axis=0)))


def _subtract_mean(log: Floats) -> Floats:
    return np.asarray(log - log[0])
