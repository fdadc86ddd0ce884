"""The search for the smallest burst buffer of a family that serves enough."""

import math
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from typing import NamedTuple

from forebay.decide.policy import Policy
from forebay.decide.registry import find
from forebay.model.space_requests import Requests
from forebay.model.system import MOST_BYTES, Node, Platform
from forebay.simulate.storage.outcome import document
from forebay.simulate.storage.rules import GB, Rules
from forebay.simulate.storage.run import run_storage
from forebay.work import Died, Gone, Workers, run_pieces

_BELOW = 3  # steps below the answer to check, because the share can fall, though rarely, as capacity grows


class Point(NamedTuple):
    """The share of all bytes that a platform of `capacity` bytes serves."""

    capacity: int
    share: float


class Sizing(NamedTuple):
    """All capacities tried, in ascending order, and the answer, which is None if none serves enough."""

    family: str
    policy: str
    target: float
    points: tuple[Point, ...]
    answer: Point | None


def resize_platform(platform: Platform, capacity: int) -> Platform:
    """Scale the disks of a platform so that together they have `capacity` bytes."""
    # Round sums instead of sizes, so that no byte is lost.
    sums = accumulate(disk.capacity for disk in platform.disks)
    ends = [0, *(total * capacity // platform.capacity for total in sums)]
    sizes = iter([max(1, end - begin) for begin, end in pairwise(ends)])

    def resize_node(node: Node) -> Node:
        return replace(node, disks=tuple(replace(disk, capacity=next(sizes)) for disk in node.disks))

    servers = (replace(server, nodes=tuple(map(resize_node, server.nodes))) for server in platform.servers)
    return replace(platform, servers=tuple(servers))


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """A search for the smallest multiple of `step` bytes, spread over disks like the family's, that serves `target`."""

    requests: Requests
    family: Platform
    rules: Rules
    target: float
    step: int
    seed: int = 0

    def find_smallest(self, policy: Policy, progress: Callable[[int], None] = lambda _: None) -> Sizing:
        """Double the capacity until it is enough, then bisect; `progress` gets the number of capacities tried."""
        tried: dict[int, Point] = {}

        def enough(steps: int) -> bool:
            if steps not in tried:
                platform = resize_platform(self.family, steps * self.step)
                run = run_storage(platform, self.requests, policy, self.rules, seed=self.seed)
                tried[steps] = Point(capacity=steps * self.step, share=document(run)["allocated_share"])
                progress(len(tried))
            return tried[steps].share >= self.target

        # At this capacity, every disk could hold all requests at once.
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
        """Search for each of these storage policies, each a piece of work; `progress` gets the number finished.

        For a single policy, `progress` gets the number of capacities tried.
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
