import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from forebay.act.forward.node.window_histogram import BOUNDS, WindowHistogram
from forebay.decide.order.queue_layout import WINDOW, WINDOW_BEGIN

LENGTH = 1000


class Recorder(WindowHistogram):
    """Remembers each ratio."""

    def __init__(self, queue: memoryview) -> None:
        super().__init__(queue)
        self.recent: list[float] = []

    def add(self, share: float) -> None:
        super().add(share)
        self.recent.append(share)


def watched(entries: list[tuple[int, int, bool]]) -> Recorder:
    """Of windows by number, when each was entered after its beginning, and whether anybody waited for it."""
    words = np.zeros(64, dtype=np.int64)
    windows = Recorder(words.data)
    words[WINDOW] = LENGTH
    for number, late, awaited in entries:
        words[WINDOW_BEGIN] = number * LENGTH
        windows.observe(number * LENGTH + late, awaited)
        windows.observe(number * LENGTH + late + 1, awaited)  # asked again within it
    return windows


def test_a_window_lasts_until_the_next_is_entered() -> None:
    assert watched([(1, 10, True), (2, 60, True), (3, 0, True)]).recent == [1.05, 0.94]


def test_windows_that_nobody_waited_for_tell_nothing() -> None:
    assert watched([(1, 0, True), (2, 500, False), (3, 0, True), (4, 0, True)]).recent == [1.0]


def test_windows_that_were_left_out_tell_nothing() -> None:
    assert watched([(1, 0, True), (3, 0, True), (4, 10, True)]).recent == [1.01]


@given(st.lists(st.integers(0, LENGTH - 2), min_size=1, max_size=50))
def test_all_that_are_counted_are_in_one_place(late: list[int]) -> None:
    windows = watched([(number, own, True) for number, own in enumerate(late, 1)])
    assert sum(windows.counts) == len(windows.recent) == len(late) - 1
    for place, count in enumerate(windows.counts):
        low = BOUNDS[place - 1] if place else -1.0
        high = BOUNDS[place] if place < len(BOUNDS) else float("inf")
        assert count == sum(low < length <= high for length in windows.recent)
