"""The scripts that Slurm runs: they start us, and end well whatever becomes of that."""

import os
import subprocess
from pathlib import Path

import pytest

from forebay.act.slurm.burst_buffer.installation import SCRIPTS, fill_scripts
from forebay.act.slurm.jobs.prolog import NAMES


def written(folder: Path, command: str, log: Path | None = None) -> dict[str, Path]:
    made = fill_scripts(
        command=command,
        config=folder / "my slurm.toml",
        folder=folder / "told",
        log=log or folder / "log",
        conf="/e/s.conf",
    )
    paths = {}
    for name, text in made.items():
        paths[name] = folder / name
        paths[name].write_text(text)
        paths[name].chmod(0o755)
    return paths


def run(path: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([path], env=environment, capture_output=True, text=True, timeout=60, check=False)


def a_command(folder: Path, body: str) -> str:
    path = folder / "command"
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return str(path)


@pytest.mark.parametrize("name", ["prolog", "epilog"])
def test_we_are_started_with_the_file_and_what_we_say_is_kept(tmp_path: Path, name: str) -> None:
    command = a_command(
        tmp_path, f'echo "$@" > {tmp_path}/words; echo $SLURM_CONF >> {tmp_path}/words; echo trouble >&2; exit 1'
    )
    done = run(written(tmp_path, command)[f"{name}.sh"])
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert (tmp_path / "words").read_text() == f"slurm {name} --config {tmp_path}/my slurm.toml\n/e/s.conf\n"
    assert (tmp_path / "log").read_text() == "trouble\n"


def test_the_slurm_that_runs_the_script_is_the_one_that_is_asked(tmp_path: Path) -> None:
    command = a_command(tmp_path, f"echo $SLURM_CONF > {tmp_path}/words")
    run(written(tmp_path, command)["prolog.sh"], SLURM_CONF="/other.conf")
    assert (tmp_path / "words").read_text() == "/other.conf\n"


@pytest.mark.parametrize("name", SCRIPTS.values())
def test_a_program_or_log_that_is_not_there_fails_no_job(tmp_path: Path, name: str) -> None:
    paths = written(tmp_path, "/no/such/forebay", tmp_path / "no" / "folder" / "log")
    assert run(paths[name]).returncode == 0
    assert run(paths[name]).stderr == ""


def test_a_task_is_told_its_jobs_values_and_nothing_of_an_earlier_one(tmp_path: Path) -> None:
    script = written(tmp_path, "forebay")["task_prolog.sh"]
    (tmp_path / "told").mkdir()
    (tmp_path / "told" / "12.env").write_text("export FOREBAY_TARGETS=0,1\n")
    forgotten = [f"unset {name}" for name in NAMES]
    assert run(script, SLURM_JOB_ID="12").stdout.splitlines() == [*forgotten, "export FOREBAY_TARGETS=0,1"]
    assert run(script, SLURM_JOB_ID="13").stdout.splitlines() == forgotten
    assert run(script).returncode == 0


def test_no_mark_is_left_in_any_script() -> None:
    made = fill_scripts(command="forebay", config=Path("/c"), folder=Path("/t"), log=Path("/l"))
    assert list(made) == list(SCRIPTS.values())
    assert all("@" not in text for text in made.values())
    assert all(text.startswith("#!/bin/sh" + os.linesep) for text in made.values())
