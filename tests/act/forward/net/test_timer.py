import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from forebay.act.forward.net.loop import new_loop
from forebay.act.forward.net.timer import NEVER, Alarm


def on_a_loop(work: Callable[[], Awaitable[Any]]) -> Any:
    loop = new_loop()
    try:
        return loop.run_until_complete(work())
    finally:
        loop.close()


class Rings:
    def __init__(self) -> None:
        self.times: list[int] = []
        self._rang = asyncio.Event()
        self.alarm = Alarm(asyncio.get_running_loop(), self._ring)

    def _ring(self) -> None:
        self.times.append(time.time_ns())
        self._rang.set()

    async def next(self) -> int:
        await asyncio.wait_for(self._rang.wait(), 60)
        self._rang.clear()
        return self.times[-1]


@pytest.mark.parametrize("ahead", [0, 1, 125_000, 8_000_000])
def test_it_does_not_ring_before_its_time(ahead: int) -> None:
    async def work() -> None:
        rings = Rings()
        when = time.time_ns() + ahead
        rings.alarm.at(when)
        assert await rings.next() >= when
        rings.alarm.close()

    on_a_loop(work)


@pytest.mark.parametrize("when", [-(1 << 62), -1, 0, 1])
def test_a_time_that_is_past_rings_at_once(when: int) -> None:
    async def work() -> None:
        rings = Rings()
        rings.alarm.at(when)
        await rings.next()
        rings.alarm.close()

    on_a_loop(work)


def test_only_the_time_that_was_set_last_counts() -> None:
    async def work() -> list[int]:
        rings = Rings()
        rings.alarm.at(time.time_ns() + 3_600_000_000_000)
        rings.alarm.at(NEVER)
        when = time.time_ns() + 1_000_000
        rings.alarm.at(when)
        rings.alarm.at(when)
        assert await rings.next() >= when
        rings.alarm.at(when)  # it may be asked for the same time again once it has rung
        await rings.next()
        rings.alarm.close()
        rings.alarm.close()
        return rings.times

    assert len(on_a_loop(work)) == 2


def test_one_that_is_switched_off_does_not_ring() -> None:
    async def work() -> list[int]:
        off, on = Rings(), Rings()
        off.alarm.at(time.time_ns() + 1_000_000)
        off.alarm.at(NEVER)
        on.alarm.at(time.time_ns() + 5_000_000)
        await on.next()
        off.alarm.close()
        on.alarm.close()
        return off.times

    assert on_a_loop(work) == []
