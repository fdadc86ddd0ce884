"""Commands whose standard streams are closed, or cannot be written to."""

import subprocess
import sys

import pytest

from support.limits import LIMIT


def run(redirection: str, *words: str) -> subprocess.CompletedProcess[str]:
    line = f'exec "$@" {redirection}'
    command = ["sh", "-c", line, "sh", sys.executable, "-m", "forebay", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=LIMIT)


@pytest.mark.parametrize("redirection", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
@pytest.mark.parametrize("words", [("--version",), ("storage", "nodes", "--help")])
def test_a_closed_stream_is_like_the_null_device(redirection: str, words: tuple[str, ...]) -> None:
    ran = run(redirection, *words)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert bool(ran.stdout) == (" >&-" not in f" {redirection}")


@pytest.mark.parametrize("redirection", [">&-", "2>&-", "<&- >&- 2>&-"])
def test_an_error_is_an_error_if_nobody_can_read_it(redirection: str) -> None:
    ran = run(redirection, "storage", "nodes", "--service", "unix:/nowhere")
    assert (ran.returncode, ran.stdout) == (2, "")


@pytest.mark.parametrize("words", [("--version",), ("policies", "--json")])
def test_output_that_cannot_be_written_is_one_line_that_says_so(words: tuple[str, ...]) -> None:
    ran = run(">/dev/full", *words)
    assert (ran.returncode, ran.stderr) == (
        1, "forebay: cannot write to standard output: no space left on device\n"
    )  # fmt: skip


def test_an_error_that_cannot_be_written_keeps_its_exit_code() -> None:
    ran = run("2>/dev/full", "storage", "nodes", "--service", "unix:/nowhere")
    assert (ran.returncode, ran.stdout) == (2, "")
