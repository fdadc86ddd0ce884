"""What a mount keeps, and when it no longer counts."""

import pytest

from forebay.act.forward.mount.file_system import Attributes
from forebay.act.forward.mount.lease_cache import ABSENT
from forebay.act.forward.mount.sole_cache import SoleCache
from forebay.act.forward.net.payloads import LEASE, LEASED_NAMES, LEASED_STATUS, FileStatus, ObjectSize
from support.hand_clock import Clock

FOLDER, FILE = 2, 3
BOTH = LEASED_NAMES | LEASED_STATUS


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def cache(clock: Clock) -> SoleCache:
    return SoleCache(clock)


def status(size: int = 0, leased: int = BOTH, created: bool = False) -> tuple[FileStatus, Attributes]:
    of = FileStatus(layout_fields=(2, 65536, 0), mode=0o100644, mtime=5, size=size, leased=leased, created=created)
    return of, Attributes(FILE, 0o100644, size, size, 5, 5, 5, 1, 0, 0, 0)


def keep(cache: SoleCache, size: int = 0, leased: int = BOTH, created: bool = False) -> Attributes:
    of, attributes = status(size, leased, created)
    cache.keep(cache.begin(), of, attributes, FOLDER, b"a")
    return attributes


def test_what_a_lease_covers_is_kept_until_it_ends(cache: SoleCache, clock: Clock) -> None:
    attributes = keep(cache)
    assert cache.find(FOLDER, b"a") == FILE
    assert cache.attributes(FILE) == attributes
    assert cache.status_validity(attributes) == cache.name_validity(FOLDER, b"a", FILE) == LEASE
    clock.now += LEASE
    assert cache.find(FOLDER, b"a") is None
    assert cache.attributes(FILE) is None
    assert cache.status_validity(attributes) == 0


def test_without_a_lease_nothing_is_kept(cache: SoleCache) -> None:
    keep(cache, leased=0)
    assert cache.find(FOLDER, b"a") is None
    assert cache.attributes(FILE) is None


def test_a_name_that_is_not_there_is_kept_only_with_a_lease_on_its_folder(cache: SoleCache) -> None:
    cache.keep_absence(cache.begin(), FOLDER, b"b")
    assert cache.find(FOLDER, b"b") is None
    keep(cache)
    cache.keep_absence(cache.begin(), FOLDER, b"b")
    assert cache.find(FOLDER, b"b") == ABSENT


def test_an_answer_that_a_recall_has_overtaken_is_not_kept(cache: SoleCache) -> None:
    of, attributes = status()
    ticket = cache.begin()
    cache.end([FILE, FOLDER])
    cache.keep(ticket, of, attributes, FOLDER, b"a")
    assert cache.find(FOLDER, b"a") is None
    assert cache.attributes(FILE) is None
    ticket = cache.begin()
    cache.end_all()
    cache.keep(ticket, of, attributes, FOLDER, b"a")
    assert cache.attributes(FILE) is None


def test_an_answer_that_a_change_of_this_mount_has_overtaken_is_not_kept(cache: SoleCache) -> None:
    of, attributes = status()
    keep(cache)
    ticket = cache.begin()
    cache.note_changed(FILE)
    cache.begin_name(FOLDER, b"a")
    cache.keep(ticket, of, attributes, FOLDER, b"a")
    assert cache.find(FOLDER, b"a") is None
    assert cache.attributes(FILE) is None


def test_of_a_new_folder_all_names_are_known_while_the_lease_lasts(cache: SoleCache, clock: Clock) -> None:
    keep(cache)
    cache.keep_empty(cache.begin(), FOLDER)
    assert cache.find(FOLDER, b"b") == ABSENT
    assert cache.name_validity(FOLDER, b"b", ABSENT) == LEASE
    cache.begin_name(FOLDER, b"b")
    assert cache.find(FOLDER, b"b") is None
    assert cache.find(FOLDER, b"c") == ABSENT
    clock.now += LEASE
    keep(cache)
    assert cache.find(FOLDER, b"c") is None


def test_a_folder_that_a_recall_or_a_change_has_overtaken_is_not_known_to_be_empty(cache: SoleCache) -> None:
    ticket = cache.begin()
    cache.end([FOLDER])
    keep(cache)
    cache.keep_empty(ticket, FOLDER)
    assert cache.find(FOLDER, b"b") is None


def test_after_a_change_the_folder_is_known_unless_another_change_has_crossed_it(cache: SoleCache) -> None:
    keep(cache)
    _, attributes = status()
    ticket = cache.begin_name(FOLDER, b"b")
    assert cache.attributes(FOLDER) is None
    cache.end_change(ticket, FOLDER, b"b", attributes)
    assert cache.attributes(FOLDER) == attributes
    first, second = cache.begin_name(FOLDER, b"c"), cache.begin_name(FOLDER, b"d")
    cache.keep_absence(cache.begin(), FOLDER, b"c")  # asked before the server had it
    cache.end_change(first, FOLDER, b"c", attributes)
    assert cache.attributes(FOLDER) is None
    assert cache.find(FOLDER, b"c") is None
    cache.end_change(second, FOLDER, b"d", attributes)
    assert cache.attributes(FOLDER) is None


def test_names_of_an_earlier_lease_do_not_come_back_with_the_next(cache: SoleCache, clock: Clock) -> None:
    keep(cache)
    clock.now += LEASE
    of, attributes = status()
    cache.keep(cache.begin(), of, attributes._replace(node=4), FOLDER, b"b")
    assert cache.find(FOLDER, b"b") == 4
    assert cache.find(FOLDER, b"a") is None


def test_old_attributes_are_not_valid_for_the_kernel(cache: SoleCache) -> None:
    old = keep(cache)
    cache.end([FILE])
    keep(cache, size=1)
    assert cache.status_validity(old) == 0


def write(cache: SoleCache, data: bytes, offset: int, size: int) -> None:
    writing = cache.begin_write(FILE)
    assert cache.attributes(FILE) is None
    cache.end_write(FILE, writing, memoryview(data), offset, ObjectSize(size=size, mtime=9, allocated=4096))


def test_a_write_is_kept_with_the_size_and_the_time_that_the_server_says(cache: SoleCache) -> None:
    keep(cache, created=True)
    write(cache, b"hello", 0, 5)
    write(cache, b"LL", 2, 5)
    attributes = cache.attributes(FILE)
    assert attributes is not None
    assert (attributes.size, attributes.allocated, attributes.mtime, attributes.ctime) == (5, 4096, 9, 9)
    assert cache.data(FILE) == b"heLLo"
    write(cache, b"x", 7, 8)  # a hole
    assert cache.data(FILE) is None


def test_a_write_beyond_the_first_stripe_is_not_kept(cache: SoleCache) -> None:
    keep(cache, created=True)
    write(cache, b"x", 65536, 1)  # the object of the second stripe has one byte
    assert cache.attributes(FILE) is None
    assert cache.data(FILE) is None


def test_of_writes_at_the_same_time_none_is_kept(cache: SoleCache) -> None:
    keep(cache, created=True)
    first, second = cache.begin_write(FILE), cache.begin_write(FILE)
    size = ObjectSize(size=1, mtime=9, allocated=4096)
    cache.end_write(FILE, first, memoryview(b"a"), 0, size)
    cache.end_write(FILE, second, memoryview(b"b"), 0, size)
    assert cache.attributes(FILE) is None
    assert cache.data(FILE) is None


def test_a_write_that_a_recall_has_overtaken_is_not_kept(cache: SoleCache) -> None:
    keep(cache, created=True)
    writing = cache.begin_write(FILE)
    cache.end([FILE])
    cache.end_write(FILE, writing, memoryview(b"a"), 0, ObjectSize(size=1, mtime=9, allocated=4096))
    keep(cache, size=2)
    attributes = cache.attributes(FILE)
    assert attributes is not None
    assert attributes.size == 2


def test_bytes_are_kept_if_they_are_all(cache: SoleCache) -> None:
    keep(cache, size=5)
    cache.keep_data(cache.begin(), FILE, b"hell")
    assert cache.data(FILE) is None
    cache.keep_data(cache.begin(), FILE, b"hello")
    assert cache.data(FILE) == b"hello"


def test_between_a_loss_and_the_next_watch_nothing_is_kept(cache: SoleCache) -> None:
    keep(cache)
    assert cache.end_all() == [FOLDER, FILE]
    keep(cache)
    ticket = cache.begin()
    assert cache.find(FOLDER, b"a") is None
    cache.resume()
    of, attributes = status()
    cache.keep(ticket, of, attributes, FOLDER, b"a")  # the server has forgotten this lease
    assert cache.find(FOLDER, b"a") is None
    keep(cache)
    assert cache.find(FOLDER, b"a") == FILE


def hold_alone(cache: SoleCache) -> None:
    """Keep a folder and a file in it, and that the mount has both alone."""
    for node, mode in ((FOLDER, 0o40755), (FILE, 0o100644)):
        of, attributes = status()
        of.mode, of.uid, of.gid = mode, 0, 0
        cache.keep(cache.begin(), of, attributes._replace(node=node, mode=mode), FOLDER if node == FILE else 0, b"a")
    cache.keep_alone(cache.begin(), FOLDER, [FILE], 10**18)


def test_a_name_goes_if_the_mount_has_the_folder_and_the_file_alone(cache: SoleCache, clock: Clock) -> None:
    hold_alone(cache)
    clock.now += 1
    assert cache.remove(FOLDER, b"b", lambda *_: True) is None
    assert cache.remove(FOLDER, b"a", lambda *_: False) is None
    assert cache.remove(FOLDER, b"a", lambda *_: True) == (FILE, 10**18 + 10**9)
    assert cache.find(FOLDER, b"a") == ABSENT
    folder = cache.attributes(FOLDER)
    assert folder is not None
    assert folder.mtime == folder.ctime == 10**18 + 10**9
    assert cache.attributes(FILE) is None


def test_shortly_before_a_lease_ends_no_name_goes(cache: SoleCache, clock: Clock) -> None:
    hold_alone(cache)
    clock.now += LEASE - 1
    assert cache.find(FOLDER, b"a") == FILE
    assert cache.remove(FOLDER, b"a", lambda *_: True) is None


def test_an_answer_that_a_recall_has_overtaken_does_not_give_a_folder_back(cache: SoleCache) -> None:
    hold_alone(cache)
    ticket = cache.begin()
    cache.share([FOLDER])
    cache.keep_alone(ticket, FOLDER, [FILE], 10**18)
    assert cache.remove(FOLDER, b"a", lambda *_: True) is None
