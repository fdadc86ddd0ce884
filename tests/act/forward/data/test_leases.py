"""Who may keep what, and for whom others wait."""

import pytest

from forebay.act.forward.data.leases import Conflict, Leases
from forebay.act.forward.net.payloads import LEASE
from support.hand_clock import Clock

ALICE, BOB, FILE, FOLDER = 7, 8, 100, 101
LONGEST = 2 * LEASE


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def leases(clock: Clock) -> Leases:
    leases = Leases(clock=clock)
    leases.watch(ALICE)
    leases.watch(BOB)
    return leases


def test_only_a_mount_that_watches_gets_leases(leases: Leases) -> None:
    assert leases.grant(ALICE, FILE)
    assert not leases.grant(9, FILE)
    leases.end(ALICE)
    assert not leases.grant(ALICE, FILE)
    leases.claim(BOB, (FILE,))


def test_two_may_keep_a_file_and_its_change_waits_for_all_but_the_one_who_makes_it(leases: Leases) -> None:
    assert leases.grant(ALICE, FILE)
    assert leases.grant(BOB, FILE)
    leases.claim(ALICE, (FOLDER,))
    with pytest.raises(Conflict) as conflict:
        leases.claim(ALICE, (FOLDER, FILE))
    assert list(conflict.value.leases) == [BOB]
    with pytest.raises(Conflict) as conflict:
        leases.claim(0, (FILE,))
    assert set(conflict.value.leases) == {ALICE, BOB}


def test_while_somebody_waits_to_change_a_file_nobody_gets_a_lease_on_it(leases: Leases) -> None:
    leases.grant(BOB, FILE)
    with pytest.raises(Conflict) as conflict:
        leases.claim(ALICE, (FILE,))
    assert not leases.grant(BOB, FILE)
    leases.give_up(BOB, FILE, conflict.value.leases[BOB][FILE])
    leases.claim(ALICE, (FILE,))
    assert leases.grant(BOB, FILE)


def test_a_late_end_of_an_old_lease_does_not_end_a_newer_one(leases: Leases, clock: Clock) -> None:
    leases.grant(BOB, FILE)
    with pytest.raises(Conflict) as old:
        leases.claim(ALICE, (FILE,))
    clock.now += LONGEST
    assert leases.grant(BOB, FILE)
    leases.give_up(BOB, FILE, old.value.leases[BOB][FILE])
    with pytest.raises(Conflict):
        leases.claim(ALICE, (FILE,))


def test_a_lease_outlasts_what_a_mount_counts_and_then_ends_by_itself(leases: Leases, clock: Clock) -> None:
    leases.grant(BOB, FILE)
    clock.now += LEASE
    with pytest.raises(Conflict) as conflict:
        leases.claim(ALICE, (FILE,))
    clock.now = conflict.value.until
    leases.claim(ALICE, (FILE,))


def test_a_file_that_others_may_write_is_kept_by_nobody(leases: Leases) -> None:
    assert leases.grant(ALICE, FILE, {ALICE})
    assert not leases.grant(BOB, FILE, {ALICE})
    assert not leases.grant(ALICE, FILE, {ALICE, BOB})
    assert not leases.grant(ALICE, FILE, {0})


def test_after_a_restart_changes_wait_until_every_mount_of_the_earlier_run_watches_again(clock: Clock) -> None:
    leases = Leases([ALICE, BOB], clock)
    with pytest.raises(Conflict):
        leases.claim(ALICE, (FILE,))
    leases.watch(ALICE)
    with pytest.raises(Conflict) as conflict:
        leases.claim(ALICE, (FILE,))
    assert leases.holders == {ALICE, BOB}
    clock.now = conflict.value.until
    leases.claim(ALICE, (FILE,))
    again = Leases([ALICE], clock)
    again.watch(ALICE)
    again.claim(BOB, (FILE,))


def test_a_mount_that_watches_again_has_no_leases(leases: Leases) -> None:
    leases.grant(BOB, FILE)
    leases.watch(BOB)
    leases.claim(ALICE, (FILE,))
