from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay.act.command import CommandFailed
from forebay.act.filesystems.load import (
    JobTraffic,
    Load,
    add_loads,
    loads_from_job_stats,
    loads_from_rates,
    parse_job_stats,
    read_loads,
)
from forebay.act.filesystems.settings import Settings
from forebay.model.errors import BadInput
from forebay.model.layout import Target
from support.filesystems import MIB, Pretend

OLDER = """\
obdfilter.scratch-OST0000.job_stats=
job_stats:
- job_id:          4711
  snapshot_time:   1493326943
  read_bytes:      { samples:           2, unit: bytes, min: 1048576, max: 1048576, sum:         2097152 }
  write_bytes:     { samples:         262, unit: bytes, min: 1048576, max: 1048576, sum:       274726912 }
  getattr:         { samples:           0, unit:  reqs }
- job_id:          kworker/14:1.0
  snapshot_time:   1493326000
  read_bytes:      { samples:           0, unit: bytes, min:       0, max:       0, sum:               0 }
  write_bytes:     { samples:           0, unit: bytes, min:       0, max:       0, sum:               0 }
obdfilter.scratch-OST000a.job_stats=
job_stats:
obdfilter.home-OST0000.job_stats=
job_stats:
- job_id:          4711
  snapshot_time:   1493326943
  write_bytes:     { samples:           1, unit: bytes, min:       7, max:       7, sum:               7 }
"""
NEWER = """\
obdfilter.scratch-OST0001.job_stats=
job_stats:
- job_id:          "4711:1000:node 7"
  snapshot_time:   1720516680.547391371 secs.nsecs
  start_time:      1720516600.000000001 secs.nsecs
  elapsed_time:    80.547391370 secs.nsecs
  read_bytes:      { samples:   0, unit: bytes, min:    0, max:      0, sum:       0, sumsq:             0 }
  write_bytes:     { samples:  52, unit: bytes, min: 4096, max: 475136, sum: 5468160, sumsq: 1071040692224 }
  read:            { samples:   0, unit: usecs, min:    0, max:      0, sum:       0, sumsq:             0 }
  write:           { samples:  52, unit: usecs, min:   12, max:  40081, sum:  692342, sumsq:   17432258604 }
"""


def test_bytes_of_each_job_on_each_ost() -> None:
    assert parse_job_stats(OLDER, "scratch") == {
        0: {
            "4711": JobTraffic(total=2097152 + 274726912, latest=1493326943.0),
            "kworker/14:1.0": JobTraffic(latest=1493326000.0),
        },
        10: {},
    }


def test_newer_releases_count_more_and_print_finer_times() -> None:
    stats = parse_job_stats(NEWER)
    assert stats == {1: {"4711:1000:node 7": JobTraffic(total=5468160, latest=1720516680.547391371)}}


@pytest.mark.parametrize(
    "printed, job",
    [
        ('"my\\x20prog.0"', "my prog.0"),
        ('"it\\x22s:dd:0"', 'it"s:dd:0'),
        ('"back\\x5Cslash"', "back\\slash"),
        ('"caf\udcc3\\xA9\\x20\udce2\\x98\\x83"', "café ☃"),
        ("a\\x20b", "a\\x20b"),  # not quoted: nobody escaped it
        ("caf\udcc3", "caf\\xc3"),
        ('"', '"'),
        ("", ""),
    ],
)
def test_ids_are_as_they_were_given(printed: str, job: str) -> None:
    text = f"obdfilter.scratch-OST0000.job_stats=\njob_stats:\n- job_id:          {printed}\n  snapshot_time:   5.0\n"
    assert parse_job_stats(text) == {0: {job: JobTraffic(latest=5.0)}}
    job.encode()  # nobody who prints or stores it fails


def test_targets_that_served_nobody_have_no_jobs() -> None:
    text = "obdfilter.scratch-OST0000.job_stats=\nobdfilter.scratch-OST0001.job_stats=\n"
    assert parse_job_stats(text) == {0: {}, 1: {}}


def test_other_file_systems_on_the_same_node_are_left_out() -> None:
    assert list(parse_job_stats(OLDER, "home")) == [0]
    assert parse_job_stats(OLDER, "home")[0]["4711"].total == 7
    with pytest.raises(BadInput, match=r"has data of several file systems \(home, scratch\); set `name` under"):
        parse_job_stats(OLDER)


@pytest.mark.parametrize(
    "text, reason",
    [
        ("", "printed no OST"),
        ("job_stats:\n- job_id: 1\n", "printed a job before the first OST"),
        ("obdfilter.a-OST0000.job_stats=\n  snapshot_time: 5\n", "printed a counter before the first job"),
        ("  write_bytes: { sum: 5 }", "printed a counter before the first OST"),
    ],
)
def test_text_that_is_no_job_stats_is_one_line(text: str, reason: str) -> None:
    with pytest.raises(BadInput, match=reason):
        parse_job_stats(text)


@given(
    st.one_of(st.text(), st.tuples(st.integers(0, len(OLDER)), st.text(max_size=5)).map(lambda c: OLDER[: c[0]] + c[1]))
)
def test_corrupt_text_is_read_or_one_line(text: str) -> None:
    try:
        assert all(c.total >= 0 for jobs in parse_job_stats(text).values() for c in jobs.values())
    except BadInput as wrong:
        assert "\n" not in str(wrong)


def counted(total: int, latest: float = 0.0) -> JobTraffic:
    return JobTraffic(total=total, latest=latest)


def test_two_readings_give_a_rate() -> None:
    before = {0: {"a": counted(100), "b": counted(50)}}
    after = {0: {"a": counted(300), "b": counted(50)}}
    assert loads_from_job_stats(before, after, seconds=2.0, since=1.0) == [
        Load(index=0, rate=100.0, jobs=frozenset("a"))
    ]


def test_a_job_that_starts_between_the_readings_counts_from_nothing() -> None:
    assert loads_from_job_stats({0: {}}, {0: {"a": counted(300)}}, seconds=2.0, since=1.0)[0].rate == 150.0


def test_a_counter_that_was_cleared_counts_from_nothing() -> None:
    found = loads_from_job_stats({0: {"a": counted(900)}}, {0: {"a": counted(300)}}, seconds=2.0, since=1.0)
    assert found[0].rate == 150.0


def test_a_job_seen_within_the_window_uses_the_target_even_if_it_moves_nothing_now() -> None:
    reading = {0: {"a": counted(100, latest=50.0), "b": counted(100, latest=10.0)}}
    assert loads_from_job_stats(reading, reading, seconds=1.0, since=40.0) == [Load(index=0, jobs=frozenset("a"))]


def test_who_moved_no_bytes_does_not_use_the_target() -> None:
    """A `touch`, a statistic of Forebay's own `lfs df`: an operation, and no byte."""
    reading = {0: {"touch.0": counted(0, latest=50.0), "lfs.0": counted(0, latest=50.0)}}
    assert loads_from_job_stats(reading, reading, seconds=1.0, since=40.0) == []
    assert loads_from_job_stats({0: {}}, reading, seconds=1.0, since=40.0) == []


def test_an_ost_that_comes_with_the_second_reading_has_no_rate_yet() -> None:
    found = loads_from_job_stats({}, {0: {"a": counted(100, latest=50.0)}}, seconds=1.0, since=40.0)
    assert found == [Load(index=0, rate=0.0, jobs=frozenset("a"))]


def test_rates_of_a_target_add_up_and_idle_jobs_do_not_count() -> None:
    assert loads_from_rates([(1, "a", 5.0), (0, "a", 1.0), (1, "a", 2.0), (1, "b", 3.0), (2, "c", 0.0)]) == [
        Load(index=0, rate=1.0, jobs=frozenset("a")),
        Load(index=1, rate=10.0, jobs=frozenset("ab")),
    ]


rows = st.lists(st.tuples(st.integers(0, 4), st.sampled_from("abc"), st.floats(0, 1e12)))


@given(rows)
def test_nothing_is_lost_of_what_is_moved(rates: list[tuple[int, str, float]]) -> None:
    found = loads_from_rates(rates)
    assert sum(load.rate for load in found) == pytest.approx(sum(rate for _, _, rate in rates))
    assert {(load.index, job) for load in found for job in load.jobs} == {(i, j) for i, j, rate in rates if rate > 0}


def test_loads_are_put_on_the_targets_they_are_of() -> None:
    targets = [Target(index=3, users=1, usable=False, because="read-only"), Target(index=7, free_bytes=9)]
    assert add_loads(targets, [Load(index=7, rate=2.5, jobs=frozenset("ab")), Load(index=9, rate=1.0)]) == (
        targets[0],
        Target(index=7, free_bytes=9, users=2, busy=2.5),
    )


def test_one_job_seen_by_two_sources_counts_once() -> None:
    seen = [Load(index=0, rate=4.0, jobs=frozenset("a")), Load(index=0, rate=5.0, jobs=frozenset("ab"))]
    assert add_loads([Target(index=0, users=1)], seen) == (Target(index=0, users=3, busy=5.0),)


class Clock:
    """Time passes only when somebody waits."""

    def __init__(self) -> None:
        self.seconds = 1000.0

    def __call__(self) -> float:
        return self.seconds

    def wait(self, seconds: float) -> None:
        self.seconds += seconds


def test_job_stats_are_read_twice_on_the_server(pretend: Pretend) -> None:
    made = pretend("lustre")
    jobs = [{"job": "4711 é", "latest": 990, "read": 0, "write": 5 * MIB, "step": 8 * MIB}]
    over = [
        {"job": "1", "latest": 5, "read": MIB, "write": MIB},
        {"job": "lfs.0", "latest": 1000, "read": 0, "write": 0},
    ]
    made.change(job_stats={"scratch-OST0002": jobs + over, "home-OST0003": jobs, "scratch-OST0004": over[1:]})
    clock = Clock()
    settings = Settings(kind="lustre", name="scratch", job_stats=True, window=60.0, sample=4.0, timeout=60.0)
    found = read_loads(settings, pause=clock.wait, now=clock, ticks=clock)
    assert found == (Load(index=2, rate=2.0 * MIB, jobs=frozenset({"4711 é"})),)


def test_job_stats_where_no_ost_is_served_are_refused_in_the_commands_words(pretend: Pretend) -> None:
    pretend("lustre")
    with pytest.raises(CommandFailed, match=r"No such file or directory \(exit 2\)$"):
        read_loads(Settings(kind="lustre", job_stats=True, timeout=60.0), pause=lambda _: None)


def test_without_sources_there_are_no_loads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert read_loads(Settings(kind="lustre", targets=4)) == ()
