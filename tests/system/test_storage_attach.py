"""An exposed grant from request to release, with a real service and agent: attached, written, moved, given back."""

import json
import os
import pwd
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.control_processes import System, control_system, forebay
from support.slurm_jobs import jobs_file

needed = ("nbdkit", "nbdfuse", "fusermount3")
pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or not all(map(shutil.which, needed)) or not Path("/dev/fuse").exists(),
    reason="needs root, FUSE, and nbdkit, libnbd-bin and fuse3 of Debian",
)


@pytest.fixture
def system() -> Iterator[System]:
    with control_system() as made:
        made.add_agent("n1", "loop:nbd")
        made.start()
        try:
            yield made
        finally:
            for node in ("a", "b"):
                for volume in (made.folder / node).glob(".*"):
                    forebay("storage", "detach", volume.name[1:].partition(".")[0], "--at", str(made.folder / node))


def attached(system: System, grant: str, node: str) -> "subprocess.CompletedProcess[str]":
    return system.command("attach", grant, "--at", str(system.folder / node), "--json")


def test_a_grant_is_attached_on_one_node_at_a_time_and_keeps_what_is_on_it(system: System) -> None:
    grant = system.told("request", "--size", "20MB", "--time", "1h", "--expose", "nbd", "--wait")["id"]
    done = attached(system, grant, "a")
    assert done.returncode == 0, done.stderr
    [path] = json.loads(done.stdout)["paths"]
    assert os.path.ismount(path)
    Path(path, "file").write_text("kept")
    with system.client() as client:
        assert client.grant(grant)["state"] == "in-use"
    refused = attached(system, grant, "b")
    assert refused.returncode == 2
    assert "is in use on another node" in refused.stderr
    assert json.loads(attached(system, grant, "a").stdout)["paths"] == [path]
    system.agents["n1"].kill()
    system.agents["n1"].start()  # it serves again, and nobody notices
    Path(path, "more").write_bytes(os.urandom(1 << 20))
    os.sync()
    assert "1 volume detached" in forebay("storage", "detach", grant, "--at", str(system.folder / "a")).stdout
    assert not Path(path).exists()
    moved = attached(system, grant, "b")
    assert moved.returncode == 0, moved.stderr
    [other] = json.loads(moved.stdout)["paths"]
    assert Path(other, "file").read_text() == "kept"
    assert Path(other, "more").stat().st_size == 1 << 20
    forebay("storage", "detach", grant, "--at", str(system.folder / "b"))
    assert "not attached here" in forebay("storage", "detach", grant, "--at", str(system.folder / "b")).stdout
    system.command("release", grant, "--wait")
    assert system.on_disks() == []


def test_what_is_not_exposed_or_not_there_is_refused_in_one_line(system: System) -> None:
    system.add_agent("n2", "directory").start()
    system.registered()
    plain = system.told("request", "--size", "1MB", "--time", "1h", "--wait")["id"]
    done = attached(system, plain, "a")
    assert (done.returncode, done.stdout) == (2, "")
    assert "is not exposed to other nodes" in done.stderr
    assert "no grant" in attached(system, "0" * 32, "a").stderr
    system.command("release", plain, "--wait")
    assert "is released; only a ready grant can be attached" in attached(system, plain, "a").stderr
    assert not (system.folder / "a").exists()


def test_a_jobs_space_is_mounted_before_it_told_and_taken_away_after_it(system: System, tmp_path: Path) -> None:
    user = pwd.getpwuid(os.geteuid()).pw_name
    node = system.folder / "a"
    space = f'[space]\nservice = "{system.address}"\nfolder = "{node}"\n'
    config = jobs_file(tmp_path, more=space)
    request = ("request", "--size", "20MB", "--time", "1h", "--expose", "nbd", "--wait", "--job", "12")
    grant = system.told(*request)["id"]
    job = ("--config", str(config), "--user", user, "--job")
    other = json.loads(forebay("slurm", "prolog", *job, "13", "--json").stdout)
    assert "FOREBAY_PATH" not in other["environment"]
    told = json.loads(forebay("slurm", "prolog", *job, "12", "--json").stdout)
    assert told["environment"]["FOREBAY_PATH"] == str(node / f"{grant}.0")
    assert f"export FOREBAY_PATH={node / f'{grant}.0'}\n" in (tmp_path / "told" / "12.env").read_text()
    Path(told["environment"]["FOREBAY_PATH"], "file").write_text("of the job")
    assert forebay("slurm", "epilog", *job, "12").returncode == 0
    assert list(node.iterdir()) == []
    system.command("release", grant, "--wait")
    assert system.on_disks() == []


def test_a_service_that_is_away_fails_no_job(tmp_path: Path) -> None:
    user = pwd.getpwuid(os.geteuid()).pw_name
    config = jobs_file(tmp_path, more=f'[space]\nservice = "unix:{tmp_path}/none"\n')
    done = forebay("slurm", "prolog", "--config", str(config), "--user", user, "--job", "12", "--env")
    assert (done.returncode, done.stdout) == (0, "export FOREBAY_APP=unknown\n")
    assert "cannot reach the service" in done.stderr
