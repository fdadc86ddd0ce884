"""`forebay forward` as a user meets it: help, and mistakes in one line."""

import json
from pathlib import Path

import pytest

from support.command import Forebay

EXAMPLE = Path(__file__).parents[3] / "examples" / "forward.toml"


@pytest.fixture
def forebay(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Forebay:
    return Forebay(capfd, monkeypatch)


@pytest.fixture
def key(tmp_path: Path, forebay: Forebay) -> str:
    assert forebay("forward", "key", str(tmp_path / "key")).code == 0
    return str(tmp_path / "key")


@pytest.mark.parametrize("command", ["key", "server", "ion", "council", "up"])
def test_help_shows_an_example(forebay: Forebay, command: str) -> None:
    assert f"Example: forebay forward {command}" in forebay("forward", command, "--help").out


def test_a_key_is_never_overwritten(forebay: Forebay, key: str) -> None:
    before = Path(key).read_bytes()
    assert forebay("forward", "key", key).code == 2
    assert Path(key).read_bytes() == before


def test_a_file_can_be_checked_without_starting_anything(forebay: Forebay) -> None:
    ran = forebay("forward", "up", str(EXAMPLE), "--check", "--json")
    assert ran.code == 0
    assert json.loads(ran.out)["parts"][-2:] == ["ion[0]", "ion[1]"]


def test_two_servers_on_one_port_are_named(forebay: Forebay, tmp_path: Path) -> None:
    file = tmp_path / "l.toml"
    table = '[[server]]\naddress = "127.0.0.1:7000"\nfolder = "{}"\n'
    file.write_text(table.format("a") + table.format("b"))
    ran = forebay("forward", "up", str(file), "--check")
    assert ran.code == 2
    assert (
        ran.err.strip() == f"forebay: {file}: server[0] and server[1] both listen at 127.0.0.1:7000; change one of them"
    )


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("--scheduler", "twin"), "--scheduler: no request scheduler 'twin'; did you mean 'twins'?"),
        (("--window", "soon"), "--window: 'soon' is not a number with a unit"),
        (("--aggregate", "1 GiB"), "--aggregate: messages of 1073741824 bytes are too long"),
        (("--scheduler", "fifo:aggregate=1073741824"), "--scheduler: messages of 1073741824 bytes are too long"),
        (("--root", "/tmp"), "needs data servers (--server) or a folder (--root)"),
        (("--stripe-size", "5 B"), "--stripe-size: a stripe size must be"),
        (("--council", "x"), "--council: must be like"),
        (("--metrics", "unix:/m"), "--metrics: must be HOST:PORT"),
    ],
)
def test_an_io_nodes_mistakes_are_one_line(forebay: Forebay, key: str, words: tuple[str, ...], reason: str) -> None:
    listen = f"unix:{key}.sock"
    ran = forebay("forward", "ion", "--listen", listen, "--key", key, "--server", "unix:/nowhere", *words)
    assert ran.code == 2
    assert reason in ran.err
    assert ran.err.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("--values", ""), "window: needs one or more distinct values"),
        (("--values", "1us"), "window must be 0 or at least 10000, not 1000"),
        (("--parameter", "quantum"), "--values: is required to tune quantum"),
        (("--most-loss", "0"), "most_loss must be above 0"),
        (("--parameter", "size", "--values", "1,2"), "unknown parameter 'size'"),
        (("--tuner", "ucbb"), "did you mean 'ucb'?"),
        (("--every", "0 s"), "--every: must be between"),
    ],
)
def test_a_councils_mistakes_are_one_line(forebay: Forebay, key: str, words: tuple[str, ...], reason: str) -> None:
    ran = forebay("forward", "council", "--listen", f"unix:{key}.sock", "--key", key, *words)
    assert ran.code == 2
    assert reason in ran.err
    assert ran.err.count("\n") == 1


def test_a_missing_key_and_one_that_others_may_read_are_refused(forebay: Forebay, tmp_path: Path, key: str) -> None:
    words = ("forward", "server", "--folder", str(tmp_path / "d"), "--listen", f"unix:{tmp_path}/s", "--key")
    assert "cannot read the key: no such file" in forebay(*words, str(tmp_path / "none")).err
    Path(key).chmod(0o644)
    assert "other users can read the key" in forebay(*words, key).err
