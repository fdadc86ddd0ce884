"""A synthetic year of requests for burst-buffer space, like that of Theta (Argonne) in 2020.

The year that the StorAlloc paper replays isn't public. Its published results show how many requests of each size there
are, their volumes and durations, and what is refused and what fails on 256 platforms. The requests drawn here agree
with them, in the totals exactly, in the rest closely.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from forebay.model.request import Floats, Ints, Requests
from forebay.profile.synthetic_curves import apportion

REQUESTS = 24_001
FIRST_START = 1_577_931_378  # 2 January 2020
SPAN = 31_515_560  # seconds from the first start to the last end

_GB = 10**9
_PART = 200  # GB; StorAlloc splits above this, and all classes of size are multiples of it
_SHORTEST, _LONGEST = 60.0, 86_000.0  # seconds; under a day
_ROUNDS = 20  # of scaling and cutting off


class _Class(NamedTuple):
    """Requests of `least` to `most` whole parts and a rest, which is `rest` GB on average.

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


# Requests, gigabytes and seconds are the year's own; so is the number of parts that all of these
# classes make, 8,032, which gives `rest`. The other figures were searched for: with them the
# shares of StorAlloc's 256 runs come out nearest to the published ones.
_MEDIUM = _Class(419, 217_456, 128.25, 1, 4, 11_507, 0.97, _LONGEST, 14, 161_000)
_LONG = _Class(237, 357_767, 128.25, 5, 9, 21_546, 1.05, _LONGEST, 14, 159_000)
_SHORT = _Class(166, 368_689, 128.25, 10, 19, 2_145, 1.10, 5_400, 2, 100)
_RARE = _Class(6, 35_473, 128.25, 20, 39, 15_370, 0.68, _LONGEST, 1, 0)
_LARGE = _Class(45, 563_060, 100.0, 40, 109, 593, 0.70, _LONGEST, 0, 0)  # not in sets: see below
_MEDIUM_MEAN = 19_546.0  # seconds, not weighted by size: the smaller, the longer

# Up to one part. Most hold some megabytes, which count as 1 GB.
_SMALL, _SMALL_GIGABYTES = 23_128, 87_486
_TINY = 21_028
_UNROUNDED = 1_607_839  # GB of all requests before each is rounded up
_SMALL_SECONDS, _SMALL_SPREAD, _SMALL_TOGETHER, _SMALL_WITHIN = 3_350.0, 1.6, 14, 20_000.0
# Of the tiny ones, so many start in one minute, when others hold so many parts: with their own then 183 requests run
# at once and, split, 206 parts, the most of the year. It is the one of so many moments that comes nearest.
_ENSEMBLE, _ENSEMBLE_BESIDE, _ENSEMBLE_MOMENTS = 176, 23, 400

# Large requests come in sessions, `_BETWEEN` seconds from one to the next, when others hold some
# space but not too much: a session has that of `_MOMENTS` moments to which `_QUIETER` are quieter.
_SESSIONS, _BETWEEN = 22, 15_600.0
_MOMENTS, _QUIETER = 5, 3
# Some of them don't come alone; which, goes by their place among all, from the largest down.
_PEAK = ((3 / 45, 4 / 45), (29 / 45, 30 / 45))  # these two at once need more than ever else, in the quietest session
_PAIRED = (39 / 45, 45 / 45)  # two of these at once
_ATTENDED = (14 / 45, 22 / 45)  # while these run, short ones run one after the other
_ATTENDANTS = 3
# Which rest goes with which size decides who is refused when StorAlloc splits. Multiples of the
# golden ratio spread the rests evenly over the sizes.
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
    """A year like Theta's 2020, in the order of submission; other numbers of `requests` take more or less than a year.

    >>> year = theta_2020(np.random.default_rng(1))
    >>> len(year), int((year.bytes > 8000 * 10**9).sum())
    (24001, 45)
    """
    if requests < 1:
        raise ValueError(f"the number of requests must be at least 1, not {requests}")
    classes = (_MEDIUM, _LONG, _SHORT, _RARE, _LARGE)
    small, medium, long, short, rare, large = apportion(requests, [_SMALL, *(each.requests for each in classes)])
    span = round(SPAN * requests / REQUESTS)

    whole, rest = _wholes_and_rests(_LARGE, large, rng)
    ranks = np.argsort(np.argsort((np.arange(large) * _GOLDEN + _OFFSET) % 1))
    large_sizes = np.sort(_PART * whole + rest[ranks])[::-1]
    large_durations = _large_durations(large_sizes, rng)
    short_sizes = _sizes(_SHORT, short, rng)
    attended = large_durations[_in_range(large, _ATTENDED)]
    attendants, others = np.split(short_sizes, [_ATTENDANTS * attended.size])
    # Attendants run one after the other in the second half of what they attend.
    attending = np.repeat(np.ceil(0.45 * attended / _ATTENDANTS), _ATTENDANTS)[: attendants.size]
    left = _SHORT.seconds * short_sizes.sum() - (attendants * attending).sum()
    alone = _join(
        _medium(medium, span, rng),
        _in_sets(_LONG, _sizes(_LONG, long, rng), span, rng),
        _in_sets(_SHORT._replace(seconds=left / max(others.sum(), 1)), others, span, rng),
        _in_sets(_RARE, _sizes(_RARE, rare, rng), span, rng),
    )
    sessions = _in_sessions(large_sizes, large_durations, alone, span, rng)
    beside = _join(alone, sessions, _attend(sessions, attendants, attending, rng))
    drawn = _join(_small(small, span, beside, rng), beside)
    # The first to start does so at once, and the last to end ends with the time.
    drawn.start[drawn.start.argmin()] = 0
    last = (drawn.start + drawn.duration).argmax()
    drawn.start[last] = max(span - drawn.duration[last], 0)
    return _as_requests(drawn, rng)


def _sizes(kind: _Class, count: int, rng: np.random.Generator) -> Ints:
    """So many sizes of the class in no order, GB."""
    whole, rest = _wholes_and_rests(kind, count, rng)
    return rng.permutation(_PART * whole + rng.permutation(rest))


def _wholes_and_rests(kind: _Class, count: int, rng: np.random.Generator) -> tuple[Ints, Ints]:
    """How many whole parts and what rests make up the class, both from the smallest up."""
    total = round(kind.gigabytes * count / kind.requests)
    lowest, highest = -(-(total - (_PART - 1) * count) // _PART), (total - count) // _PART
    wholes = min(max(round((total - kind.rest * count) / _PART), lowest), highest)
    rests = total - _PART * wholes
    parts = _between(kind.least, kind.most + 1, wholes / max(count, 1) + 0.5, count, rng) - 0.5
    beyond = _between(1, _PART, rests / max(count, 1), count, rng)
    return _whole(parts, wholes, kind.least, kind.most), _whole(beyond, rests, 1, _PART - 1)


def _between(least: float, most: float, mean: float, count: int, rng: np.random.Generator) -> Floats:
    """Numbers from an exponential distribution cut off at both ends, evenly drawn, from the smallest up."""
    steep = _steepness((mean - least) / (most - least))
    shares: Floats = -np.log1p(_even(count, rng) * np.expm1(-steep)) / steep
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


def _even(count: int, rng: np.random.Generator) -> Floats:
    """One number in each of `count` equal parts of [0, 1), from the smallest up."""
    return (np.arange(count) + rng.random(count)) / max(count, 1)


def _whole(numbers: Floats, total: int, least: int, most: int) -> Ints:
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


def _large_durations(sizes: Ints, rng: np.random.Generator) -> Floats:
    """The shortest ones are of those that have attendants."""
    drawn = np.sort(rng.lognormal(0, _LARGE.spread, sizes.size))
    attended = _in_range(sizes.size, _ATTENDED)
    others = np.setdiff1d(np.arange(sizes.size), attended)
    drawn[np.concatenate((rng.permutation(attended), rng.permutation(others)))] = drawn.copy()
    return _scale(drawn, sizes, _LARGE.seconds, _LARGE.longest)


def _in_range(count: int, places: tuple[float, float]) -> NDArray[np.intp]:
    """Which of `count` have a place in this range, the first's being near 0 and the last's near 1."""
    place = (np.arange(count) + 0.5) / max(count, 1)
    return np.flatnonzero((place >= places[0]) & (place < places[1]))


def _medium(count: int, span: int, rng: np.random.Generator) -> _Drawn:
    """Medium requests: their durations fall with a power of their size, so that both means are met."""
    sizes = _sizes(_MEDIUM, count, rng)
    chance = rng.lognormal(0, _MEDIUM.spread, count)
    low, high = 0.0, 12.0
    durations = chance
    for _ in range(25 * min(count, 1)):
        power = (low + high) / 2
        durations = _scale(chance * (sizes / sizes.mean()) ** -power, sizes, _MEDIUM.seconds, _MEDIUM.longest)
        low, high = (power, high) if durations.mean() < _MEDIUM_MEAN else (low, power)
    return _place(sizes, durations, _set_starts(count, _MEDIUM.together, _MEDIUM.within, span, rng), span, rng)


def _in_sets(kind: _Class, sizes: Ints, span: int, rng: np.random.Generator) -> _Drawn:
    starts = _set_starts(sizes.size, kind.together, kind.within, span, rng)
    durations = _scale(rng.lognormal(0, kind.spread, sizes.size), sizes, kind.seconds, kind.longest)
    return _place(sizes, durations, starts, span, rng)


def _set_starts(count: int, together: int, within: float, span: int, rng: np.random.Generator) -> Floats:
    """Starts of sets that are evenly spread over the time."""
    sets = -(-count // together)
    return np.repeat(span * rng.permutation(_even(sets, rng)), together)[:count] + within * rng.random(count)


def _place(sizes: Ints, durations: Floats, starts: Floats, span: int, rng: np.random.Generator) -> _Drawn:
    """Whoever would end after the end of time starts anew at its beginning."""
    starts = np.floor(starts % np.maximum(span - durations, 1))
    return _Drawn(sizes, starts, durations, starts - _WAIT * rng.lognormal(0, _WAIT_SPREAD, sizes.size))


def _small(count: int, span: int, beside: _Drawn, rng: np.random.Generator) -> _Drawn:
    """The tiny ones come first; an ensemble of them starts in one minute, which none is shorter than."""
    tiny = round(_TINY * count / _SMALL)
    total = round(_SMALL_GIGABYTES * count / _SMALL) - tiny
    others = _whole(_between(2, _PART, total / max(count - tiny, 1), count - tiny, rng), total, 2, _PART - 1)
    sizes = np.concatenate((np.ones(tiny, np.int64), rng.permutation(others)))
    durations = rng.lognormal(0, _SMALL_SPREAD, count)
    durations = _scale(durations, np.ones(count, np.int64), _SMALL_SECONDS, _LONGEST)
    starts = _set_starts(count, _SMALL_TOGETHER, _SMALL_WITHIN, span, rng)
    # An ensemble starts in each of equal parts of the time, when others hold the wanted number of parts.
    ensembles = round(count / _SMALL)
    moments = span / max(ensembles, 1) * (np.arange(ensembles)[:, None] + rng.random((ensembles, _ENSEMBLE_MOMENTS)))
    parts = beside._replace(gigabytes=-(-beside.gigabytes // _PART))
    nearest = np.abs(_count_held(parts, moments) - _ENSEMBLE_BESIDE).argmin(axis=1)
    of_ensembles = np.repeat(moments[np.arange(ensembles), nearest], _ENSEMBLE)
    starts[: of_ensembles.size] = of_ensembles + (_SHORTEST - 1) * rng.random(of_ensembles.size)
    return _place(sizes, durations, starts, span, rng)


def _in_sessions(sizes: Ints, durations: Floats, others: _Drawn, span: int, rng: np.random.Generator) -> _Drawn:
    """Large requests, some of which come with another."""
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
    """One moment in each of `sessions` equal parts of the time, those at which others hold least first."""
    within = (np.arange(_MOMENTS) + rng.random((sessions, _MOMENTS))) / _MOMENTS
    moments = span / sessions * (np.arange(sessions)[:, None] + 0.02 + 0.94 * within)
    held = _count_held(others, moments[:, :, None] + _BETWEEN * np.arange(turns)).max(axis=2, initial=0)
    chosen = np.arange(sessions), np.argsort(held, axis=1, kind="stable")[:, _QUIETER]
    return moments[chosen][np.argsort(held[chosen], kind="stable")]


def _count_held(by: _Drawn, moments: Floats) -> Ints:
    """How many gigabytes are held at these moments."""
    level = np.zeros(moments.shape, np.int64)
    for times, sign in ((by.start, 1), (by.start + by.duration, -1)):
        order = np.argsort(times)
        so_far = np.concatenate(([0], np.cumsum(by.gigabytes[order])))
        level += sign * so_far[np.searchsorted(times[order], moments, "right")]
    return level


def _attend(large: _Drawn, sizes: Ints, durations: Floats, rng: np.random.Generator) -> _Drawn:
    """Short requests that run while a large one does, submitted shortly before it."""
    hosts = np.repeat(_in_range(large.start.size, _ATTENDED), _ATTENDANTS)[: sizes.size]
    turn = np.arange(sizes.size) % _ATTENDANTS + 0.1 * rng.random(sizes.size)
    starts = large.start[hosts] + np.floor(large.duration[hosts] * (0.5 + 0.5 * turn / _ATTENDANTS))
    return _Drawn(sizes, starts, durations, large.submitted[hosts] - 60)


def _join(*drawn: _Drawn) -> _Drawn:
    return _Drawn(*(np.concatenate(columns) for columns in zip(*drawn, strict=True)))


def _as_requests(drawn: _Drawn, rng: np.random.Generator) -> Requests:
    """Sizes are the drawn ones when rounded up to gigabytes; those of 1 GB are tiny."""
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
