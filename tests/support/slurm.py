"""A real Slurm on this machine: munged, slurmctld and slurmds of its own, in a folder and on ports of its own.

All of them run in the foreground as children of the test; what a job leaves behind is known by its $SLURM_CONF.
"""

from __future__ import annotations

import fcntl
import os
import pwd
import re
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from support.ports import free_ports
from support.processes import PATIENCE, wait_until

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "squeue", "scontrol", "scancel", "sinfo")
PACKAGES = "slurm-wlm munge lua-socket lua-cjson"
USER = "forebay-test"
"""Whose jobs they are; Slurm gives no burst buffer to root."""
ENDED = frozenset({"COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "BOOT_FAIL", "DEADLINE", "NODE_FAIL", "PREEMPTED"})
CLUSTER = "test"
_LINES = """
ClusterName={cluster}
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.sock
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
ReturnToService=2
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerType=sched/backfill
SchedulerParameters=batch_sched_delay=0,sched_interval=1,sched_min_interval=100000,bf_interval=1
KillWait=2
JobAcctGatherType=jobacct_gather/none
JobCompType=jobcomp/filetxt
JobCompLoc={folder}/jobcomp.log
AccountingStorageType=accounting_storage/none
"""


class Slurm:
    """A cluster of one machine whose files are under `folder`; `etc` is where slurm.conf is."""

    def __init__(self, folder: Path, *, nodes: int = 2, lines: tuple[str, ...] = ()) -> None:
        self.folder, self.etc = folder, folder / "etc"
        self.conf = self.etc / "slurm.conf"
        self.nodes = tuple(f"n{at}" for at in range(nodes))
        self.user = pwd.getpwnam(USER)
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._lay_out()
        self._configure(lines)

    def _lay_out(self) -> None:
        for name in ("etc", "state", "work", *(f"spool-{node}" for node in self.nodes)):
            (self.folder / name).mkdir()
        self.work = self.folder / "work"
        """A folder of the user's, where jobs run and leave what they print."""
        os.chown(self.work, self.user.pw_uid, self.user.pw_gid)
        key = self.folder / "munge.key"
        key.write_bytes(os.urandom(64))
        key.chmod(0o400)

    def _configure(self, lines: tuple[str, ...]) -> None:
        ports = free_ports(1 + len(self.nodes))
        host = socket.gethostname().partition(".")[0]
        text = _LINES.format(cluster=CLUSTER, host=host, port=ports[0], folder=self.folder)
        for node, port in zip(self.nodes, ports[1:], strict=True):
            text += f"NodeName={node} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs=2 RealMemory=1000\n"
        text += "PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE DefaultTime=10 State=UP\n"
        self.conf.write_text(text)
        self.add_lines(*lines)

    def add_lines(self, *lines: str) -> None:
        """To slurm.conf; before the start, or they are read at the next start of slurmctld."""
        with self.conf.open("a") as conf:
            conf.write("".join(f"{line}\n" for line in lines))

    @property
    def environment(self) -> dict[str, str]:
        return os.environ | {"SLURM_CONF": str(self.conf)}

    # Daemons

    def start(self) -> None:
        """All of it; back when all nodes are idle."""
        self._daemon(
            "munged", "--foreground", "--force", f"--key-file={self.folder}/munge.key",
            f"--socket={self.folder}/munge.sock", f"--pid-file={self.folder}/munged.pid",
            f"--log-file={self.folder}/munged.log", f"--seed-file={self.folder}/munged.seed",
        )  # fmt: skip
        wait_until((self.folder / "munge.sock").exists, "munged does not start")
        self.start_controller()
        for node in self.nodes:
            self._daemon("slurmd", "-D", "-N", node, name=node)
        idle = str(len(self.nodes))
        wait_until(lambda: self.run("sinfo", "-h", "-t", "idle", "-o", "%D").strip() == idle, "not all nodes are idle")

    def start_controller(self) -> None:
        self._daemon("slurmctld", "-D")
        wait_until(self._answers, "slurmctld does not answer")

    def save(self, job: str) -> None:
        """Until slurmctld has written down what it knows of a job; it does so a moment after each change."""
        state, mark = self.folder / "state" / "job_state", f"saved-{os.urandom(8).hex()}"
        self.run("scontrol", "update", f"JobId={job}", f"Comment={mark}")
        wait_until(
            lambda: state.exists() and mark.encode() in state.read_bytes(), "slurmctld does not write down a change"
        )

    def stop_controller(self, number: int = signal.SIGTERM) -> None:
        self._end("slurmctld", number)

    def controller_log(self) -> str:
        return (self.folder / "slurmctld.log").read_text(errors="replace")

    def _answers(self) -> bool:
        """The port is asked first, as a client of Slurm waits ten seconds for one that is closed."""
        found = self._running["slurmctld"].poll()
        assert found is None, f"slurmctld ended with {found}: {self.controller_log()[-2000:]}"
        port = int(re.findall(r"^SlurmctldPort=(\d+)", self.conf.read_text(), re.MULTILINE)[0])
        with socket.socket() as door:
            if door.connect_ex(("127.0.0.1", port)) != 0:
                return False
        return "UP" in self._ended("scontrol", "ping").stdout

    def _daemon(self, *argv: str, name: str = "") -> None:
        with (self.folder / f"{name or argv[0]}.out").open("ab") as out:
            self._running[name or argv[0]] = subprocess.Popen(
                argv, stdin=subprocess.DEVNULL, stdout=out, stderr=out, env=self.environment
            )

    def _end(self, name: str, number: int) -> None:
        process = self._running.pop(name)
        process.send_signal(number)
        try:
            process.wait(PATIENCE / 4)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(PATIENCE)

    def stop(self) -> None:
        """No process of it is left, nor of its jobs; nothing of it is to be kept."""
        for name in list(self._running):
            self._end(name, signal.SIGKILL)
        for pid in self.left():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def left(self) -> list[int]:
        """Processes that were started by this Slurm: slurmstepds, jobs, hooks."""
        mark = f"SLURM_CONF={self.conf}".encode()
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and int(entry.name) != os.getpid():
                with suppress(OSError):
                    if mark in (entry / "environ").read_bytes().split(b"\0"):
                        found.append(int(entry.name))
        return found

    # Commands

    def run(self, *argv: str, user: bool = False, status: int = 0) -> str:
        """What a command prints, which must end with that status: as root, or as the user, in the user's folder."""
        done = self._ended(*argv, user=user)
        assert done.returncode == status, (argv, done.returncode, done.stdout, done.stderr)
        return done.stdout if status == 0 else done.stderr

    def _ended(self, *argv: str, user: bool = False) -> subprocess.CompletedProcess[str]:
        own = {"user": self.user.pw_uid, "group": self.user.pw_gid, "extra_groups": []} if user else {}
        return subprocess.run(
            argv, env=self.environment, capture_output=True, text=True, timeout=PATIENCE, check=False,
            stdin=subprocess.DEVNULL, cwd=self.work, **own,
        )  # type: ignore[call-overload]  # fmt: skip

    def script(self, body: str, *directives: str) -> Path:
        """A job script of the user's: lines of directives, then the body."""
        number, path = tempfile.mkstemp(prefix="job-", suffix=".sh", dir=self.work)
        os.close(number)
        found = Path(path)
        found.write_text("\n".join(("#!/bin/sh", *directives, body, "")))
        found.chmod(0o755)
        return found

    def submit(self, body: str, *directives: str, options: tuple[str, ...] = ()) -> str:
        """The number of a new job of the user's; what it prints goes to `printed`."""
        words = ("sbatch", "--parsable", "--output", f"{self.work}/%j.out", *options)
        return self.run(*words, str(self.script(body, *directives)), user=True).strip()

    def refused(self, body: str, *directives: str, options: tuple[str, ...] = ()) -> str:
        """What sbatch says of a job that it does not take."""
        return self.run("sbatch", *options, str(self.script(body, *directives)), user=True, status=1)

    def printed(self, job: str) -> str:
        return (self.work / f"{job}.out").read_text()

    def cancel(self, job: str, *options: str) -> None:
        self.run("scancel", *options, job, user=True)

    def show(self, job: str) -> dict[str, str]:
        """What `scontrol show job` tells of it: JobState, Reason, ..."""
        text = self.run("scontrol", "-o", "show", "job", job)
        return dict(re.findall(r"(\S+?)=(.*?)(?=\s+\S+?=|\s*$)", text.strip()))

    def state(self, job: str) -> str:
        return self.show(job)["JobState"]

    def reason(self, job: str) -> str:
        """As squeue shows it to the user."""
        return self.run("squeue", "-h", "-j", job, "-o", "%r", user=True).strip()

    def wait(self, job: str, *states: str) -> dict[str, str]:
        """What there is to tell of the job once it is in one of these states [those in which a job has ended]."""
        wanted, shown = frozenset(states) or ENDED, {"JobState": ""}

        def there() -> bool:
            shown.update(self.show(job))
            return shown["JobState"] in wanted

        wait_until(there, f"job {job} did not become {' or '.join(sorted(wanted))}: {shown}")
        return shown

    def completed(self) -> dict[str, dict[str, str]]:
        """The accounting: what Slurm noted of every job that ended, by its number."""
        lines = self.folder / "jobcomp.log"
        rows = lines.read_text().splitlines() if lines.exists() else []
        told = [dict(word.partition("=")[::2] for word in row.split() if "=" in word) for row in rows]
        return {row["JobId"]: row for row in told}


def skip_without_slurm() -> None:
    missing = [program for program in PROGRAMS if shutil.which(program) is None]
    if missing:
        pytest.skip(f"Slurm is not installed: no {', '.join(missing)} (Debian: apt-get install {PACKAGES})")
    if os.geteuid() != 0:
        pytest.skip("a Slurm whose jobs run as another user needs root")


def make_user() -> None:
    """The user of the jobs, if there is none yet; it stays."""
    argv = ("useradd", "--system", "--no-create-home", "--user-group", "--shell", "/bin/sh", USER)
    with Path("/etc/passwd").open() as lock:  # useradd fails while another one runs
        fcntl.flock(lock, fcntl.LOCK_EX)
        with suppress(KeyError):
            pwd.getpwnam(USER)
            return
        done = subprocess.run(argv, capture_output=True, text=True, timeout=PATIENCE, check=False)
    if done.returncode:
        pytest.skip(f"no user for jobs can be made: {done.stderr.strip()}")


@contextmanager
def own_slurm(
    *lines: str, nodes: int = 2, files: Mapping[str, str] | None = None, start: bool = True
) -> Iterator[Slurm]:
    """A cluster that is ended afterwards. `lines` go to slurm.conf, `files` by their names beside it."""
    skip_without_slurm()
    make_user()
    folder = Path(tempfile.mkdtemp(prefix="fs-"))
    folder.chmod(0o755)
    cluster = Slurm(folder, nodes=nodes, lines=lines)
    try:
        for name, text in (files or {}).items():
            (cluster.etc / name).write_text(text)
        if start:
            cluster.start()
        yield cluster
    finally:
        cluster.stop()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def slurm() -> Iterator[Slurm]:
    """A cluster of two nodes, for one test."""
    with own_slurm() as cluster:
        yield cluster
