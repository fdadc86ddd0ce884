"""`forebay schedule` on a machine where Slurm's commands fail."""

from pathlib import Path

import pytest

from support.command import Forebay

NO_SETTINGS = (
    "echo 'squeue: error: fetch_config: DNS SRV lookup failed' >&2\n"
    "echo 'squeue: fatal: Could not establish a configuration source' >&2\n"
)


@pytest.fixture
def forebay(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Forebay:
    return Forebay(capfd, monkeypatch)


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        (NO_SETTINGS, "Could not establish a configuration source"),
        ("echo 'error: Unable to contact slurm controller' >&2\n", "Unable to contact slurm controller"),
    ],
)
def test_one_line_says_that_slurm_does_not_answer_and_what_to_do(
    forebay: Forebay, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, reason: str
) -> None:
    squeue = tmp_path / "squeue"
    squeue.write_text(f"#!/bin/sh\n{script}exit 1\n")
    squeue.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    config = tmp_path / "schedule.toml"
    config.write_text('[schedule]\nfolder = "plan"\n')
    ran = forebay("schedule", "--config", config, "--once")
    assert ran.code == 2
    [line] = ran.err.splitlines()
    assert "cannot make a plan, as Slurm does not answer: squeue: " in line and reason in line
    assert line.endswith(f"or set conf under [slurm] in {config}") and "fetch_config" not in line
