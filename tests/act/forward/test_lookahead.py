"""When the bytes of small files come with their status."""

from forebay.act.forward.mount.lookahead import Lookahead

FOLDER, OTHER = 1, 2


def look(lookahead: Lookahead, folder: int, file: int) -> bool:
    expects = lookahead.expects_read(folder)
    lookahead.note_lookup(folder, file, with_bytes=expects)
    return expects


def test_after_one_read_in_a_folder_more_are_expected_there_only() -> None:
    lookahead = Lookahead()
    assert not look(lookahead, FOLDER, 10)
    assert not look(lookahead, FOLDER, 11)
    lookahead.note_read(10)
    assert look(lookahead, FOLDER, 12)
    assert not look(lookahead, OTHER, 13)


def test_files_that_are_looked_up_and_not_read_end_it() -> None:
    lookahead = Lookahead()
    look(lookahead, FOLDER, 10)
    lookahead.note_read(10)
    expected = [look(lookahead, FOLDER, file) for file in range(100, 200)]
    assert 0 < sum(expected) < 20
    assert expected == sorted(expected, reverse=True)


def test_files_that_are_all_read_go_on_for_ever_and_are_reported_once() -> None:
    lookahead = Lookahead()
    look(lookahead, FOLDER, 10)
    lookahead.note_read(10)
    for file in range(100, 200):
        assert look(lookahead, FOLDER, file)
        lookahead.note_read(file)
        lookahead.note_read(file)
    assert lookahead.take_reads() == list(range(100, 200))
    assert lookahead.take_reads() == []
