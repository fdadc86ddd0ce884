"""A synthetic year of requests for burst-buffer space, like that of Theta (Argonne) in 2020.

The year that the StorAlloc paper replays is not public. Its published results have the number of requests of each size,
their volumes and durations, and the shares that are refused or fail on 256 platforms. The requests drawn here have
exactly the same totals, and come close to the other figures.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from forebay.model.arrays import Floats, Ints
from forebay.model.space_requests import Requests
from forebay.profile.synthetic_curves import apportion

REQUESTS = 24_001
FIRST_START = 1_577_931_378  # 2 January 2020
SPAN = 31_515_560  # seconds from the first start to the last end

_GB = 10**9
_PART = 200  # GB; StorAlloc splits larger requests, and the size classes are multiples of it
_SHORTEST, _LONGEST = 60.0, 86_000.0  # seconds; under a day
_ROUNDS = 20  # of scaling and clipping


class _Class(NamedTuple):
    """Requests of `least` to `most` whole parts and a remainder of `rest` GB on average.

    `gigabytes` is their total, each rounded up. `seconds` is their mean duration, weighted by size,
    and `spread` the standard deviation of the duration's logarithm. They come in sets of
    `together`, whose starts are spread over `within` seconds.
    """

    requests: int
    gigabytes: int
    rest: float
    least: int
    most: int
    seconds: float
    spread: float
    longest: float
    together: int
    within: float


# Requests, gigabytes and seconds are published, and so is the number of parts of all these classes,
# 8,032, which gives `rest`. The other figures are the result of a search: with them, the shares of
# StorAlloc's 256 runs come nearest to the published ones.
_MEDIUM = _Class(419, 217_456, 128.25, 1, 4, 11_507, 0.97, _LONGEST, 14, 161_000)
_LONG = _Class(237, 357_767, 128.25, 5, 9, 21_546, 1.05, _LONGEST, 14, 159_000)
_SHORT = _Class(166, 368_689, 128.25, 10, 19, 2_145, 1.10, 5_400, 2, 100)
_RARE = _Class(6, 35_473, 128.25, 20, 39, 15_370, 0.68, _LONGEST, 1, 0)
_LARGE = _Class(45, 563_060, 100.0, 40, 109, 593, 0.70, _LONGEST, 0, 0)  # not in sets: see below
_MEDIUM_MEAN = 19_546.0  # seconds, not weighted by size: smaller requests last longer

# Requests of up to one part. Most are a few megabytes, which count as 1 GB.
_SMALL, _SMALL_GIGABYTES = 23_128, 87_486
_TINY = 21_028
_UNROUNDED = 1_607_839  # GB of all requests before each is rounded up
_SMALL_SECONDS, _SMALL_SPREAD, _SMALL_TOGETHER, _SMALL_WITHIN = 3_350.0, 1.6, 14, 20_000.0
# An ensemble of tiny requests starts within one minute, when others hold about _ENSEMBLE_BESIDE parts (the best of
# _ENSEMBLE_MOMENTS moments). Then 183 requests run at once, and split, 206 parts, the most of the year.
_ENSEMBLE, _ENSEMBLE_BESIDE, _ENSEMBLE_MOMENTS = 176, 23, 400

# Large requests come in sessions, `_BETWEEN` seconds from one to the next, when others hold some
# space but not too much: of `_MOMENTS` moments, a session takes the one with `_QUIETER` quieter ones.
_SESSIONS, _BETWEEN = 22, 15_600.0
_MOMENTS, _QUIETER = 5, 3
# Some of them come with others. Their place among all, from the largest down, decides which.
_PEAK = ((3 / 45, 4 / 45), (29 / 45, 30 / 45))  # together they need the most space of the year, in the quietest session
_PAIRED = (39 / 45, 45 / 45)  # two of these at once
_ATTENDED = (14 / 45, 22 / 45)  # while these run, short ones run one after the other
_ATTENDANTS = 3
# The pairing of remainders and sizes decides which requests StorAlloc refuses when it splits.
# Multiples of the golden ratio spread the remainders evenly over the sizes.
_GOLDEN, _OFFSET = (5**0.5 - 1) / 2, 0.76

# Seconds between submission and start: the median and the standard deviation of the logarithm.
_WAIT, _WAIT_SPREAD, _LARGE_WAIT = 84_500.0, 0.35, 155_000.0


class _Drawn(NamedTuple):
    """Requests in whole gigabytes and in seconds since the first start."""

    gigabytes: Ints
    start: Floats
    duration: Floats
    submitted: Floats


def theta_2020(rng: np.random.Generator, requests: int = REQUESTS) -> Requests:
    """Draw a year like Theta's 2020, in the order of submission; the time grows with the number of `requests`.

    >>> year = theta_2020(np.random.default_rng(1))
    >>> len(year), int((year.bytes > 8000 * 10**9).sum())
    (24001, 45)
    """
    if requests < 1:
        raise ValueError(f"the number of requests must be at least 1, not {requests}")
    classes = (_MEDIUM, _LONG, _SHORT, _RARE, _LARGE)
    small, medium, long, short, rare, large = apportion(requests, [_SMALL, *(each.requests for each in classes)])
    span = round(SPAN * requests / REQUESTS)

    whole, rest = _draw_wholes_and_rests(_LARGE, large, rng)
    ranks = np.argsort(np.argsort((np.arange(large) * _GOLDEN + _OFFSET) % 1))
    large_sizes = np.sort(_PART * whole + rest[ranks])[::-1]
    large_durations = _draw_large_durations(large_sizes, rng)
    short_sizes = _draw_sizes(_SHORT, short, rng)
    attended = large_durations[_in_range(large, _ATTENDED)]
    attendants, others = np.split(short_sizes, [_ATTENDANTS * attended.size])
    # Attendants run one after the other in the second half of the large request.
    attending = np.repeat(np.ceil(0.45 * attended / _ATTENDANTS), _ATTENDANTS)[: attendants.size]
    left = _SHORT.seconds * short_sizes.sum() - (attendants * attending).sum()
    alone = _join(
        _draw_medium(medium, span, rng),
        _draw_sets(_LONG, _draw_sizes(_LONG, long, rng), span, rng),
        _draw_sets(_SHORT._replace(seconds=left / max(others.sum(), 1)), others, span, rng),
        _draw_sets(_RARE, _draw_sizes(_RARE, rare, rng), span, rng),
    )
    sessions = _draw_sessions(large_sizes, large_durations, alone, span, rng)
    beside = _join(alone, sessions, _draw_attendants(sessions, attendants, attending, rng))
    drawn = _join(_draw_small(small, span, beside, rng), beside)
    # The first request starts at once, and the last one ends at the end of the time span.
    drawn.start[drawn.start.argmin()] = 0
    last = (drawn.start + drawn.duration).argmax()
    drawn.start[last] = max(span - drawn.duration[last], 0)
    return _as_requests(drawn, rng)


def _draw_sizes(kind: _Class, count: int, rng: np.random.Generator) -> Ints:
    """Draw `count` sizes of the class in random order, GB."""
    whole, rest = _draw_wholes_and_rests(kind, count, rng)
    return rng.permutation(_PART * whole + rng.permutation(rest))


def _draw_wholes_and_rests(kind: _Class, count: int, rng: np.random.Generator) -> tuple[Ints, Ints]:
    """Draw the whole parts and the remainders (GB) of the class's sizes, both from the smallest up."""
    total = round(kind.gigabytes * count / kind.requests)
    lowest, highest = -(-(total - (_PART - 1) * count) // _PART), (total - count) // _PART
    wholes = min(max(round((total - kind.rest * count) / _PART), lowest), highest)
    rests = total - _PART * wholes
    parts = _draw_between(kind.least, kind.most + 1, wholes / max(count, 1) + 0.5, count, rng) - 0.5
    beyond = _draw_between(1, _PART, rests / max(count, 1), count, rng)
    return _round_to(parts, wholes, kind.least, kind.most), _round_to(beyond, rests, 1, _PART - 1)


def _draw_between(least: float, most: float, mean: float, count: int, rng: np.random.Generator) -> Floats:
    """Draw numbers evenly from a truncated exponential distribution, from the smallest up."""
    steep = _steepness((mean - least) / (most - least))
    shares: Floats = -np.log1p(_draw_evenly(count, rng) * np.expm1(-steep)) / steep
    return least + (most - least) * shares


def _steepness(mean: float) -> float:
    """The k for which the density exp(-k x) on [0, 1] has this mean."""
    low, high = -60.0, 60.0
    for _ in range(60):
        k = (low + high) / 2
        if 1 / k - 1 / np.expm1(k) > mean if k else mean < 0.5:
            low = k
        else:
            high = k
    return high


def _draw_evenly(count: int, rng: np.random.Generator) -> Floats:
    """One number in each of `count` equal parts of [0, 1), from the smallest up."""
    return (np.arange(count) + rng.random(count)) / max(count, 1)


def _round_to(numbers: Floats, total: int, least: int, most: int) -> Ints:
    """Whole numbers near the given ones with this total, the largest remainders rounded up."""
    whole = np.clip(np.floor(numbers), least, most).astype(np.int64)
    while numbers.size and (missing := int(total - whole.sum())):
        step = 1 if missing > 0 else -1
        able = np.flatnonzero(whole < most if step > 0 else whole > least)
        if not able.size:
            break
        by_remainder = np.argsort(step * (whole - numbers)[able], kind="stable")
        whole[able[by_remainder[: abs(missing)]]] += step
    return whole


def _scale(durations: Floats, weights: Ints, mean: float, longest: float) -> Floats:
    """The durations multiplied so that their weighted mean is `mean` although none is over `longest`; whole seconds."""
    for _ in range(_ROUNDS * min(durations.size, 1)):
        durations = np.clip(durations * (mean * weights.sum() / (durations * weights).sum()), _SHORTEST, longest)
    return np.round(durations)


def _draw_large_durations(sizes: Ints, rng: np.random.Generator) -> Floats:
    """Draw the durations of large requests; those with attendants get the shortest."""
    drawn = np.sort(rng.lognormal(0, _LARGE.spread, sizes.size))
    attended = _in_range(sizes.size, _ATTENDED)
    others = np.setdiff1d(np.arange(sizes.size), attended)
    drawn[np.concatenate((rng.permutation(attended), rng.permutation(others)))] = drawn.copy()
    return _scale(drawn, sizes, _LARGE.seconds, _LARGE.longest)


def _in_range(count: int, places: tuple[float, float]) -> NDArray[np.intp]:
    """The indices of `count` items whose places are in this range; the first's is near 0, the last's near 1."""
    place = (np.arange(count) + 0.5) / max(count, 1)
    return np.flatnonzero((place >= places[0]) & (place < places[1]))


def _draw_medium(count: int, span: int, rng: np.random.Generator) -> _Drawn:
    """Draw medium requests; their durations fall with a power of their size, so that both means are met."""
    sizes = _draw_sizes(_MEDIUM, count, rng)
    chance = rng.lognormal(0, _MEDIUM.spread, count)
    low, high = 0.0, 12.0
    durations = chance
    for _ in range(25 * min(count, 1)):
        power = (low + high) / 2
        durations = _scale(chance * (sizes / sizes.mean()) ** -power, sizes, _MEDIUM.seconds, _MEDIUM.longest)
        low, high = (power, high) if durations.mean() < _MEDIUM_MEAN else (low, power)
    return _place(sizes, durations, _set_starts(count, _MEDIUM.together, _MEDIUM.within, span, rng), span, rng)


def _draw_sets(kind: _Class, sizes: Ints, span: int, rng: np.random.Generator) -> _Drawn:
    starts = _set_starts(sizes.size, kind.together, kind.within, span, rng)
    durations = _scale(rng.lognormal(0, kind.spread, sizes.size), sizes, kind.seconds, kind.longest)
    return _place(sizes, durations, starts, span, rng)


def _set_starts(count: int, together: int, within: float, span: int, rng: np.random.Generator) -> Floats:
    """Draw the starts of sets, evenly spread over the time span."""
    sets = -(-count // together)
    return np.repeat(span * rng.permutation(_draw_evenly(sets, rng)), together)[:count] + within * rng.random(count)


def _place(sizes: Ints, durations: Floats, starts: Floats, span: int, rng: np.random.Generator) -> _Drawn:
    """Place requests in time; a start too late to end within the span wraps around to its beginning."""
    starts = np.floor(starts % np.maximum(span - durations, 1))
    return _Drawn(sizes, starts, durations, starts - _WAIT * rng.lognormal(0, _WAIT_SPREAD, sizes.size))


def _draw_small(count: int, span: int, beside: _Drawn, rng: np.random.Generator) -> _Drawn:
    """Draw small requests, the tiny ones first. An ensemble of these starts within a minute, and none is shorter."""
    tiny = round(_TINY * count / _SMALL)
    total = round(_SMALL_GIGABYTES * count / _SMALL) - tiny
    others = _round_to(_draw_between(2, _PART, total / max(count - tiny, 1), count - tiny, rng), total, 2, _PART - 1)
    sizes = np.concatenate((np.ones(tiny, np.int64), rng.permutation(others)))
    durations = rng.lognormal(0, _SMALL_SPREAD, count)
    durations = _scale(durations, np.ones(count, np.int64), _SMALL_SECONDS, _LONGEST)
    starts = _set_starts(count, _SMALL_TOGETHER, _SMALL_WITHIN, span, rng)
    # An ensemble starts in each of equal parts of the span, when others hold the wanted number of parts.
    ensembles = round(count / _SMALL)
    moments = span / max(ensembles, 1) * (np.arange(ensembles)[:, None] + rng.random((ensembles, _ENSEMBLE_MOMENTS)))
    parts = beside._replace(gigabytes=-(-beside.gigabytes // _PART))
    nearest = np.abs(_count_held(parts, moments) - _ENSEMBLE_BESIDE).argmin(axis=1)
    of_ensembles = np.repeat(moments[np.arange(ensembles), nearest], _ENSEMBLE)
    starts[: of_ensembles.size] = of_ensembles + (_SHORTEST - 1) * rng.random(of_ensembles.size)
    return _place(sizes, durations, starts, span, rng)


def _draw_sessions(sizes: Ints, durations: Floats, others: _Drawn, span: int, rng: np.random.Generator) -> _Drawn:
    """Draw large requests, some of which come with another."""
    count = sizes.size
    sessions = max(round(_SESSIONS * count / _LARGE.requests), 1)
    peaks = list(zip(*(_in_range(count, places) for places in _PEAK), strict=False))
    turn = rng.permutation(count)
    for session, (first, _) in enumerate(peaks):
        turn[turn == session], turn[first] = turn[first], session
    starts = _session_starts(sessions, -(-count // sessions), others, span, rng)[turn % sessions]
    starts += _BETWEEN * (turn // sessions + 0.3 * (rng.random(count) - 0.5))
    paired = rng.permutation(_in_range(count, _PAIRED))
    pairs = paired.size // 2
    lead, follow = paired[:pairs], paired[pairs : 2 * pairs]
    starts[follow] = starts[lead] + durations[lead] * rng.uniform(0.05, 0.15, pairs)
    for first, second in peaks:
        starts[second] = starts[first] + 0.3 * min(durations[first], durations[second])
    starts = np.floor(starts)
    return _Drawn(sizes, starts, durations, starts - _LARGE_WAIT * rng.lognormal(0, _WAIT_SPREAD, count))


def _session_starts(sessions: int, turns: int, others: _Drawn, span: int, rng: np.random.Generator) -> Floats:
    """Choose a moment in each of `sessions` equal parts of the span, those at which others hold least first."""
    within = (np.arange(_MOMENTS) + rng.random((sessions, _MOMENTS))) / _MOMENTS
    moments = span / sessions * (np.arange(sessions)[:, None] + 0.02 + 0.94 * within)
    held = _count_held(others, moments[:, :, None] + _BETWEEN * np.arange(turns)).max(axis=2, initial=0)
    chosen = np.arange(sessions), np.argsort(held, axis=1, kind="stable")[:, _QUIETER]
    return moments[chosen][np.argsort(held[chosen], kind="stable")]


def _count_held(by: _Drawn, moments: Floats) -> Ints:
    """The gigabytes held at these moments."""
    level = np.zeros(moments.shape, np.int64)
    for times, sign in ((by.start, 1), (by.start + by.duration, -1)):
        order = np.argsort(times)
        so_far = np.concatenate(([0], np.cumsum(by.gigabytes[order])))
        level += sign * so_far[np.searchsorted(times[order], moments, "right")]
    return level


def _draw_attendants(large: _Drawn, sizes: Ints, durations: Floats, rng: np.random.Generator) -> _Drawn:
    """Draw short requests that run during a large one and are submitted shortly before it."""
    hosts = np.repeat(_in_range(large.start.size, _ATTENDED), _ATTENDANTS)[: sizes.size]
    turn = np.arange(sizes.size) % _ATTENDANTS + 0.1 * rng.random(sizes.size)
    starts = large.start[hosts] + np.floor(large.duration[hosts] * (0.5 + 0.5 * turn / _ATTENDANTS))
    return _Drawn(sizes, starts, durations, large.submitted[hosts] - 60)


def _join(*drawn: _Drawn) -> _Drawn:
    return _Drawn(*(np.concatenate(columns) for columns in zip(*drawn, strict=True)))


def _as_requests(drawn: _Drawn, rng: np.random.Generator) -> Requests:
    """Turn gigabytes into bytes that round up to them; requests of 1 GB become tiny."""
    submitted = np.minimum(drawn.submitted, drawn.start)
    order = np.argsort(submitted, kind="stable")
    gigabytes = drawn.gigabytes[order]
    size = gigabytes * _GB - (0.99 * _GB * rng.random(gigabytes.size)).astype(np.int64)
    tiny = np.flatnonzero(gigabytes == 1)
    left = _UNROUNDED * _GB / REQUESTS * gigabytes.size - (size.sum() - size[tiny].sum())
    shares = rng.lognormal(0, 1, tiny.size)
    shares *= max(left, _GB / 1000 * tiny.size) / max(shares.sum(), 1)
    size[tiny] = np.clip(shares, 1, _GB).astype(np.int64)
    return Requests(
        ids=np.arange(size.size),
        submitted=FIRST_START + np.floor(submitted[order]),
        start=FIRST_START + drawn.start[order],
        duration=drawn.duration[order],
        bytes=size,
        volume=size.astype(np.float64),
        origin=f"{size.size:,} synthetic requests like those of Theta in 2020",
    )
