"""A shared file system from request to release, with a real service and agents: used on two nodes, and broken."""

import errno
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from forebay.act.volumes.mounts import mounted_at
from forebay.act.volumes.shared_mount import PID, SharedMount
from support.control_processes import System, control_system, forebay
from support.fio import needs_fuse
from support.processes import PATIENCE, wait_until
from support.users import ORDINARY

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root: volumes are images with a file system")


@pytest.fixture(scope="module")
def system() -> Iterator[System]:
    needs_fuse()
    with control_system() as made:
        made.folder.chmod(0o755)
        made.add_agent("n1", "loop")
        made.add_agent("n2", "loop")
        made.start()
        yield made


@pytest.fixture
def grant(system: System) -> Iterator[str]:
    """Of an ordinary user, on two data servers."""
    with system.client() as client:
        made = client.request("40MB", "1h", type="shared", servers=2, uid=ORDINARY, gid=ORDINARY)["id"]
    ready = system.told("wait", made)
    assert ready["state"] == "ready"
    yield made
    for node in ("a", "b"):
        forebay("storage", "unmount", made, "--at", str(system.folder / node))
    system.command("release", made, "--wait")
    assert system.on_disks() == []
    assert servers_of(made) == []


def servers_of(grant: str) -> list[int]:
    """The process ids of its data servers."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            words = (folder / "cmdline").read_bytes().split(b"\0")
            if b"server" in words and any(grant.encode() in word for word in words):
                found.append(int(folder.name))
    return sorted(found)


def mount(system: System, grant: str, node: str) -> Path:
    """What another node would do, at another path of this one."""
    done = system.command("mount", grant, "--at", str(system.folder / node))
    assert done.returncode == 0, done.stderr
    return system.folder / node


def child_of(parent: int, name: str) -> int:
    """The process id of the child that runs `forebay forward NAME`."""
    for child in Path(f"/proc/{parent}/task/{parent}/children").read_text().split():
        if name.encode() in Path(f"/proc/{child}/cmdline").read_bytes().split(b"\0"):
            return int(child)
    raise AssertionError(f"{parent} has no child {name}")


def is_readable(file: Path) -> bool:
    try:
        return file.read_text() == "kept"
    except OSError:
        return False


def run_as(uid: int, script: str) -> "subprocess.CompletedProcess[str]":
    argv = ("setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups", "sh", "-c", script)
    return subprocess.run(argv, capture_output=True, text=True, timeout=PATIENCE)


def test_every_node_has_the_same_files_and_only_their_owner_reaches_them(system: System, grant: str) -> None:
    here, there = mount(system, grant, "a"), mount(system, grant, "b")
    written = run_as(ORDINARY, f"echo seventeen > {here}/file && mkdir {here}/folder && cat {there}/file")
    assert (written.stdout, written.stderr) == ("seventeen\n", "")
    assert (there / "folder").is_dir()
    assert (there / "file").stat().st_uid == ORDINARY
    stranger = run_as(ORDINARY + 1, f"cat {here}/file")
    assert "Permission denied" in stranger.stderr
    users = {line for pid in servers_of(grant) for line in Path(f"/proc/{pid}/status").read_text().splitlines()}
    assert "Uid:\t" + "\t".join([str(ORDINARY)] * 4) in users
    shown = system.command("show", grant, "--story").stdout
    assert "a shared file system of 40.00 MB" in shown
    assert "data server" in shown
    assert system.told("show", grant)["state"] == "in-use"


def test_what_is_killed_is_started_again_and_programs_go_on(system: System, grant: str) -> None:
    here = mount(system, grant, "a")
    data = os.urandom(3 << 20)
    with (here / "file").open("wb", buffering=0) as file:
        file.write(data[: 1 << 20])
        os.fsync(file.fileno())
        before = servers_of(grant)
        os.kill(next(pid for pid in before if b"/n2" in Path(f"/proc/{pid}/cmdline").read_bytes()), signal.SIGKILL)
        file.write(data[1 << 20 : 2 << 20])  # waits for the server
        system.agents["n1"].kill()
        wait_until(lambda: len(servers_of(grant)) == 1, "the servers of a killed agent stay")
        system.service.kill()
        system.agents["n1"].start()  # without the service
        file.write(data[2 << 20 :])
        system.service.start()
    assert (here / "file").read_bytes() == data
    assert not set(before) & set(servers_of(grant))
    wait_until(lambda: "ended by SIGKILL; it is started again" in system.command("show", grant, "--story").stdout, "")
    assert system.told("show", grant)["state"] == "in-use"


def test_a_mount_that_is_killed_is_mounted_again(system: System, grant: str) -> None:
    here = mount(system, grant, "a")
    (here / "file").write_text("kept")
    keeper = int((SharedMount(here).folder / PID).read_text())
    for name in ("mount", "ion"):
        os.kill(child_of(keeper, name), signal.SIGKILL)
        wait_until(lambda: is_readable(here / "file"), f"the {name} is not started again")
    os.kill(keeper, signal.SIGKILL)
    with pytest.raises(OSError, match=r"not connected|connection abort"):
        while True:
            here.stat()
    assert mount(system, grant, "a") == here
    assert (here / "file").read_text() == "kept"
    in_use = (here / "file").open()
    unmounted = forebay("storage", "unmount", grant, "--at", str(here))
    assert "unmounted" in unmounted.stdout
    with pytest.raises(OSError, match=r"not connected|connection abort"):
        in_use.close()
    assert not here.exists()
    assert not SharedMount(here).folder.exists()
    assert "not mounted here" in forebay("storage", "unmount", grant, "--at", str(here)).stdout


def test_a_full_one_says_so_and_a_server_on_a_full_disk_starts_again(system: System, grant: str) -> None:
    here = mount(system, grant, "a")
    (here / "first").write_bytes(b"x" * 1000)
    with pytest.raises(OSError, match=os.strerror(errno.ENOSPC)), (here / "large").open("wb", buffering=0) as file:
        while file.write(bytes(1 << 20)):
            pass
    before = servers_of(grant)
    for server in before:
        os.kill(server, signal.SIGKILL)
    assert (here / "first").read_bytes() == b"x" * 1000
    (here / "large").unlink()
    (here / "second").write_bytes(b"y" * 1000)


def test_a_release_unmounts_it_everywhere(system: System, grant: str) -> None:
    here = mount(system, grant, "a")
    (here / "file").write_text("gone")
    assert system.command("release", grant, "--wait").returncode == 0
    wait_until(lambda: not SharedMount(here).folder.exists(), "the mount stays")
    assert mounted_at(here) is None
    assert not here.exists()


def test_another_grant_does_not_get_a_path_that_is_taken(system: System, grant: str) -> None:
    here = mount(system, grant, "a")
    other = system.told("request", "--size", "20MB", "--time", "1h", "--type", "shared", "--servers", "2", "--wait")
    refused = system.command("mount", other["id"], "--at", str(here))
    assert (refused.returncode, refused.stdout) == (2, "")
    assert f"{here}: grant {grant} is mounted there; choose another path with --at" in refused.stderr
    system.command("release", other["id"], "--wait")


def test_wrong_requests_and_wrong_callers_get_one_line(system: System, grant: str) -> None:
    def refuse(*words: str, token: Path | None = None) -> str:
        done = system.command(*words, token=token)
        assert done.returncode == 2, done.stdout
        assert "Traceback" not in done.stderr
        return done.stderr

    ask = ("request", "--size", "20MB", "--time", "1h")
    assert "no type of space 'shred'; did you mean 'shared'?" in refuse(*ask, "--type", "shred")
    assert "servers: is only for a shared file system; set type=shared" in refuse(*ask, "--servers", "2")
    too_many = refuse(*ask, "--type", "shared", "--servers", "9")
    assert "was refused: 9 data servers need 9 disks; there are only 2 disks" in too_many
    assert "is not for a shared file system" in refuse(*ask, "--type", "shared", "--expose", "nbd")
    stranger = system.token("stranger", "user", uid=ORDINARY + 1, gid=ORDINARY + 1)
    assert "only its owner or an administrator may see this grant" in refuse("mount", grant, token=stranger)
    plain = system.told(*ask, "--wait")["id"]
    assert "is not a shared file system; request one with --type shared" in refuse("mount", plain)
    system.command("release", plain, "--wait")


def test_a_lost_node_fails_the_grant_with_a_reason(system: System) -> None:
    made = system.told("request", "--size", "20MB", "--time", "1h", "--type", "shared", "--servers", "2", "--wait")
    here = mount(system, made["id"], "a")
    system.agents["n2"].kill()
    assert system.command("give-up", "n2", "--yes").returncode == 0
    failed = system.told("show", made["id"])
    assert failed["state"] in ("releasing", "failed")
    assert "was lost: an administrator removed n2" in failed["because"]
    wait_until(lambda: not SharedMount(here).folder.exists(), "the mount stays")
    system.agents["n2"].start()
    wait_until(lambda: system.on_disks() == [], "volumes stay")
