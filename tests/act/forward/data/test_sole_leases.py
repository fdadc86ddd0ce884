"""Folders that one mount has alone: who waits for it, and for how long."""

from collections.abc import Mapping

import pytest

from forebay.act.forward.data.leases import Conflict
from forebay.act.forward.data.sole_leases import SoleHolder, SoleLeases
from forebay.act.forward.net.payloads import LEASE
from support.hand_clock import Clock

ALICE, BOB, LIBRARY = 7, 8, 0
FOLDER, OTHER_FOLDER, FILE, OTHER_FILE = 101, 102, 201, 202
LONG = 3 * LEASE


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def leases(clock: Clock) -> SoleLeases:
    leases = SoleLeases(clock=clock)
    leases.watch(ALICE)
    leases.watch(BOB)
    return leases


def recall(leases: SoleLeases, holder: int, node: int, *, by_id: bool = False) -> dict[int, dict[int, float]]:
    """For whose leases a request must wait."""
    with pytest.raises(Conflict) as conflict:
        leases.admit(holder, node, by_id=by_id)
    return conflict.value.leases


def test_only_one_mount_has_a_folder_alone_and_others_wait_for_its_lease(leases: SoleLeases) -> None:
    assert leases.hold_alone(ALICE, FOLDER)
    assert leases.hold_alone(ALICE, FOLDER)
    assert leases.is_alone(ALICE, FOLDER)
    assert not leases.hold_alone(BOB, FOLDER)
    leases.admit(ALICE, FOLDER)
    leases.admit(BOB, OTHER_FOLDER)
    for other in (BOB, LIBRARY):
        assert list(recall(leases, other, FOLDER)) == [ALICE]


def test_nobody_gets_a_folder_alone_while_another_mount_has_a_lease_on_it(leases: SoleLeases, clock: Clock) -> None:
    leases.grant(BOB, FOLDER)
    assert not leases.hold_alone(ALICE, FOLDER)
    clock.now += LONG
    assert leases.hold_alone(ALICE, FOLDER)


def test_a_client_that_does_not_watch_has_nothing_alone(leases: SoleLeases) -> None:
    assert not leases.hold_alone(LIBRARY, FOLDER)
    assert not leases.hold_alone(9, FOLDER)


def test_files_belong_to_the_folder_unless_somebody_else_has_a_lease_on_them(leases: SoleLeases) -> None:
    leases.grant(BOB, OTHER_FILE)
    assert not leases.enclose(ALICE, FOLDER, FILE)
    leases.hold_alone(ALICE, FOLDER)
    assert leases.enclose(ALICE, FOLDER, FILE)
    assert not leases.enclose(BOB, FOLDER, FILE)
    assert not leases.enclose(ALICE, FOLDER, OTHER_FILE)
    leases.admit(BOB, OTHER_FILE)
    assert list(recall(leases, BOB, FILE)[ALICE]) == [FOLDER]
    leases.hold_alone(ALICE, OTHER_FOLDER)
    assert not leases.enclose(ALICE, OTHER_FOLDER, FILE)
    assert leases.encloses(ALICE, FOLDER, FILE)
    assert not leases.encloses(ALICE, FOLDER, OTHER_FILE)
    leases.disclose([FILE, OTHER_FILE])
    assert not leases.encloses(ALICE, FOLDER, FILE)
    leases.admit(BOB, FILE)


def test_after_a_recall_the_lease_is_not_renewed_and_others_go_on_once_it_is_given_up(leases: SoleLeases) -> None:
    leases.hold_alone(ALICE, FOLDER)
    leases.enclose(ALICE, FOLDER, FILE)
    until = recall(leases, BOB, FOLDER)[ALICE][FOLDER]
    assert not leases.grant(ALICE, FOLDER)
    assert not leases.enclose(ALICE, FOLDER, OTHER_FILE)
    assert leases.is_alone(ALICE, FOLDER)  # what it still has to say counts
    leases.give_up(ALICE, FOLDER, until)
    assert not leases.is_alone(ALICE, FOLDER)
    for node in (FOLDER, FILE):
        leases.admit(BOB, node)
    assert leases.grant(ALICE, FOLDER)


def test_a_folder_that_others_have_asked_for_stays_shared_for_a_while(leases: SoleLeases, clock: Clock) -> None:
    leases.hold_alone(ALICE, FOLDER)
    leases.give_up(ALICE, FOLDER, recall(leases, BOB, FOLDER)[ALICE][FOLDER])
    assert not leases.hold_alone(ALICE, FOLDER)
    assert leases.hold_alone(ALICE, OTHER_FOLDER)
    clock.now += LEASE + 1
    assert leases.hold_alone(ALICE, FOLDER)


def test_a_mount_that_does_not_answer_delays_others_until_its_lease_ends(leases: SoleLeases, clock: Clock) -> None:
    leases.hold_alone(ALICE, FOLDER)
    leases.enclose(ALICE, FOLDER, FILE)
    recall(leases, BOB, FOLDER)
    clock.now += LEASE
    recall(leases, BOB, FOLDER)  # servers count a little longer than mounts
    clock.now += 2
    for node in (FOLDER, FILE):
        leases.admit(BOB, node)
    assert not leases.is_alone(ALICE, FOLDER)


@pytest.mark.parametrize("end", [SoleLeases.end, SoleLeases.watch])
def test_a_mount_that_ends_or_begins_anew_has_nothing_alone(leases: SoleLeases, end: object) -> None:
    leases.hold_alone(ALICE, FOLDER)
    leases.enclose(ALICE, FOLDER, FILE)
    end(leases, ALICE)  # type: ignore[operator]
    for node in (FOLDER, FILE):
        leases.admit(BOB, node)


def test_after_a_restart_others_wait_for_the_mounts_that_may_have_folders_alone(clock: Clock) -> None:
    recorded: list[Mapping[int, SoleHolder]] = []
    before = SoleLeases(clock=clock, record=recorded.append)
    before.watch(ALICE)
    before.hold_alone(ALICE, FOLDER)
    leases = SoleLeases([ALICE, BOB], clock, former_soles=recorded[-1])
    leases.watch(BOB)
    assert recall(leases, BOB, FOLDER) == {}
    assert recall(leases, BOB, FILE, by_id=True) == {}
    leases.admit(BOB, FILE)  # found by its name, in a folder that admits everybody
    leases.admit(ALICE, FILE, by_id=True)
    assert leases.is_alone(ALICE, FOLDER)
    assert leases.encloses(ALICE, FOLDER, FILE)  # for all that is known
    assert not leases.hold_alone(BOB, OTHER_FOLDER)  # Alice may have a lease on it
    leases.watch(ALICE)
    leases.admit(BOB, FOLDER)
    leases.admit(BOB, FILE, by_id=True)


def test_after_a_restart_nobody_waits_longer_than_leases_last(clock: Clock) -> None:
    leases = SoleLeases([ALICE], clock, former_soles={FOLDER: SoleHolder(ALICE)})
    clock.now += LONG
    leases.admit(BOB, FOLDER)
    leases.admit(BOB, FILE, by_id=True)


def test_what_was_alone_long_ago_is_not_recorded_for_ever(clock: Clock) -> None:
    recorded: list[int] = []
    leases = SoleLeases(clock=clock, record=lambda soles: recorded.append(len(soles)))
    leases.watch(ALICE)
    for folder in range(1000):
        clock.now += 1
        assert leases.hold_alone(ALICE, folder)
    assert max(recorded) < 100


def test_what_cannot_be_recorded_is_not_granted(clock: Clock) -> None:
    def fail(_: object) -> None:
        raise OSError(28, "no space")

    leases = SoleLeases(clock=clock, record=fail)
    leases.watch(ALICE)
    assert not leases.hold_alone(ALICE, FOLDER)
    leases.admit(BOB, FOLDER)
