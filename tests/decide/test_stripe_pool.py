"""The pool for a job's files: the fastest that has room, if it is worth it."""

from forebay.decide.stripe.pool import Pool, choose_pool
from forebay.model.layout import Target

GB = 10**9
FLASH = Pool(name="flash", targets=frozenset({0, 1}), bandwidth=2e9, source="the settings")
DISK = Pool(name="disk", targets=frozenset(range(2, 10)), bandwidth=5e8, source="the runs on 8 targets")
TARGETS = tuple(Target(index=i, free_bytes=100 * GB) for i in range(10))


def test_few_processes_get_the_faster_targets_with_the_numbers_that_decided() -> None:
    choice = choose_pool((FLASH, DISK), TARGETS, 2, GB)
    assert choice.name == "flash"
    assert choice.because == (
        "pool flash: 2.00 GB/s a target by the settings, which is 4 times what 10 targets of all pools give "
        "2 processes (500.00 MB/s by the runs on 8 targets in the slowest)"
    )


def test_many_processes_stay_on_all_targets_if_these_give_more() -> None:
    assert choose_pool((FLASH, DISK), TARGETS, 64, GB).name == ""


def test_a_pool_without_room_is_not_chosen_and_says_so() -> None:
    choice = choose_pool((FLASH, DISK), TARGETS, 2, 11 * GB)
    assert choice.name == ""
    assert "pool flash has no room, as a run writes 11.00 GB and 5 % of its free space is 10.00 GB" in choice.because


def test_targets_that_are_down_do_not_count() -> None:
    down = tuple(Target(index=t.index, usable=t.index not in (0, 1), because="down") for t in TARGETS)
    assert choose_pool((FLASH, DISK), down, 2, GB).name == ""
    assert choose_pool((), TARGETS, 2, GB).name == ""


def test_equal_pools_make_no_difference() -> None:
    assert choose_pool((DISK,), TARGETS, 2, GB).name == ""
