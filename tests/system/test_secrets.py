"""Where tokens and keys are, while everything runs: in files of mode 0600, and nowhere else."""

import json
import os
import shutil
from pathlib import Path

import pytest

from support.control_processes import System, control_system
from support.processes import wait_until

pytestmark = [
    pytest.mark.skipif(os.getuid() != 0, reason="only root can make images and become somebody else"),
    pytest.mark.skipif(not shutil.which("nbdkit"), reason="nbdkit is not installed"),
]


def test_no_secret_is_in_a_list_of_processes_a_log_or_a_file_that_others_may_read() -> None:
    with control_system() as system:
        token, other = system.token("alice", "user", uid=1000), system.token("bob", "user", uid=1001)
        system.add_agent("n", "loop:nbd")
        system.start()
        asked = system.command(
            *("request", "--size", "20 MB", "--time", "10min", "--expose", "nbd", "--host", "c1", "--wait", "--json"),
            token=token,
        )
        assert asked.returncode == 0, asked.stderr
        [grant] = [one["id"] for one in system.told("list")]
        key = json.loads(system.command("show", grant, "--json", token=token).stdout)["volumes"][0]["settings"]["key"]
        assert len(key) == 64
        refused = system.command("show", grant, "--json", token=other)
        assert refused.returncode == 2
        told = system.command("show", grant, "--story", "--json", token=token).stdout
        story = json.dumps(json.loads(told)["story"])
        for secret in (key, token.read_text().strip(), other.read_text().strip()):
            assert secret not in refused.stdout + refused.stderr + story + json.dumps(system.told("list"))
            assert secret.encode() not in _words_of_all_processes()
            assert secret not in system.service.said() + system.agents["n"].said()
            assert all(path.stat().st_mode & 0o077 == 0 for path in _files_with(system, secret.encode()))
        assert {path.suffix for path in _files_with(system, key.encode())} == {".psk", ".exposed"}
        assert system.command("release", grant, token=token).returncode == 0
        wait_until(lambda: not system.on_disks(), "the volume is not released")
        assert _files_with(system, key.encode()) == []


def _words_of_all_processes() -> bytes:
    found = b""
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found += file.read_bytes()
        except OSError:  # it has just ended
            continue
    return found


def _files_with(system: System, secret: bytes) -> list[Path]:
    files = [path for path in system.folder.rglob("*") if path.is_file() and path.stat().st_size < 1 << 23]
    return [path for path in files if secret in path.read_bytes()]
