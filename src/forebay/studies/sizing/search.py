"""How large must the burst buffer be? The smallest platform of a family that serves enough."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate, pairwise

from forebay.decide.policy import Policy
from forebay.decide.registry import find
from forebay.model.request import Requests
from forebay.model.system import MOST_BYTES, Node, Platform
from forebay.simulate.storage.outcome import document
from forebay.simulate.storage.rules import GB, Rules
from forebay.simulate.storage.run import run_storage
from forebay.work import Died, Gone, Workers, is_local, run_pieces

_BELOW = 3  # steps below the answer that are looked at: the share hardly ever falls as capacity grows


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """With `capacity` bytes, this share of all bytes is served."""

    capacity: int
    share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizing:
    """Everything that was tried, by capacity, and the answer; None if no capacity serves enough."""

    family: str
    policy: str
    target: float
    points: tuple[Point, ...]
    answer: Point | None


def resize_platform(platform: Platform, capacity: int) -> Platform:
    """The same platform with disks of other sizes, so that they have `capacity` bytes together."""
    # Sums are rounded, not sizes, so that nothing is lost.
    sums = accumulate(disk.capacity for disk in platform.disks)
    ends = [0, *(total * capacity // platform.capacity for total in sums)]
    sizes = iter([max(1, end - begin) for begin, end in pairwise(ends)])

    def resize_node(node: Node) -> Node:
        return replace(node, disks=tuple(replace(disk, capacity=next(sizes)) for disk in node.disks))

    servers = (replace(server, nodes=tuple(map(resize_node, server.nodes))) for server in platform.servers)
    return replace(platform, servers=tuple(servers))


def find_smallest(
    requests: Requests,
    family: Platform,
    policy: Policy,
    rules: Rules,
    *,
    target: float,
    step: int,
    seed: int = 0,
    progress: Callable[[int], None] = lambda _: None,
) -> Sizing:
    """The smallest multiple of `step` bytes that, shared out as the family's disks are, serves `target` of all bytes.

    Capacity is doubled until it is enough, and then narrowed down by halves; between the doublings it is tried
    halfway too, so that the points make a curve.
    """
    tried: dict[int, Point] = {}

    def enough(steps: int) -> bool:
        if steps not in tried:
            platform = resize_platform(family, steps * step)
            share = document(run_storage(platform, requests, policy, rules, seed=seed))["allocated_share"]
            tried[steps] = Point(capacity=steps * step, share=share)
            progress(len(tried))
        return tried[steps].share >= target

    most = math.ceil(_surely_enough(requests, family, rules) / step)
    low, high = 0, 1
    while not enough(high) and high < most and 2 * high * step <= MOST_BYTES:
        low, high = high, 2 * high
        enough(3 * low // 2)
    answer = high if enough(high) else None
    if answer is not None:
        while answer - low > 1:
            middle = (low + answer) // 2
            low, answer = (low, middle) if enough(middle) else (middle, answer)
        below = [steps for steps in range(max(1, answer - _BELOW), answer) if enough(steps)]
        answer = min([answer, *below])
    return Sizing(
        family=family.name,
        policy=policy.name,
        target=target,
        points=tuple(tried[steps] for steps in sorted(tried)),
        answer=None if answer is None else tried[answer],
    )


def find_smallest_of_each(
    requests: Requests,
    family: Platform,
    policies: Sequence[str],
    rules: Rules,
    *,
    target: float,
    step: int,
    seed: int = 0,
    workers: Workers = 1,
    progress: Callable[[int], None] = lambda _: None,
) -> list[Sizing]:
    """The same for several storage policies by name, each of which is a piece of work; `progress`: how many are done.

    Where there is only one, `progress` gets how many sizes have been tried.
    """
    search = partial(_search_by_name, requests, family, rules, target, step, seed)
    if len(policies) == 1 and is_local(workers):
        return [search(policies[0], progress=progress)]
    sizings = []
    with closing(run_pieces(workers, search, policies, in_order=True)) as pieces:
        for name, sizing in pieces:
            if isinstance(sizing, Died):
                raise Gone(f"{name}: {sizing.because}")
            sizings.append(sizing)
            progress(len(sizings))
    return sizings


def _search_by_name(
    requests: Requests,
    family: Platform,
    rules: Rules,
    target: float,
    step: int,
    seed: int,
    policy: str,
    progress: Callable[[int], None] = lambda _: None,
) -> Sizing:
    """With the policy last, so that the rest can be bound for workers."""
    named = find("storage", policy)
    return find_smallest(requests, family, named, rules, target=target, step=step, seed=seed, progress=progress)


def _surely_enough(requests: Requests, family: Platform, rules: Rules) -> int:
    """The capacity at which any one disk could hold all requests at once, and a little more."""
    sizes = -(-requests.bytes // GB) * GB if rules.letter else requests.bytes
    return -(-(int(sizes.sum()) + 2) * family.capacity // min(disk.capacity for disk in family.disks))
