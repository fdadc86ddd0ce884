"""Prologs and epilogs under a real Slurm: layouts put on, targets told, logs read, and no job or node harmed.

The file system is pretended: its commands are on the prolog's PATH, and run as the job's user.
"""

import json
import shutil
import sys
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import pytest

from forebay.act.slurm.burst_buffer.installation import fill_scripts
from forebay.history.store import open_store
from forebay.history.store.listing import list_runs
from support.darshan_logs import Parts, wheel_log
from support.filesystems import Pretended
from support.made_up_runs import a_run, fill
from support.processes import wait_until
from support.slurm import Slurm, own_slurm
from support.slurm_jobs import jobs_file, leases

FAKES = Path(__file__).parents[1] / "support" / "fakes"
WAIT = "env | grep ^FOREBAY_ | sort; echo ready; while [ ! -e go ]; do sleep 0.05; done"


class Machine:
    """A cluster with a Lustre of eight OSTs, a history, and the scripts for jobs."""

    def __init__(self, slurm: Slurm) -> None:
        self.slurm, self.folder = slurm, slurm.folder
        self.lustre = self._lustre()
        self.db = self.folder / "history.db"
        darshan = f'[darshan]\nfolder = "{self.folder}/darshan/{{year}}/{{month}}/{{day}}"\n'
        self.config = jobs_file(self.folder, system=self.lustre, db=self.db, more=darshan)
        made = fill_scripts(
            command=str(self._command()), config=self.config, folder=self.folder / "told", log=self.folder / "jobs.log",
            conf=str(slurm.conf),
        )  # fmt: skip
        for name, text in made.items():
            (self.folder / name).write_text(text)
            (self.folder / name).chmod(0o755)

    def _lustre(self) -> Pretended:
        """Of commands that the job's user may run, whoever cloned this repository wherever."""
        python = shutil.which("python3", path="/usr/bin:/usr/local/bin")
        if python is None:
            pytest.skip("there is no python3 that every user may run")
        commands = shutil.copytree(FAKES, self.folder / "fakes")
        (self.folder / "bin").mkdir()
        lfs = self.folder / "bin" / "lfs"
        lfs.write_text(f'#!/bin/sh\nexec {python} -SEB {commands}/lfs "$@"\n')
        lfs.chmod(0o755)
        mount, memory = self.folder / "mnt", self.folder / "lustre.json"
        mount.mkdir()
        targets = [{"index": index, "total": 4 << 40, "free": 2 << 40} for index in range(8)]
        default = {"count": 1, "size": 1 << 20, "start": -1}
        state = {
            "name": "scratch",
            "mount": str(mount),
            "targets": targets,
            "default": default,
            "layouts": {},
            "log": [],
        }
        memory.write_text(json.dumps(state))
        memory.chmod(0o666)
        return Pretended("lustre", mount, memory)

    def _command(self) -> Path:
        """`forebay` with the pretended commands."""
        command = self.folder / "forebay"
        command.write_text(
            f"#!/bin/sh\nexport PATH={self.folder}/bin:$PATH FOREBAY_FAKE_STATE={self.lustre.memory}\n"
            f'exec {sys.executable} -m forebay "$@"\n'
        )
        command.chmod(0o755)
        return command

    def start(self, prolog: str, epilog: str, *more: str) -> None:
        """With the scripts as Slurm's prolog and epilog of these names."""
        files = {prolog: "prolog.sh", epilog: "epilog.sh", "TaskProlog": "task_prolog.sh"}
        self.slurm.add_lines(*(f"{key}={self.folder}/{name}" for key, name in files.items()), *more)
        self.slurm.start()

    def started(self, name: str, *, nodes: int = 1) -> str:
        """A job that waits in its script until it may go on."""
        job = self.slurm.submit(WAIT, options=("-J", name, "-N", str(nodes), "--mem=1"))
        out = self.slurm.work / f"{job}.out"
        wait_until(lambda: out.exists() and "ready" in out.read_text(), f"job {job} does not start: {self.log()}")
        return job

    def told(self, job: str) -> dict[str, str]:
        lines = (line for line in self.slurm.printed(job).splitlines() if line.startswith("FOREBAY_"))
        return dict(line.split("=", 1) for line in lines)

    def layouts(self) -> dict[str, dict[str, int]]:
        found: dict[str, dict[str, int]] = self.lustre.state()["layouts"]
        return found

    def held(self) -> dict[str, set[int]]:
        with open_store(str(self.db)) as store:
            return leases(store, "scratch", datetime.now().timestamp())

    def let_go(self, *jobs: str) -> None:
        (self.slurm.work / "go").touch()
        for job in jobs:
            assert self.slurm.wait(job)["JobState"] == "COMPLETED"
        wait_until(lambda: not self.held(), f"leases are left: {self.held()}: {self.log()}")

    def log(self) -> str:
        path = self.folder / "jobs.log"
        return path.read_text() if path.exists() else "nothing was logged"

    def states(self) -> set[str]:
        return set(self.slurm.run("sinfo", "-h", "-N", "-o", "%T").split())


@pytest.fixture
def machine() -> Iterator[Machine]:
    with own_slurm(start=False) as slurm:
        found = Machine(slurm)
        with open_store(str(found.db)) as store:
            fill(store, [a_run(1, nprocs=1, count=2)])
        yield found


def test_jobs_are_laid_out_apart_and_told_and_what_they_did_is_learned(machine: Machine) -> None:
    slurm = machine.slurm
    machine.start("PrologSlurmctld", "EpilogSlurmctld")
    jobs = [machine.started("vpic"), machine.started("vpic")]
    told = [machine.told(job) for job in jobs]
    osts = [{int(number) for number in one["FOREBAY_TARGETS"].split(",")} for one in told]
    assert osts[0].isdisjoint(osts[1])
    assert machine.held() == dict(zip(jobs, osts, strict=True))
    for job, one in zip(jobs, told, strict=True):
        folder = machine.lustre.mount / slurm.user.pw_name / job
        assert (one["FOREBAY_SCRATCH"], one["FOREBAY_APP"]) == (str(folder), "vpic")
        assert folder.stat().st_uid == slurm.user.pw_uid
        assert machine.layouts()[str(folder)]["count"] == int(one["FOREBAY_STRIPE_COUNT"]) == len(osts[0])
        assert machine.layouts()[str(folder)]["start"] == int(one["FOREBAY_STRIPE_OFFSET"])
    day = datetime.now()
    logs = machine.folder / "darshan" / str(day.year) / str(day.month) / str(day.day)
    logs.mkdir(parents=True)
    log = Parts(wheel_log("ior_hdf5_example.darshan")).with_job(job_id=int(jobs[0]), start=int(day.timestamp()))
    log.write(logs / f"{slurm.user.pw_name}_vpic_id{jobs[0]}_11-15-1-1_1.darshan")
    machine.let_go(*jobs)
    wait_until(lambda: _known(machine, int(jobs[0])), f"the log is not in the history: {machine.log()}")
    assert not list((machine.folder / "told").iterdir())
    assert machine.states() == {"idle"}


def _known(machine: Machine, job: int) -> bool:
    with open_store(str(machine.db)) as store, store.open_reader() as connection:
        return any(run["job_id"] == job and run["job_name"] == "vpic" for run in list_runs(connection))


def test_nodes_tell_their_tasks_and_a_broken_file_drains_none(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    fine = machine.config.read_text()
    machine.start("Prolog", "Epilog", "PrologFlags=Alloc")  # on all nodes of a job before it starts
    machine.config.write_text("[jobs\n")
    monkeypatch.setenv("FOREBAY_TARGETS", "of the job that submits this one")
    broken = machine.started("vpic")
    assert machine.told(broken) == {}
    assert "is not TOML" in machine.log()
    machine.config.write_text(fine)
    job = machine.started("vpic", nodes=2)
    assert machine.told(job)["FOREBAY_STRIPE_COUNT"] == str(len(machine.held()[job]))
    assert len(machine.lustre.calls("set")) == 1  # by whichever node came first
    assert '"decided": "already"' in machine.log()
    machine.let_go(broken, job)
    wait_until(lambda: machine.states() == {"idle"}, "not all nodes are idle")
    assert machine.slurm.run("sinfo", "-h", "-R").strip() == ""
