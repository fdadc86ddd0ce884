"""`forebay`: our own striping policy. It learns how an application responds to its layout, and never risks much.

Where `dca-io` compares single runs and only grows, this policy takes all runs as noisy
measurements of one response (see `response`) and asks of every layout what it would bring:

- **safe**: it may be tried only if even a cautious prediction is not worse than the best known
  layout by more than the `margin`, and only in steps: one doubling or halving from a layout that
  was run, of the size two, of the count up to four where it is sure to be no worse;
- **worth it**: of the safe ones it takes the one with the best prediction plus what a run there
  would teach: how much better the best layout would be expected to be after it, for the runs
  that follow (the knowledge gradient). Noise makes a run teach less, so it settles by itself;
- **back off**: when the last layout turns out worse than the margin allows, the next run is
  with the best known, whatever there is to learn;
- **apart**: a target with n users gives a newcomer 1 / (n + 1), so fewer stripes on free
  targets are taken unless more of them promise more even so.

It needs no chance: the same view gives the same answer.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from forebay.decide.policy import Input, striping
from forebay.decide.stripe.choice import Choice
from forebay.decide.stripe.grid import Grid, grid
from forebay.decide.stripe.response import Floats, Response, respond, usable_runs
from forebay.decide.stripe.start import place
from forebay.decide.stripe.view import Past, Phase, StripeView, Striping
from forebay.decide.stripe.words import many, stripes
from forebay.model.errors import BadInput
from forebay.model.layout import DEFAULT_SIZE
from forebay.model.units import format_bandwidth

_CAUTION = 0.3  # standard deviations that a cautious prediction lies below the mean
_SURE = 1.0  # standard deviations by which it must not be worse for a long step
_STEP, _LONG_STEP, _SIZE_STEP = 1.0, 4.0, 2.0  # doublings
_HORIZON = 10.0  # runs that profit from what one run teaches
_TEACHES = 0.01  # log throughput; what teaches less is not worth a run
_SETTLED = 0.02  # nor is a change that promises less
_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(11)


@dataclass(frozen=True, slots=True)
class _Outlook:
    """The options as they are now: what is expected, in log throughput, and which are safe."""

    grid: Grid
    response: Response
    mean: Floats  # with what others leave
    best: int  # the best that is known
    cautious: Floats  # against the best known
    safe: NDArray[np.bool_]
    last: int | None  # the layout of the last run, if it turned out worse than the margin allows


@striping(
    "forebay",
    inputs=[
        Input.PROCESSES,
        Input.FREE_SPACE,
        Input.TARGETS_IN_USE,
        Input.ACCESS_PATTERN,
        Input.OWN_RUNS,
        Input.RUNS_OF_OTHERS,
    ],
    source="Forebay; knowledge gradient (Frazier et al. 2009) in a safe set (Sui et al. 2015)",
)
def forebay(view: StripeView, *, margin: float = 0.1) -> Striping:
    """What its runs, as noisy measurements, promise most of, without risking more than the margin."""
    if not 0 <= margin < 1:
        raise BadInput("policy option", f"margin must be at least 0 and less than 1, not {margin:g}")
    runs = usable_runs(view)
    outlook = look(view, runs, margin)
    chosen = outlook.best if outlook.last is not None else explore(outlook)
    phase: Phase = "initial" if not view.runs else "rule" if len(view.runs) == 1 else "heuristic"
    choice = Choice(
        count=outlook.grid.counts[chosen],
        size=outlook.grid.sizes[chosen],
        phase=phase,
        because=_because(view, runs, outlook, chosen),
        runs=tuple(run.run for run in runs),
    )
    return choice.at(place(view, choice.count))


def look(view: StripeView, runs: tuple[Past, ...], margin: float) -> _Outlook:
    """What can be expected of every option, and which of them are safe."""
    options = grid(view, runs)
    response = respond(view, options.counts, options.sizes)
    mean = response.mean + np.log(options.share)
    known = options.known if options.known.any() else _default(options)
    best = int(np.flatnonzero(known)[np.argmax(mean[known])])
    spread, least = response.spread(best), math.log1p(-margin)
    cautious = mean - mean[best] - _CAUTION * spread
    sure = mean - mean[best] >= _SURE * spread
    safe = (cautious >= least) & _within_steps(options, known, sure)
    safe[best] = True
    last = options.find(runs[-1].count, runs[-1].size) if runs else None
    worse = last is not None and response.mean[last] - response.mean[best] < least
    return _Outlook(options, response, mean, best, cautious, safe, last if worse else None)


def explore(outlook: _Outlook) -> int:
    """The safe option with most to expect, from it and from what it teaches."""
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


def _default(options: Grid) -> NDArray[np.bool_]:
    """Before the first run, what is known is the default layout."""
    return np.asarray((np.array(options.counts) == 1) & (np.array(options.sizes) == DEFAULT_SIZE))


def _within_steps(options: Grid, known: NDArray[np.bool_], sure: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """The options that are one step from a known one; or as many stripes as there are free targets."""
    count, size = np.log2(options.counts), np.log2(options.sizes)
    counts_apart = np.abs(np.subtract.outer(count, count[known]))
    sizes_apart = np.abs(np.subtract.outer(size, size[known]))
    far = np.where(sure, _LONG_STEP, _STEP)[:, None]
    crowded = options.free < max(options.counts)
    free = (crowded & (np.array(options.counts) == options.free))[:, None]
    steps = (sizes_apart == 0) & ((counts_apart <= far) | free) | (counts_apart == 0) & (sizes_apart <= _SIZE_STEP)
    return np.asarray(steps.any(axis=1))


def _because(view: StripeView, runs: tuple[Past, ...], outlook: _Outlook, chosen: int) -> str:
    said = f"{_layout(outlook, chosen)}: {_prediction(view, runs, outlook, chosen)}"
    fewer = outlook.grid.counts[chosen] == outlook.grid.free < view.most
    return f"{said}; {_only_free(outlook.grid.free)}" if fewer else said


def _prediction(view: StripeView, runs: tuple[Past, ...], outlook: _Outlook, chosen: int) -> str:
    best = "the best known" if outlook.grid.known.any() else "the default"
    start = _from_runs(outlook, chosen, len(runs)) if runs else _from_others(view)
    if outlook.last not in (None, outlook.best):
        return f"{start} back to {best}, as the last layout, {_regression(outlook)}"
    if chosen == outlook.best:
        return f"{start} {best}, and no other safe layout promises enough more"
    gain, cautious = _percent(outlook.mean[chosen] - outlook.mean[outlook.best]), _percent(outlook.cautious[chosen])
    return f"{start} {gain} than {best}, {_layout(outlook, outlook.best)}; cautiously {cautious}"


def _from_runs(outlook: _Outlook, chosen: int, runs: int) -> str:
    percent = 100 * math.sqrt(max(0.0, outlook.response.covariance[chosen, chosen]))
    rate = format_bandwidth(math.exp(outlook.mean[chosen]))
    return f"predicted {rate} (± {percent:.0f} %) from {many(runs, 'run')},"


def _from_others(view: StripeView) -> str:
    others = sum(peer.runs for peer in view.peers)
    known = f" and {many(others, 'run')} of others" if others else " alone"
    return f"it never ran; from physics{known},"


def _regression(outlook: _Outlook) -> str:
    last = outlook.last or 0
    loss = _percent(outlook.response.mean[last] - outlook.response.mean[outlook.best])
    return f"{_layout(outlook, last)}, is predicted to give {loss}"


def _layout(outlook: _Outlook, option: int) -> str:
    return stripes(outlook.grid.counts[option], outlook.grid.sizes[option])


def _percent(log: float) -> str:
    """
    >>> _percent(0.0953), _percent(-0.0513)
    ('10 % more', '5 % less')
    """
    percent = 100 * math.expm1(log)
    return f"{abs(percent):.0f} % {'less' if percent < 0 else 'more'}"


def _only_free(free: int) -> str:
    return f"no more than {many(free, 'target')} in a row {'is' if free == 1 else 'are'} free"
