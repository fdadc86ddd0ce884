"""Scenarios of storage: every key, every way to say it, and every way to get it wrong."""

import math
from pathlib import Path

import numpy as np
import pytest

from forebay.model.errors import BadInput
from forebay.model.reference_platforms import NAMES, reference_platform
from forebay.simulate.storage.rules import Feedback, Rules
from forebay.simulate.storage.scenario import StorageScenario, find_platform, find_requests, read_storage_scenario

GB = 10**9
LEAST = {"platform": '"8TB/1NnD"', "requests": '"theta-2020:20"'}
PLATFORM = """
name = "mine"
[[node]]
network_bandwidth = "10 GB/s"
[[node.disk]]
capacity = "3 TB"
write_bandwidth = "1 GB/s"
read_bandwidth = "inf"
count = 2
kind = "SSD"
"""
SYSTEM = "hosts:\n- {hostname: h, network_bw: 25, disks: [{capacity: 1600, read_bandwidth: 3, write_bandwidth: 2.9}]}\n"
JOB = (
    "- {{id: {0}, submissionTime: 2020-01-01 00:00:00, startTime: 2020-01-01 01:00:00, endTime: 2020-01-01 02:00:00, "
    "readBytes: 5000000000, writtenBytes: {0}000000000}}\n"
)
SWF = "1 0 10 100 4 -1 1000 4 100 -1 1 1 1 1 1 1 -1 -1\n"
DARSHAN = (
    "COBALT_JOBID,NPROCS,RUN_TIME,TOTAL_POSIX_BYTES_READ,TOTAL_POSIX_BYTES_WRITTEN,"
    "TOTAL_POSIX_F_READ_TIME,TOTAL_POSIX_F_WRITE_TIME\n7,4,100,0,20000000000,0,80\n"
)
SCHEDULER = (
    "COBALT_JOBID,QUEUED_TIMESTAMP,START_TIMESTAMP,END_TIMESTAMP\n"
    "7.0,2020-01-02 02:06:18,2020-01-02 02:16:18,2020-01-02 02:26:18\n"
)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "there"
    made.mkdir()
    for name, text in {
        "platform.toml": PLATFORM,
        "system.yml": SYSTEM,
        "system.yaml": SYSTEM,
        "jobs.yml": "jobs:\n" + JOB.format(3) + JOB.format(9),
        "trace.swf": SWF,
        "darshan.csv": DARSHAN,
        "scheduler.csv": SCHEDULER,
    }.items():
        (made / name).write_text(text)
    return made


def scenario(folder: Path, changes: dict[str, object] | None = None, seed: int = 0, /, **keys: str) -> StorageScenario:
    """The scenario with these keys of [storage], in TOML; of platform and requests where they don't say."""
    path = folder / "s.toml"
    path.write_text("[storage]\n" + "".join(f"{key} = {text}\n" for key, text in {**LEAST, **keys}.items()))
    return read_storage_scenario(path, changes, seed=seed)


# What it says


def test_a_platform_and_requests_are_enough(folder: Path) -> None:
    found = scenario(folder)
    assert found.path == folder / "s.toml"
    assert found.platform == reference_platform("8TB/1NnD")
    assert len(found.requests) == 20
    assert (found.policy, found.rules, found.feedback) == (None, Rules(), None)


def test_every_key_is_heard(folder: Path) -> None:
    found = scenario(
        folder,
        platform='"platform.toml"',
        requests='"trace.swf"',
        swf_volume='"2 GB"',
        policy='"fill, all,optimal"',
        split='"100 GB"',
        requeue='{ tries = 3, interval = "10 min" }',
        feedback='{ pfs = "2 GB/s", phases = 4 }',
        **{"as": '"correct"'},
    )
    assert found.platform.name == "mine"
    assert found.requests.bytes.tolist() == [4 * 2 * GB]
    assert found.policy == "fill, all,optimal"
    assert found.rules == Rules(split=100 * GB, tries=3, interval=600.0)
    assert found.feedback == Feedback(pfs=2e9, phases=4)


@pytest.mark.parametrize(
    ("keys", "rules"),
    [
        ({"split": "false"}, Rules()),
        ({"split": '"1 TiB"'}, Rules(split=2**40)),
        ({"requeue": "true"}, Rules(tries=12, interval=300.0)),
        ({"requeue": "false"}, Rules()),
        ({"requeue": "{}"}, Rules(tries=12, interval=300.0)),
        ({"requeue": "{ tries = 2 }"}, Rules(tries=2, interval=300.0)),
        ({"requeue": "{ interval = 90 }"}, Rules(tries=12, interval=90.0)),
        ({"requeue": "{ interval = 0.5 }"}, Rules(tries=12, interval=0.5)),
        ({"as": '"storalloc"', "split": '"200 GB"'}, Rules(mode="storalloc", split=200 * GB)),
        ({"as": '"storalloc"', "requeue": "true"}, Rules(mode="storalloc", tries=12)),
    ],
)
def test_rules_can_be_said_in_many_ways(folder: Path, keys: dict[str, str], rules: Rules) -> None:
    assert scenario(folder, **keys).rules == rules


def test_what_the_command_line_switches_on_is_done_as_the_file_says(folder: Path) -> None:
    keys = {"feedback": '{ pfs = "100 MB/s", phases = 3 }', "requeue": '{ tries = 100, interval = "1 min" }'}
    found = scenario(folder, {"feedback": True, "requeue": True}, **keys)
    assert found.feedback == Feedback(pfs=1e8, phases=3)
    assert (found.rules.tries, found.rules.interval) == (100, 60.0)
    assert scenario(folder, {"feedback": False, "requeue": False}, **keys).feedback is None


@pytest.mark.parametrize(
    ("text", "feedback"),
    [
        ("false", None),
        ("true", Feedback(pfs=5e9, phases=10)),
        ("{}", Feedback(pfs=5e9, phases=10)),
        ("{ phases = 1 }", Feedback(pfs=5e9, phases=1)),
        ('{ pfs = "8 Gbit/s" }', Feedback(pfs=1e9, phases=10)),
        ("{ pfs = 1000 }", Feedback(pfs=1000.0, phases=10)),
        ("{ pfs = inf }", Feedback(pfs=math.inf, phases=10)),
    ],
)
def test_feedback_can_be_said_in_many_ways(folder: Path, text: str, feedback: Feedback | None) -> None:
    assert scenario(folder, feedback=text).feedback == feedback


@pytest.mark.parametrize("policy", ["random", "all", "optimal", "all,optimal", "random, worst-fit", "", ",", " fill "])
def test_policies_by_commas_are_kept_as_they_are(folder: Path, policy: str) -> None:
    assert scenario(folder, policy=f'"{policy}"').policy == policy


def test_a_byte_order_mark_and_windows_line_ends_are_read_over(folder: Path) -> None:
    path = folder / "w.toml"
    path.write_bytes(b'\xef\xbb\xbf[storage]\r\nplatform = "8TB/1N1D"\r\nrequests = "theta-2020:3"\r\n')
    assert len(read_storage_scenario(path).requests) == 3


# Platforms and requests


def test_platforms_are_found_by_name_and_beside_the_scenario(folder: Path) -> None:
    mine = scenario(folder, platform='"platform.toml"').platform
    assert [disk.fields for disk in mine.disks] == [{"kind": "SSD"}] * 2
    assert mine.disks[0].read_bandwidth == math.inf
    for name in ("system.yml", "system.yaml"):
        theirs = scenario(folder, platform=f'"{name}"').platform
        assert (theirs.name, theirs.capacity) == ("system", 1600 * GB)
    assert scenario(folder, platform=f'"{folder}/platform.toml"').platform == mine
    for name in NAMES:
        assert find_platform(name, folder, "where") == reference_platform(name)


def test_traces_are_found_beside_the_scenario(folder: Path) -> None:
    assert scenario(folder, requests='"jobs.yml"').requests.bytes.tolist() == [5 * GB, 9 * GB]
    assert scenario(folder, requests='["jobs.yml"]').requests.bytes.tolist() == [5 * GB, 9 * GB]
    assert scenario(folder, requests='"trace.swf"').requests.bytes.tolist() == [1000 * 1024 * 4]
    assert scenario(folder, requests='"trace.swf"', swf_volume='"memory"').requests.bytes.tolist() == [1000 * 1024 * 4]
    for pair in ('["darshan.csv", "scheduler.csv"]', '["scheduler.csv", "darshan.csv"]'):
        found = scenario(folder, requests=pair).requests
        assert (found.ids.tolist(), found.bytes.tolist()) == ([7], [20 * GB])
    assert scenario(folder, requests=f'"{folder}/jobs.yml"').requests.origin == "2 requests from jobs.yml"


def test_drawn_requests_follow_the_seed(folder: Path) -> None:
    one, same, other = (scenario(folder, None, seed).requests for seed in (4, 4, 5))
    assert one.start.tobytes() == same.start.tobytes()
    assert one.bytes.tobytes() == same.bytes.tobytes()
    assert one.start.tobytes() != other.start.tobytes()
    assert len(find_requests("theta-2020", folder)) == 24_001
    assert len(find_requests(["theta-2020:77"], folder, seed=3)) == 77


def test_the_seed_makes_no_difference_to_a_trace(folder: Path) -> None:
    one, other = (scenario(folder, None, seed, requests='"jobs.yml"').requests for seed in (1, 2))
    assert np.array_equal(one.start, other.start)


# What the command line says instead


def test_changes_replace_keys(folder: Path) -> None:
    changes: dict[str, object] = {
        "platform": "platform.toml",
        "requests": ["jobs.yml"],
        "policy": "all",
        "split": False,
        "requeue": True,
        "as": "storalloc",
        "feedback": False,
    }
    found = scenario(folder, changes, split='"200 GB"', feedback="true", policy='"fill"')
    assert found.platform.name == "mine"
    assert len(found.requests) == 2
    assert (found.policy, found.feedback) == ("all", None)
    assert found.rules == Rules(mode="storalloc", tries=12)


def test_changes_that_are_not_there_leave_the_file_as_it_is(folder: Path) -> None:
    assert scenario(folder, {}, split='"200 GB"').rules == Rules(split=200 * GB)


# What is wrong with it


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"platform": "3"}, "platform: must be text, not 3"),
        ({"platform": '"8TB"'}, "platform: unknown platform '8TB'; give a file (.toml, .yml) or one of: 8TB/nNnD, "),
        ({"platform": '""'}, "platform: unknown platform ''; give a file"),
        ({"requests": "3"}, "requests: must be text, not 3"),
        ({"requests": '["jobs.yml", 3]'}, "requests[1]: must be text, not 3"),
        ({"requests": "[]"}, "requests: is empty; name a file, 'theta-2020'"),
        ({"requests": '""'}, "requests: is empty; name a file, 'theta-2020'"),
        (
            {"requests": '"theta-2020:0"'},
            "requests: 'theta-2020:0': the number must be a whole number from 1 to 100,000,000",
        ),
        ({"requests": '"theta-2020:-5"'}, "requests: 'theta-2020:-5': the number must be a whole number"),
        ({"requests": '"theta-2020:1e3"'}, "requests: 'theta-2020:1e3': the number must be a whole number"),
        ({"requests": '"theta-2020:100000001"'}, "requests: 'theta-2020:100000001': the number must be a whole number"),
        ({"requests": f'"theta-2020:{"9" * 5000}"'}, "requests: 'theta-2020:999"),
        ({"swf_volume": "2"}, "swf_volume: must be text, not 2"),
        ({"swf_volume": '"2"'}, "swf_volume: must be 'memory', or a size per processor like '2 GB', not '2'"),
        ({"swf_volume": '"much"'}, "swf_volume: must be 'memory', or a size per processor like '2 GB', not 'much'"),
        ({"policy": "3"}, "policy: must be text, not 3"),
        ({"policy": '["fill"]'}, "policy: must be text, not ['fill']"),
        ({"policy": '"wurst-fit"'}, "policy: no storage policy 'wurst-fit'; did you mean 'worst-fit'?"),
        ({"policy": '"fill,tcpu"'}, "policy: no storage policy 'tcpu'; "),
        ({"policy": '"fill:speed=3"'}, "policy: no option of policy 'fill' 'speed'"),
        ({"split": "200"}, "split: needs a unit, like '200 GB', not 200"),
        ({"split": '"200"'}, "split: needs a unit, like '200 GB', not '200'"),
        ({"split": "true"}, "split: needs a unit, like '200 GB', not True"),
        ({"split": '"200 GB/s"'}, "split: '200 GB/s' has no unit of bytes; "),
        ({"split": '"some GB"'}, "split: 'some GB' is not a number with a unit"),
        ({"split": '"0 GB"'}, "split: must be at least 1, not '0 GB'"),
        ({"split": '"-4 GB"'}, "split: must be at least 1, not '-4 GB'"),
        ({"split": '"1e10 GB"'}, "split: must be at most 1000000000000000000, not '1e10 GB'"),
        ({"split": '"0.5 GB"', "as": '"storalloc"'}, "split: must be positive and whole GB, not 500,000,000 bytes"),
        ({"requeue": "3"}, "requeue: must be true or false, not 3"),
        ({"requeue": "{ tries = -1 }"}, "requeue.tries: must be at least 0, not -1"),
        ({"requeue": "{ tries = 1.5 }"}, "requeue.tries: must be an integer"),
        ({"requeue": "{ tries = 10000000 }"}, "requeue.tries: must be at most 1000000"),
        ({"requeue": "{ interval = 0 }"}, "requeue.interval: must be greater than 0, not 0"),
        ({"requeue": "{ interval = inf }"}, "requeue.interval: must be a finite number, not inf"),
        ({"requeue": "{ interval = nan }"}, "requeue.interval: "),
        ({"requeue": '{ interval = "5 mins" }'}, "requeue.interval: '5 mins' is not a duration"),
        ({"requeue": "{ interval = true }"}, "requeue.interval: must be a number, or text with a unit, not True"),
        ({"requeue": "{ often = 3 }"}, "requeue.often: is not a key of this table"),
        ({"as": '"exact"'}, "as: must be 'correct' or 'storalloc', not 'exact'"),
        ({"as": "1"}, "as: must be 'correct' or 'storalloc', not 1"),
        ({"feedback": '"yes"'}, "feedback: must be true or false, not 'yes'"),
        ({"feedback": "{ pfs = 0 }"}, "feedback.pfs: must be greater than 0, not 0"),
        ({"feedback": "{ pfs = nan }"}, "feedback.pfs: must be greater than 0, not nan"),
        ({"feedback": '{ pfs = "5 GB" }'}, "feedback.pfs: '5 GB' is not a bandwidth"),
        ({"feedback": "{ phases = 0 }"}, "feedback.phases: must be at least 1, not 0"),
        ({"feedback": "{ phases = 2.5 }"}, "feedback.phases: must be an integer"),
        ({"feedback": "{ phase = 2 }"}, "feedback.phase: is not a key of this table"),
        ({"feedback": "true", "as": '"storalloc"'}, "feedback: needs as = 'correct': StorAlloc has no feedback"),
        ({"polciy": '"fill"'}, "polciy: is not a key of this table"),
        ({"as_": '"correct"'}, "as_: is not a key of this table"),
    ],
)
def test_a_bad_value_is_one_line_with_the_file_and_the_key(folder: Path, keys: dict[str, str], said: str) -> None:
    with pytest.raises(BadInput) as raised:
        scenario(folder, **keys)
    assert str(raised.value).startswith(f"{folder}/s.toml: storage.{said}")
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "s.toml: storage: is missing"),
        ("storage = 3", "s.toml: storage: must be a table, not 3"),
        ('[storage]\nrequests = "theta-2020"', "s.toml: storage.platform: is missing"),
        ('[storage]\nplatform = "8TB/1N1D"', "s.toml: storage.requests: is missing"),
        ("[storage", "s.toml:1: is not TOML: "),
        ('[storage]\nplatform = "8TB/1N1D"\nrequests = "theta-2020"\n[system]', "s.toml: system: is not a key"),
    ],
)
def test_a_file_that_is_no_scenario_is_refused(folder: Path, text: str, said: str) -> None:
    (folder / "s.toml").write_text(text)
    with pytest.raises(BadInput) as raised:
        read_storage_scenario(folder / "s.toml", {"policy": "fill"})
    assert str(raised.value).startswith(f"{folder}/{said}")
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"platform": '"nowhere.toml"'}, "nowhere.toml: no such file or directory"),
        ({"platform": '"nowhere.yml"'}, "nowhere.yml: no such file or directory"),
        ({"requests": '"nowhere.yml"'}, "nowhere.yml: no such file or directory"),
        ({"requests": '"trace.txt"'}, "trace.txt: file names must end in .yml, "),
        ({"requests": '["theta-2020", "jobs.yml"]'}, "theta-2020 and "),
        ({"requests": '["jobs.yml", "jobs.yml"]'}, "jobs.yml and "),
        ({"requests": '["darshan.csv", "darshan.csv"]'}, "darshan.csv"),
    ],
)
def test_what_is_wrong_with_another_file_is_said_of_that_file(folder: Path, keys: dict[str, str], said: str) -> None:
    with pytest.raises(BadInput) as raised:
        scenario(folder, **keys)
    assert str(raised.value).startswith(f"{folder}/{said}")
    assert "\n" not in str(raised.value)


def test_there_is_no_scenario(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"none\.toml: no such file or directory"):
        read_storage_scenario(tmp_path / "none.toml")


def test_a_bad_change_names_the_key_too(folder: Path) -> None:
    for changes, said in (
        ({"split": "200"}, "split: needs a unit"),
        ({"as": "exact"}, "as: must be"),
        ({"policy": "frist-fit"}, "policy: no storage policy 'frist-fit'; did you mean 'first-fit'?"),
        ({"platform": "9TB/nNnD"}, "platform: unknown platform '9TB/nNnD'"),
    ):
        with pytest.raises(BadInput) as raised:
            scenario(folder, dict(changes))
        assert str(raised.value).startswith(f"{folder}/s.toml: storage.{said}")
