"""Stands in for `systemctl` where systemd does not run: it starts what the files of units say, and ends it.

Of a service it heeds ExecStart, ExecStartPost, Type=oneshot, User, Environment, WorkingDirectory, RuntimeDirectory and
StateDirectory with its mode; nothing that ends is started again. A timer's service is run once, at its start. What a
service says goes to /run/units/NAME.log.
"""

from __future__ import annotations

import os
import pwd
import re
import shlex
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

UNITS = Path("/etc/systemd/system")
RUNNING = Path("/run/units")
PATIENCE = 240.0
"""Seconds in which a service starts, or ends; its very first start compiles for half a minute."""


class Unit:
    def __init__(self, name: str) -> None:
        """The file of `a@b.service` may be `a@.service`, with %i for b."""
        self.name = name if re.search(r"\.(service|timer)$", name) else f"{name}.service"
        files = (UNITS / self.name, UNITS / re.sub(r"@.*\.", "@.", self.name))
        found = next((path for path in files if path.exists()), None)
        if found is None:
            sys.exit(f"Unit {self.name} could not be found.")
        instance = self.name.partition("@")[2].rpartition(".")[0]
        text = found.read_text().replace("\\\n", " ").replace("%i", instance)
        self._keys = [line.partition("=")[::2] for line in text.splitlines() if not line.startswith("#")]
        self._pid, self.log = RUNNING / f"{self.name}.pid", RUNNING / f"{self.name}.log"

    def all(self, key: str) -> list[str]:
        return [value.strip() for name, value in self._keys if name.strip() == key]

    def one(self, key: str, usual: str = "") -> str:
        return (self.all(key) or [usual])[-1]

    @property
    def user(self) -> pwd.struct_passwd:
        return pwd.getpwnam(self.one("User", "root"))

    def pid(self) -> int | None:
        """Of a service that runs."""
        with suppress(OSError, ValueError):
            pid = int(self._pid.read_text())
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z":
                return pid
        return None

    def start(self) -> None:
        if self.name.endswith(".timer"):
            return Unit(self.one("Unit", self.name.replace(".timer", ".service"))).start()
        if self.pid() is not None:
            return None
        self.log.write_bytes(b"")
        self._make_folders()
        process = self._run(self.one("ExecStart"))
        if self.one("Type") == "oneshot":
            return None if process.wait(PATIENCE) == 0 else self._fail()
        self._pid.write_text(str(process.pid))
        self._wait(process)
        for command in self.all("ExecStartPost"):
            self._run(command).wait(PATIENCE)
        return None

    def _make_folders(self) -> None:
        for key, above in (("RuntimeDirectory", "/run"), ("StateDirectory", "/var/lib")):
            for name in self.one(key).split():
                folder = Path(above, name)
                folder.mkdir(parents=True, exist_ok=True)
                folder.chmod(int(self.one(f"{key}Mode", "0755"), 8))
                os.chown(folder, self.user.pw_uid, self.user.pw_gid)

    def _run(self, command: str) -> subprocess.Popen[bytes]:
        user = self.user
        kernels = {} if user.pw_uid == 0 else {"NUMBA_CACHE_DIR": "/srv/kernels-of-users"}
        given = dict(word.split("=", 1) for line in self.all("Environment") for word in shlex.split(line))
        with self.log.open("ab") as log:
            return subprocess.Popen(
                shlex.split(command), stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
                user=user.pw_uid, group=user.pw_gid, extra_groups=[user.pw_gid],
                cwd=self.one("WorkingDirectory", "/"), env=os.environ | {"HOME": user.pw_dir} | kernels | given,
            )  # fmt: skip

    def _wait(self, process: subprocess.Popen[bytes]) -> None:
        """Until a part of Forebay says that it is ready. systemd doesn't wait, but nobody types that fast."""
        until = time.monotonic() + PATIENCE
        while "forebay" in self.one("ExecStart") and b"ready" not in self.log.read_bytes():
            if process.poll() is not None or time.monotonic() > until:
                self._fail()
            time.sleep(0.05)

    def _fail(self) -> None:
        sys.exit(f"Job for {self.name} failed:\n{self.log.read_text(errors='replace')}")

    def stop(self) -> None:
        if (pid := self.pid()) is None:
            return
        os.kill(pid, signal.SIGTERM)
        until = time.monotonic() + PATIENCE / 4
        while self.pid() is not None:
            if time.monotonic() > until:
                os.kill(pid, signal.SIGKILL)
            time.sleep(0.05)

    def restart(self) -> None:
        self.stop()
        self.start()

    def status(self) -> None:
        runs = self.pid() is not None
        print(f"{'●' if runs else '○'} {self.name} - {self.one('Description')}")
        print(f"     Active: {'active (running)' if runs else 'inactive (dead)'}")
        if not runs:
            sys.exit(3)


def main(verb: str, *words: str) -> None:
    RUNNING.mkdir(exist_ok=True)
    units = [Unit(word) for word in words if not word.startswith("-")]
    if verb in ("enable", "disable"):
        verb = {"enable": "start", "disable": "stop"}[verb] if "--now" in words else "daemon-reload"
    if verb not in ("start", "stop", "restart", "status", "daemon-reload"):
        sys.exit(f"the stand-in for systemctl does not know {verb}")
    for unit in units:
        if verb != "daemon-reload":
            getattr(unit, verb)()


if __name__ == "__main__":
    main(*sys.argv[1:])
