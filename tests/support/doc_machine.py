"""A machine for one page of the documentation: like this one, but thrown away with all that was done to it."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from forebay.kernel_cache import kernels_folder
from support.darshan_logs import WHEEL
from support.doc_pages import ROOT, Command
from support.doc_shell import Shell
from support.processes import PATIENCE, wait_until

CURVES = ROOT.parent / "shared/data/forge/marenostrum4.csv"
_DIES = ("setpriv", "--pdeathsig", "KILL")
"""With the tests, however these end."""
_SPACES = ("--mount", "--pid", "--net", "--fork", "--kill-child", "--propagation", "private")


def given_files(folder: Path) -> None:
    """What pages need beside the repository's files: Forebay's wheel, measured curves and Darshan logs."""
    wheel = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    subprocess.run([*wheel, "--wheel-dir", str(folder), str(ROOT)], check=True, timeout=PATIENCE)
    shutil.copytree(
        WHEEL / "examples/example_logs", folder / "logs", ignore=shutil.ignore_patterns("*.py", "__pycache__")
    )
    curves = folder / "marenostrum4.csv"
    if CURVES.exists():
        shutil.copy(CURVES, curves)
    else:  # of no machine, but enough for commands that show no numbers of it
        rows = (f"app{a},{n},{(1 + a % 3) * n ** (0.2 * (a % 5)) * 1e9}" for a in range(20) for n in (1, 2, 4, 8))
        curves.write_text("\n".join(("application,n,bandwidth", *rows, "")))


class Machine:
    """Built by doc_machine.sh. `$` is the user's shell and `#` root's; in the setting `plain` both are root's."""

    def __init__(self, folder: Path, setting: str, given: Path) -> None:
        theirs, mine = os.pipe(), os.pipe()
        words = (folder, setting, ROOT, sys.base_prefix, given, kernels_folder())
        into, out = (fcntl.fcntl(end, fcntl.F_DUPFD, 10) for end in (theirs[0], mine[1]))
        script = f'exec 3<&{into} 4>&{out} {into}<&- {out}>&-; . "$0"'
        argv = (*_DIES, "unshare", *_SPACES, "/bin/bash", "-c", script, ROOT / "tests/support/doc_machine.sh", *words)
        self.folder = folder
        self._process = subprocess.Popen(
            argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, pass_fds=(into, out)
        )
        assert self._process.stdin is not None and self._process.stdout is not None
        for end in (theirs[0], mine[1], into, out):
            os.close(end)
        self.root = Shell(os.dup(self._process.stdin.fileno()), os.dup(self._process.stdout.fileno()))
        self._user = Shell(theirs[1], mine[0])
        self.user = self.root if setting == "plain" else self._user

    def check(self, page: str, command: Command) -> None:
        patience = 2 * PATIENCE  # a service's very first start compiles for half a minute
        (self.root if command.root else self.user).check(page, command, patience)

    def ready(self) -> None:
        """Until it is built; a skip where that can't be."""
        said = self.root.ready(2 * PATIENCE)
        if "unshare:" in said or "overlay" in said or "setpriv:" in said:
            pytest.skip(f"no machine can be made of this one: {said}")
        assert said.startswith("ready "), said
        _, self._space, *self._devices = said.split()

    def end(self) -> None:
        """With all that was started in it."""
        self._process.kill()
        self._process.communicate(timeout=PATIENCE)
        for shell in (self.root, self._user):
            shell.close()

    def check_end(self) -> None:
        """Nothing of it is left: no process, no mount, no loop device."""
        wait_until(lambda: not _processes_in(self._space), f"processes of {self.folder} are left")
        assert str(self.folder) not in Path("/proc/mounts").read_text()
        assert not [loop for loop in _loops() if loop.split()[-1] in self._devices]


def _loops() -> list[str]:
    """Each with the device that its file is on."""
    argv = ("losetup", "--noheadings", "--output", "NAME,BACK-MAJ:MIN")
    return subprocess.run(argv, capture_output=True, text=True, check=True, timeout=PATIENCE).stdout.splitlines()


def _processes_in(space: str) -> list[str]:
    """Those that run; one that has ended has no program, however long its parent takes to notice."""
    found = []
    for entry in Path("/proc").iterdir():
        with suppress(OSError):
            if entry.name.isdigit() and str((entry / "ns/pid").readlink()) == space and (entry / "exe").readlink():
                found.append(entry.name)
    return found


@contextmanager
def machine(folder: Path, setting: str, given: Path) -> Iterator[Machine]:
    """In an empty folder; a skip where none can be built."""
    if os.geteuid() != 0:
        pytest.skip("commands of the documentation run in a machine of their own, which needs root")
    made = Machine(folder, setting, given)
    try:
        made.ready()
        yield made
    finally:
        made.end()
    made.check_end()
