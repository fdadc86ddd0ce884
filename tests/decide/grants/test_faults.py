"""Requests, reports that get lost, come twice or too late, disks that go, clocks that jump: what must hold, holds."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from forebay.decide.grants.events import EVENTS
from support.examples import examples
from support.grants_world import Pick, World

STEPS: list[tuple[Callable[[World, Pick], None], int]] = [
    (World.request, 5),
    (World.request_again, 1),
    (World.hold, 3),
    (World.work, 7),
    (World.stumble, 3),
    (World.deliver, 3),
    (World.look, 1),
    (World.trouble, 3),
    (World.wait, 3),
    (World.jump, 1),
    (World.restore, 1),
    (World.decide, 2),
]


def _run(seed: int, steps: int) -> Counter[str]:
    rng = np.random.default_rng(seed)

    def pick(several: Sequence[Any]) -> Any:
        return several[int(rng.integers(len(several)))]

    world = World(pick)
    lots = [step for step, weight in STEPS for _ in range(weight)]
    for _ in range(steps):
        pick(lots)(world, pick)
        world.check()
    return world.finish()


@pytest.mark.parametrize("part", range(examples(4)))
def test_no_grant_is_lost_or_doubled_and_no_disk_too_full(part: int) -> None:
    happened: Counter[str] = Counter()
    for seed in range(50 * part, 50 * (part + 1)):
        happened += _run(seed, 70)
    rare = {"Swept", "StagingBegun", "StagingMoved", "StagingEnded"}
    assert EVENTS.keys() - happened.keys() <= rare


class Machine(RuleBasedStateMachine):
    """The same, where hypothesis looks for the shortest way to break something."""

    world: World

    @initialize(data=st.data())
    def begin(self, data: st.DataObject) -> None:
        self.world = World(_pick(data))

    @rule(data=st.data())
    def request(self, data: st.DataObject) -> None:
        self.world.request(_pick(data))

    @rule(data=st.data())
    def request_again(self, data: st.DataObject) -> None:
        self.world.request_again(_pick(data))

    @rule(data=st.data())
    def hold(self, data: st.DataObject) -> None:
        self.world.hold(_pick(data))

    @rule(data=st.data())
    def work(self, data: st.DataObject) -> None:
        self.world.work(_pick(data))

    @rule(data=st.data())
    def stumble(self, data: st.DataObject) -> None:
        self.world.stumble(_pick(data))

    @rule(data=st.data())
    def deliver(self, data: st.DataObject) -> None:
        self.world.deliver(_pick(data))

    @rule(data=st.data())
    def look(self, data: st.DataObject) -> None:
        self.world.look(_pick(data))

    @rule(data=st.data())
    def trouble(self, data: st.DataObject) -> None:
        self.world.trouble(_pick(data))

    @rule(data=st.data())
    def wait(self, data: st.DataObject) -> None:
        self.world.wait(_pick(data))

    @rule(data=st.data())
    def jump(self, data: st.DataObject) -> None:
        self.world.jump(_pick(data))

    @rule(data=st.data())
    def restore(self, data: st.DataObject) -> None:
        self.world.restore(_pick(data))

    @rule(data=st.data())
    def decide(self, data: st.DataObject) -> None:
        self.world.decide(_pick(data))

    @invariant()
    def in_order(self) -> None:
        if hasattr(self, "world"):
            self.world.check()

    def teardown(self) -> None:
        if hasattr(self, "world"):
            self.world.finish()


def _pick(data: st.DataObject) -> Pick:
    return lambda several: data.draw(st.sampled_from(several))


TestMachine = Machine.TestCase
TestMachine.settings = settings(max_examples=examples(60), stateful_step_count=30)
