"""The striping policy `forebay`. It learns how an application responds to its layout, at low risk.

`dca-io` compares single runs and only increases the layout. This policy treats all runs as noisy
measurements of one response (see `response`), and predicts the throughput of every layout:

- **safe**: it tries a layout only if the prediction is not worse than the best known layout by more
  than the `margin`, and the risk of that is at most one in four. It accepts one in two for a first
  look at more stripes than ever (or at fewer, once more turned out worse), because it would
  otherwise never correct a wrong belief, and for a predicted factor of three;
- **near**: it moves one doubling or halving of the count, or two of the size, from a layout that
  was run. If it is sure to lose nothing, or predicts that much, it moves four, or as far as other
  applications did, in both at once; but physics alone justifies this only in the first run;
- **worth it**: of the safe layouts it takes the one with the best prediction plus the value of what
  a run there teaches: the expected gain of the best layout for later runs (the knowledge
  gradient). Noise reduces what a run teaches, so the policy settles;
- **back off**: if the last layout is worse than the margin allows, the next run uses the best known
  layout, whatever there is to learn;
- **apart**: a target with n users gives a new job 1 / (n + 1), so the policy takes fewer stripes on
  free targets, unless more stripes are faster in spite of that.

Files of different sizes then get components with different stripe counts, where the file system has them and that
gains (see `progressive`).

It is deterministic: the same view gives the same answer.
"""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from forebay.decide.policy import STRIPING_INPUTS, Input, striping
from forebay.decide.stripe.choice import Choice
from forebay.decide.stripe.first_target import place
from forebay.decide.stripe.phrases import missing_runs, small_files, stripes
from forebay.decide.stripe.progressive import refine
from forebay.decide.stripe.response import Response, respond, usable_peers, usable_runs
from forebay.decide.stripe.view import Past, Phase, StripeView, Striping
from forebay.model.arrays import Bools, Floats
from forebay.model.errors import BadInput
from forebay.model.layout import DEFAULT_SIZE, GRAIN, KIB, MOST_SIZE
from forebay.model.units import format_bandwidth, plural

SIZES = tuple(256 * KIB << doublings for doublings in range(9))
"""The stripe sizes to try: 256 KiB to 64 MiB."""
_OLD = 6  # counts and sizes of the latest runs to include in the options
_RISK = 0.25  # accepted probability of being worse than the margin allows
_LOOK_RISK = 0.5  # the same for a first look and for a large predicted gain
_SURE_RISK = 0.16  # of being worse at all (one standard deviation); up to this, a gain is sure
_TURNED = 0.95  # probability that more stripes are worse, above which fewer are tried
_PROMISE = 1.0  # log throughput, about a factor of three: justifies a long step
_STEP, _LONG_STEP, _SIZE_STEP = 1.0, 4.0, 2.0  # doublings
_NEAR = 1.0  # doublings of the processes: how close a peer must be
_ENOUGH = 5  # runs of peers with a count before the policy follows them
_HORIZON = 10.0  # runs that profit from what one run teaches
_TEACHES = 0.01  # log throughput; a run that teaches less is not worth it
_SETTLED = 0.02  # log throughput; a change that gains less is not worth it
_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(11)


@dataclass(frozen=True, slots=True)
class Grid:
    """The options: stripe counts and sizes (bytes), ascending, and which of them the application ran with.

    `share` is the bandwidth share left on the busiest target of each option; `free` is the most
    unused targets in a row.
    """

    counts: NDArray[np.int_]
    sizes: NDArray[np.int_]
    known: Bools
    share: Floats
    free: int


@dataclass(frozen=True, slots=True)
class _Outlook:
    """The predictions for all options in log throughput, and which options are safe."""

    grid: Grid
    response: Response
    mean: Floats  # on targets shared with others
    best: int  # the best known option
    gain: Floats  # expected, over the best known option
    risk: Floats  # of being worse than the best known option by more than the margin
    margin: float
    safe: Bools
    last: int | None  # the layout of the last run, if it is worse than the margin allows

    def layout(self, option: int) -> str:
        """Describe an option."""
        return stripes(int(self.grid.counts[option]), int(self.grid.sizes[option]))


@striping(
    "forebay",
    inputs=(*STRIPING_INPUTS, Input.FILE_SIZES),
    source="Forebay; knowledge gradient (Frazier et al. 2009) in a safe set (Sui et al. 2015)",
)
def forebay(view: StripeView, *, margin: float = 0.1) -> Striping:
    """The layout with the best prediction from all runs, at low risk of losing more than the margin."""
    if not 0 <= margin < 1:
        raise BadInput("policy option", f"margin must be at least 0 and less than 1, not {margin:g}")
    phase: Phase = "initial" if not view.runs else "rule" if len(view.runs) == 1 else "heuristic"
    if view.file_size is not None and view.file_size <= SIZES[0]:
        # Files that fit into the smallest stripe lie on one target with any layout, so no layout helps.
        whose = () if view.file_size_run is None else (view.file_size_run,)
        small = Choice(count=1, phase=phase, because=small_files(view, DEFAULT_SIZE), runs=whose)
        return _complete(view, small, margin, is_best=True)
    runs = usable_runs(view)
    outlook = look(view, runs, margin)
    chosen = outlook.best if outlook.last is not None else explore(outlook)
    choice = Choice(
        count=int(outlook.grid.counts[chosen]),
        size=int(outlook.grid.sizes[chosen]),
        phase=phase,
        because=_because(view, runs, outlook, chosen),
        runs=tuple(run.run for run in runs),
    )
    return _complete(view, choice, margin, is_best=chosen == outlook.best)


def _complete(view: StripeView, choice: Choice, margin: float, *, is_best: bool) -> Striping:
    """Return the decision with targets or with components. `is_best` if no other choice is known to be better."""
    share = bandwidth_share(view, choice.count)
    striping = refine(view, choice.at(place(view, choice.count)), margin=margin, share=share)
    if striping.layout.before or not is_best or not choice.count == 1 < view.most:
        return striping
    return replace(striping, because=f"{striping.because}; no striping gains anything")


def grid(view: StripeView, runs: Sequence[Past]) -> Grid:
    """Return the options: powers of two, all targets, all free targets, the request size, and earlier layouts.

    Files too small to fill all stripes lie on fewer targets. Such a layout counts as the one with the stripes in use,
    and is not an option.
    """
    free = _free_in_a_row(view)
    latest = runs[::-1]
    counts = {1 << k for k in range(view.most.bit_length())} | {view.most, min(max(free, 1), view.most)}
    counts |= _first_few(run.count for run in latest if run.count <= view.most)
    sizes = {*SIZES} | _first_few(run.size for run in latest if _is_possible(run.size))
    if _is_possible(view.request_size) and SIZES[0] <= view.request_size < SIZES[-1]:
        sizes.add(view.request_size)
    if view.file_size is not None:
        counts |= {view.useful(size) for size in sizes}
    options = [(count, size) for count in sorted(counts) for size in sorted(sizes) if count <= view.useful(size)]
    ran = {(min(run.count, view.useful(run.size)), run.size) for run in runs}
    shares = {count: bandwidth_share(view, count) for count in counts}
    return Grid(
        counts=np.array([count for count, _ in options]),
        sizes=np.array([size for _, size in options]),
        known=np.array([option in ran for option in options]),
        share=np.array([shares[count] for count, _ in options]),
        free=free,
    )


def bandwidth_share(view: StripeView, count: int) -> float:
    """Return what the busiest target of the row with most free ones leaves a new job: 1 / (users + 1)."""
    users = np.array([target.users for target in view.usable])
    ring = np.concatenate([users, users[: count - 1]])
    idle = np.concatenate([[0], np.cumsum(ring == 0)])
    first = int(np.argmax(idle[count:] - idle[:-count]))
    return 1.0 / (1.0 + float(ring[first : first + count].max()))


def _free_in_a_row(view: StripeView) -> int:
    """Return the most free targets in a row, in a ring."""
    stretches = groupby(view.usable * 2, key=lambda target: target.users == 0)
    longest = max((len(list(targets)) for is_free, targets in stretches if is_free), default=0)
    return min(longest, len(view.usable))


def _first_few(values: Iterable[int]) -> set[int]:
    return set(list(dict.fromkeys(values))[:_OLD])


def _is_possible(size: int) -> bool:
    return size % GRAIN == 0 and GRAIN <= size <= MOST_SIZE


def look(view: StripeView, runs: tuple[Past, ...], margin: float) -> _Outlook:
    """Predict every option, and find the safe ones."""
    options = grid(view, runs)
    response = respond(view, options.counts, options.sizes)
    mean = response.mean + np.log(options.share)
    # Before the first run, only the default layout is known.
    default = (options.counts == 1) & (options.sizes == DEFAULT_SIZE)
    known = options.known if options.known.any() else default
    best = int(np.flatnonzero(known)[np.argmax(mean[known])])
    least, left = math.log1p(-margin), np.log(options.share / options.share[best])
    gain, worse, risk = mean - mean[best], response.risk(best, -left), response.risk(best, least - left)
    near = _within_steps(options, known, _reach(view, options, gain, worse))
    bearable = np.where(_first_look(options.counts, known, best, worse) | (gain >= _PROMISE), _LOOK_RISK, _RISK)
    safe = near & (gain >= least) & (risk <= bearable)
    safe[best] = True
    last = None
    if runs:
        same = np.flatnonzero((options.counts == runs[-1].count) & (options.sizes == runs[-1].size))
        if same.size and response.mean[same[0]] - response.mean[best] < least:
            last = int(same[0])
    return _Outlook(options, response, mean, best, gain, risk, margin, safe, last)


def explore(outlook: _Outlook) -> int:
    """Return the safe option with the highest prediction plus value of learning."""
    safe = np.flatnonzero(outlook.safe)
    covariance = outlook.response.covariance[np.ix_(safe, safe)]
    mean = outlook.mean[safe]
    # A run at option x moves the mean of y by teaches[y, x] times a standard normal variable.
    teaches = covariance / np.sqrt(np.maximum(0.0, np.diag(covariance)) + outlook.response.noise**2)
    later = (mean[:, None, None] + teaches[:, :, None] * _NODES).max(axis=0) @ (_WEIGHTS / _WEIGHTS.sum())
    learnt = later - mean.max()
    value = mean - outlook.mean[outlook.best] + _HORIZON * np.where(learnt < _TEACHES, 0.0, learnt)
    top = int(np.argmax(value))
    return int(safe[top]) if value[top] >= _SETTLED else outlook.best


def _first_look(counts: NDArray[np.int_], known: Bools, best: int, worse: Floats) -> Bools:
    """Select options with more stripes than were ever run, if the best known has the most so far.

    If it has the fewest, select those with fewer, but only once more are sure to be worse or not
    possible: half the stripes can halve the throughput, while unnecessary stripes cost little.
    """
    fewest, most = counts[known].min(), counts[known].max()
    if counts[best] == most < counts.max():
        return np.asarray(counts > most)
    turned = (worse[known & (counts > counts[best])] >= _TURNED).all()
    return np.asarray((counts < fewest) & (counts[best] == fewest) & turned)


def _reach(view: StripeView, options: Grid, gain: Floats, worse: Floats) -> Floats:
    """Return, for each option, how many doublings its count may differ from a known one."""
    runs: Counter[int] = Counter()  # of peers with similar process counts, by stripe count
    for peer in usable_peers(view):
        if abs(math.log2(peer.processes / view.processes)) <= _NEAR:
            runs[peer.count] += peer.runs
    followed = options.counts <= max((count for count, number in runs.items() if number >= _ENOUGH), default=0)
    # Before two counts can be compared, predictions rest on physics alone: worth one long step at most.
    first, compared = not options.known.any(), len(np.unique(options.counts[options.known])) > 1
    promising = gain >= _PROMISE
    long = (followed | compared) & (promising | (worse <= _SURE_RISK)) | promising & first
    return np.where(long, np.where(followed, math.inf, _LONG_STEP), _STEP)


def _within_steps(options: Grid, known: Bools, reach: Floats) -> Bools:
    """Select options within `reach` doublings of a known one, or with one stripe for each free target."""
    count, size = np.log2(options.counts), np.log2(options.sizes)
    counts_apart = np.abs(np.subtract.outer(count, count[known]))
    sizes_apart = np.abs(np.subtract.outer(size, size[known]))
    both = (counts_apart <= reach[:, None]) & (sizes_apart <= np.where(reach > _STEP, _SIZE_STEP, 0.0)[:, None])
    free = ((options.free < options.counts.max()) & (options.counts == options.free))[:, None]
    steps = both | (sizes_apart == 0) & free | (counts_apart == 0) & (sizes_apart <= _SIZE_STEP)
    return np.asarray(steps.any(axis=1))


def _because(view: StripeView, runs: tuple[Past, ...], outlook: _Outlook, chosen: int) -> str:
    options, best = outlook.grid, "the best known" if outlook.grid.known.any() else "the default"
    if runs:
        percent = 100 * math.sqrt(max(0.0, outlook.response.covariance[chosen, chosen]))
        rate = format_bandwidth(math.exp(outlook.mean[chosen]))
        start = f"predicted {rate} (± {percent:.0f} %) from {plural(len(runs), 'run')},"
    else:
        others = sum(peer.runs for peer in view.peers)
        known = f" and {plural(others, 'run')} of others" if others else " alone"
        start = f"{missing_runs(view, 'both layout and performance')}; from physics{known},"
    if outlook.last not in (None, outlook.best):
        last = outlook.last or 0
        loss = _percent(outlook.response.mean[last] - outlook.response.mean[outlook.best])
        why = f"back to {best}, as the last layout, {outlook.layout(last)}, is predicted to give {loss}"
    elif chosen == outlook.best:
        why = f"{best}, and no other safe layout promises enough more"
    else:
        why = f"{_percent(outlook.gain[chosen])} than {best}, {outlook.layout(outlook.best)}; the risk of more than "
        why += f"{100 * outlook.margin:.0f} % less is {100 * outlook.risk[chosen]:.0f} %"
    because = f"{outlook.layout(chosen)}: {start} {why}"
    count, size, free = int(options.counts[chosen]), int(options.sizes[chosen]), options.free
    if count == view.useful(size) < min(view.most, free):
        return f"{because}; {small_files(view, size)}"
    if count == free < view.most:
        return f"{because}; no more than {plural(free, 'target')} in a row {'is' if free == 1 else 'are'} free"
    return because


def _percent(log: float) -> str:
    """
    >>> _percent(0.0953), _percent(-0.0513)
    ('10 % more', '5 % less')
    """
    percent = 100 * math.expm1(log)
    return f"{abs(percent):.0f} % {'less' if percent < 0 else 'more'}"
