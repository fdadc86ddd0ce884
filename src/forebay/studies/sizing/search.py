"""How large must the burst buffer be? The smallest platform of a family that serves enough."""

import math
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from typing import NamedTuple

from forebay.decide.policy import Policy
from forebay.decide.registry import find
from forebay.model.request import Requests
from forebay.model.system import MOST_BYTES, Node, Platform
from forebay.simulate.storage.outcome import document
from forebay.simulate.storage.rules import GB, Rules
from forebay.simulate.storage.run import run_storage
from forebay.work import Died, Gone, Workers, run_pieces

_BELOW = 3  # steps below the answer that are looked at: the share hardly ever falls as capacity grows


class Point(NamedTuple):
    """With `capacity` bytes, this share of all bytes is served."""

    capacity: int
    share: float


class Sizing(NamedTuple):
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """For the smallest multiple of `step` bytes that serves `target` of all bytes, shared out as the family's disks."""

    requests: Requests
    family: Platform
    rules: Rules
    target: float
    step: int
    seed: int = 0

    def find_smallest(self, policy: Policy, progress: Callable[[int], None] = lambda _: None) -> Sizing:
        """Double the capacity until it is enough, then narrow it down by halves; `progress`: how many were tried."""
        tried: dict[int, Point] = {}

        def enough(steps: int) -> bool:
            if steps not in tried:
                platform = resize_platform(self.family, steps * self.step)
                run = run_storage(platform, self.requests, policy, self.rules, seed=self.seed)
                tried[steps] = Point(capacity=steps * self.step, share=document(run)["allocated_share"])
                progress(len(tried))
            return tried[steps].share >= self.target

        # The capacity at which any one disk could hold all requests at once, and a little more.
        sizes = -(-self.requests.bytes // GB) * GB if self.rules.letter else self.requests.bytes
        least = min(disk.capacity for disk in self.family.disks)
        most = math.ceil(-(-(int(sizes.sum()) + 2) * self.family.capacity // least) / self.step)
        low, high = 0, 1
        while not enough(high) and high < most and 2 * high * self.step <= MOST_BYTES:
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
            family=self.family.name,
            policy=policy.name,
            target=self.target,
            points=tuple(tried[steps] for steps in sorted(tried)),
            answer=None if answer is None else tried[answer],
        )

    def find_smallest_of_each(
        self, policies: Sequence[str], workers: Workers = 1, progress: Callable[[int], None] = lambda _: None
    ) -> list[Sizing]:
        """The same for several storage policies by name, each a piece of work; `progress`: how many are done.

        Where there is only one, `progress` gets how many sizes have been tried.
        """
        if len(policies) == 1 and isinstance(workers, int):
            return [self.find_smallest(find("storage", policies[0]), progress)]
        sizings = []
        with closing(run_pieces(workers, self._search, policies, in_order=True)) as pieces:
            for name, sizing in pieces:
                if isinstance(sizing, Died):
                    raise Gone(f"{name}: {sizing.because}")
                sizings.append(sizing)
                progress(len(sizings))
        return sizings

    def _search(self, policy: str) -> Sizing:
        return self.find_smallest(find("storage", policy))
