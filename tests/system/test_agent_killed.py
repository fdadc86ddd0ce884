"""An agent that is killed while a command of its own is in the middle of its work."""

import os
import stat
import sys
from pathlib import Path

import pytest

from support.control_processes import control_system
from support.processes import wait_until

pytestmark = pytest.mark.skipif(os.getuid() != 0, reason="only root can mount")
SLOW = """#!{python} -SE
import os, sys, time
folder = {folder!r}
if os.path.exists(folder + "/slow"):
    with open(folder + "/begun.new", "w") as file:
        file.write(str(os.getpid()))
    os.rename(folder + "/begun.new", folder + "/begun")
    time.sleep(1000)
os.execv({real!r}, sys.argv)
"""
REAL = Path("/usr/sbin/mkfs.ext4")


@pytest.mark.skipif(not REAL.exists(), reason="mkfs.ext4 is not installed")
def test_its_command_ends_with_it_and_the_next_agent_begins_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A mkfs that outlives its agent would format the volume once more, when somebody has written to it."""
    with control_system() as system:
        programs = system.folder / "bin"
        programs.mkdir()
        wrapper = programs / "mkfs.ext4"
        wrapper.write_text(SLOW.format(python=sys.executable, folder=str(programs), real=str(REAL)))
        wrapper.chmod(wrapper.stat().st_mode | stat.S_IXUSR)
        (programs / "slow").touch()
        monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
        agent = system.add_agent("n", "loop")
        system.start()
        with system.client() as client:
            grant = client.request("20 MB", 600)["id"]
            wait_until((programs / "begun").exists, "mkfs does not begin")
            mkfs = (programs / "begun").read_text()
            agent.kill()
            wait_until(lambda: not _runs(mkfs), "mkfs outlives its agent")
            assert [made.state for made in system.on_disks()] == ["half"]
            (programs / "slow").unlink()
            agent.start()
            wait_until(lambda: client.grant(grant)["state"] == "ready", "the volume is not made")
            path = Path(client.grant(grant)["path"])
            (path / "result").write_text("42")
            assert os.statvfs(path).f_bavail * os.statvfs(path).f_frsize >= 19 * 10**6
            client.release(grant)
            wait_until(lambda: client.grant(grant)["state"] == "released", "the volume is not released")
        assert system.on_disks() == []


def _runs(pid: str) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in ("Z", "X")
    except OSError:
        return False
