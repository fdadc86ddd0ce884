"""A named pipe may never have a writer, and devices may never end: commands refuse them instead of waiting."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from forebay.act.forward.net.key import read_key
from forebay.history.platforms import read_platform
from forebay.history.traces.cache import cache_key
from forebay.model.errors import BadInput
from forebay.profile.calibration.calibration_file import read_calibrations
from forebay.profile.pattern_detector import read_detector
from support.command import Forebay

SECONDS = 60


@pytest.fixture
def forebay(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Forebay:
    return Forebay(capfd, monkeypatch)


@pytest.mark.parametrize(
    "arguments",
    [
        ("diagnose", "{}.darshan"),
        ("ingest", "{}.darshan"),
        ("ingest", "--sacct", "{}"),
        ("replay", "{}"),
        ("history", "runs", "--db", "{}"),
        ("advise", "--app", "ior", "--procs", "4", "--db", "{}"),
        ("profile", "ior", "--db", "{}"),
        ("calibrate", "{}.yaml"),
        ("allocate", "{}.toml"),
        ("simulate", "{}.toml"),
        ("serve", "--config", "{}.toml"),
        ("study", "jobs", "--jobs", "{}.csv", "--nodes", "4", "--space", "1GB"),
    ],
    ids=" ".join,
)
def test_a_command_refuses_a_named_pipe(arguments: tuple[str, ...], forebay: Forebay, tmp_path: Path) -> None:
    paths = [argument.format(tmp_path / "pipe") for argument in arguments]
    for path in paths:
        if path.startswith(str(tmp_path)):
            os.mkfifo(path)
    ran = forebay(*paths)
    assert ran.code == 2
    assert "is not a regular file" in ran.err and len(ran.err.splitlines()) == 1


@pytest.mark.parametrize(
    ("read", "suffix"),
    [
        (read_key, ""),
        (read_calibrations, ".toml"),
        (read_detector, ".json"),
        (read_platform, ".yml"),
        (read_platform, ".toml"),
        (lambda path: cache_key([path], ""), ".csv"),
    ],
)
def test_a_reader_refuses_a_named_pipe(read: Callable[[Path], object], suffix: str, tmp_path: Path) -> None:
    pipe = tmp_path / f"pipe{suffix}"
    os.mkfifo(pipe)
    with pytest.raises(BadInput, match="regular file"):
        read(pipe)


@pytest.mark.parametrize("pack", ["cat", "gzip -c"])
def test_a_pipe_of_the_shell_is_read(pack: str, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("hello")
    read = "with open_bytes(Path('/dev/stdin')) as file: print(file.read())"
    code = f"from pathlib import Path; from forebay.history.text_files import open_bytes\n{read}"
    script = f'{pack} {tmp_path / "text"} | {sys.executable} -c "{code}"'
    done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, timeout=SECONDS, check=True)
    assert done.stdout == "b'hello'\n"
