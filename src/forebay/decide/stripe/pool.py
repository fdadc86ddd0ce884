"""The pool of targets for a job's files, where the targets of pools differ, such as flash and disks."""

from collections.abc import Sequence
from dataclasses import dataclass

from forebay.model.layout import Target
from forebay.model.units import format_bandwidth, format_size, plural

LEAST_GAIN = 1.2
_MOST_SHARE = 0.05  # of a pool's free space, for the files of one run


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """A pool: the indices of its targets, the bytes per second that one of them gives, and who says so."""

    name: str
    targets: frozenset[int]
    bandwidth: float
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolChoice:
    """The name of the pool, or "" for none, and why."""

    name: str = ""
    because: str = ""


def choose_pool(pools: Sequence[Pool], targets: Sequence[Target], processes: int, volume: int) -> PoolChoice:
    """Choose the pool that gives a run of `volume` bytes most, if that is more than all targets together give it.

    A process keeps one target busy, and files on targets of all pools are as slow as the slowest target.
    """
    usable = {target.index: target for target in targets if target.usable}
    rates: dict[str, float] = {}
    too_small = []
    for pool in pools:
        members = [usable[index] for index in sorted(pool.targets) if index in usable]
        free = sum(target.free_bytes for target in members)
        if free and volume > _MOST_SHARE * free:
            too_small.append(f"pool {pool.name} has no room, as a run writes {format_size(volume)} and 5 % of its free "
                             f"space is {format_size(_MOST_SHARE * free)}")  # fmt: skip
        elif members:
            rates[pool.name] = min(len(members), processes) * pool.bandwidth
    refusal = "; ".join(too_small)
    if not rates:
        return PoolChoice(because=refusal)
    slowest = min(pools, key=lambda pool: pool.bandwidth)
    best = max(pools, key=lambda pool: rates.get(pool.name, 0.0))
    every = min(len(usable), processes) * slowest.bandwidth
    if rates[best.name] < LEAST_GAIN * every:
        return PoolChoice(because=refusal)
    because = (
        f"pool {best.name}: {format_bandwidth(best.bandwidth)} a target by {best.source}, which is "
        f"{rates[best.name] / every:.3g} times what {plural(len(usable), 'target')} of all pools give "
        f"{plural(processes, 'process')} ({format_bandwidth(slowest.bandwidth)} by {slowest.source} in the slowest)"
    )
    return PoolChoice(name=best.name, because=f"{because}; {refusal}" if refusal else because)
