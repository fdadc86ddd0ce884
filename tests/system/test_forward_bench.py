"""`forebay forward bench`, which starts a whole layer, drives it from real processes and ends it."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from forebay.act.forward.net.key import write_key
from support.command import Forebay
from support.forward_processes import layer, start

BENCH = ("forward", "bench")
SMALL = ("--processes", "2", "--request", "100 KiB", "--total", "2 MiB", "--servers", "2")


def document(*arguments: object) -> Any:
    argv = [sys.executable, "-m", "forebay", *BENCH, *map(str, arguments), "--json"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_schedulers_are_compared_in_turns(tmp_path: Path) -> None:
    picture = tmp_path / "bench.png"
    options = (
        "--pattern",
        "shared-strided",
        "--schedulers",
        "fifo,twins-work-conserving",
        "--rounds",
        "2",
        "--ions",
        "2",
    )
    found = document(*SMALL, *options, "--plot", picture)
    assert [(way["scheduler"], way["operation"]) for way in found["ways"]] == [
        ("fifo", "write"),
        ("twins-work-conserving", "write"),
        ("fifo", "read"),
        ("twins-work-conserving", "read"),
    ]
    assert all(len(way["bandwidths"]) == 2 and way["bandwidth"] > 0 for way in found["ways"])
    assert found["ways"][0]["ratio"] == 1.0
    assert found["bytes"] == 20 * 102400
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_emulated_servers_are_told_in_their_own_time() -> None:
    """At 600 MB/s a server takes 437 us for 256 KiB, and more for all else: two of them have no 1.2 GB/s."""
    options = ("--emulate", "5", "--operation", "write", "--rounds", "1", "--request", "256 KiB", "--total", "4 MiB")
    (way,) = document(*SMALL, *options)["ways"]
    assert 0 < way["bandwidth"] < 1.2e9


def test_a_layer_that_is_there_is_used_and_left_as_it_was() -> None:
    with layer() as made:
        made.add_servers(2)
        made.add_nodes(1)
        start(*made.servers, *made.nodes)
        found = document(*SMALL, "--nodes", made.addresses[0], "--key", made.key_file, "--rounds", "1")
        assert found["layer"] == "given"
        with made.client() as client:
            assert client.readdir("/") == []


def test_the_advisor_is_in_the_loop(tmp_path: Path) -> None:
    history = f"sqlite:///{tmp_path / 'history.db'}"
    found = document(*SMALL, "--loop", "striping", "--runs", "3", "--pattern", "shared-contiguous", "--db", history)
    assert [run["run"] for run in found["runs"]] == [1, 2, 3]
    assert len({run["history_run"] for run in found["runs"]}) == 3
    assert all(1 <= run["stripe_count"] <= 2 for run in found["runs"])
    assert all(set(run["operations"]) == {"write", "read"} for run in found["runs"])


def test_a_council_is_watched(tmp_path: Path) -> None:
    picture = tmp_path / "windows.png"
    options = ("--council", "--runs", "2", "--rounds", "1", "--emulate", "20", "--operation", "read")
    found = document(*SMALL, *options, "--plot", picture)
    assert [cost["operation"] for cost in found["overhead"]] == ["read"]
    assert len(found["runs"]) == 2
    windows = {0.0, 0.0025, 0.005, 0.01, 0.02, 0.04, 0.08, 0.16}
    assert {decision["window"] for decision in found["decisions"]} <= windows | {None}
    assert picture.read_bytes().startswith(b"\x89PNG")


@pytest.fixture
def forebay(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Forebay:
    return Forebay(capfd, monkeypatch)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--pattern", "strided"), "no pattern 'strided'; did you mean 'shared-strided'?"),
        (("--operation", "append"), "no operation 'append'"),
        (("--total", "1 KiB"), "--total: must be at least "),
        (("--request", "many"), "--request: "),
        (("--schedulers", "fastest"), "no request scheduler 'fastest'"),
        (("--stripes", "9"), "--stripes: must be at most 4, the number of servers, not 9"),
        (("--stripe-size", "1000"), "--stripe-size: a stripe size must be a multiple of 64 KiB"),
        (("--nodes", "unix:/nowhere"), "--key: is required with --nodes"),
        (("--council", "--tuner", "best"), "--tuner: no tuner 'best'"),
        (("--loop", "placement"), "no loop 'placement'"),
        (("--loop", "striping", "--council"), "--loop: cannot be combined with --council"),
        (("--emulate", "-1"), "--emulate: must be a factor between 0 and 1000, not -1"),
    ],
)
def test_mistakes_are_told_in_one_line(forebay: Forebay, options: tuple[str, ...], words: str) -> None:
    done = forebay(*BENCH, *options)
    assert (done.code, done.out) == (2, "")
    assert words in done.err
    assert len(done.err.splitlines()) == 1


def test_a_layer_that_is_not_there_is_told_at_once(forebay: Forebay, tmp_path: Path) -> None:
    write_key(tmp_path / "key")
    done = forebay(*BENCH, "--nodes", f"unix:{tmp_path}/nobody", "--key", tmp_path / "key")
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(f"forebay: --nodes unix:{tmp_path}/nobody: ")
    assert len(done.err.splitlines()) == 1
