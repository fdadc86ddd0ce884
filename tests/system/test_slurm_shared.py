"""Jobs with a shared file system each, side by side under a real Slurm, as two users, with an MPI program in each."""

import os
import pwd
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from forebay.act.slurm.burst_buffer.installation import fill_scripts
from forebay.model.grant import SHARED_FOLDER
from support.control_processes import System, control_system, forebay
from support.fio import needs_fuse
from support.processes import PATIENCE, wait_until
from support.slurm import Slurm, make_user, own_slurm, skip_without_slurm
from support.slurm_jobs import jobs_file

OTHER = "games"
"""A second user, whom every Debian has."""


class Site:
    """A cluster of two nodes, the service, and two storage nodes with a disk each."""

    def __init__(self, slurm: Slurm, control: System) -> None:
        self.slurm, self.control = slurm, control
        slurm.work.chmod(0o777)
        self.log = slurm.folder / "jobs.log"
        done = forebay("slurm", "install", str(slurm.etc), "--force", "--service", control.address)
        assert done.returncode == 0, done.stderr
        config = jobs_file(slurm.folder, more=f'[space]\nservice = "{control.address}"\n')
        scripts = fill_scripts(
            command=f"{sys.executable} -m forebay", config=config, folder=slurm.folder / "told", log=self.log,
            conf=str(slurm.conf),
        )  # fmt: skip
        for name, text in scripts.items():
            (slurm.folder / name).write_text(text)
            (slurm.folder / name).chmod(0o755)
        slurm.add_lines("BurstBufferType=burst_buffer/lua", "JobSubmitPlugins=lua", "PrologFlags=Alloc")
        slurm.add_lines(f"Prolog={slurm.folder}/prolog.sh", f"Epilog={slurm.folder}/epilog.sh")
        slurm.start()

    def said(self) -> str:
        log = self.log.read_text() if self.log.exists() else ""
        return log + self.slurm.controller_log()[-3000:]

    def submit_as(self, user: str, body: str, *directives: str, options: tuple[str, ...] = ()) -> str:
        before = self.slurm.user
        self.slurm.user = pwd.getpwnam(user)
        try:
            return self.slurm.submit(body, *directives, options=options)
        finally:
            self.slurm.user = before

    def job_end(self, job: str) -> str:
        """What it printed; it must have succeeded."""
        state = self.slurm.wait(job)["JobState"]
        printed = self.slurm.printed(job)
        assert state == "COMPLETED", (state, printed, self.said())
        return printed


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    skip_without_slurm()
    needs_fuse()
    make_user()
    with control_system() as control, own_slurm(start=False) as slurm:
        for node in ("s1", "s2"):
            control.add_agent(node, "loop")
        control.folder.chmod(0o755)
        control.start()
        yield Site(slurm, control)


@pytest.fixture(scope="module")
def program() -> Iterator[Path]:
    compiler = shutil.which("mpicc.mpich")
    if compiler is None or shutil.which("mpiexec.mpich") is None:
        pytest.skip("MPICH is not installed (Debian: apt-get install mpich libmpich-dev)")
    source = Path(__file__).parents[1] / "support" / "mpi_exchange.c"
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)  # for both users
        made = Path(name, "exchange")
        subprocess.run([compiler, "-O1", "-o", made, source], check=True, timeout=PATIENCE)
        yield made


def test_two_users_jobs_run_side_by_side_each_with_its_own_file_system(site: Site, program: Path) -> None:
    body = (
        f'mpiexec.mpich -launcher fork -n 2 {program} "$FOREBAY_PATH" && stat -c "%U %a" "$FOREBAY_PATH"'
        ' && echo "$FOREBAY_PATH" && touch $0.$SLURM_JOB_ID.there'
        ' && while [ ! -e "$FOREBAY_PATH/go" ]; do sleep 0.1; done; ls "$FOREBAY_PATH"'
    )
    body = body.replace("$0.$SLURM_JOB_ID.there", f"{site.slurm.work}/$SLURM_JOB_ID.there")
    users = (site.slurm.user.pw_name, OTHER)
    directive = "#BB_LUA capacity=20MB type=shared servers=2 equal"
    jobs = [site.submit_as(user, body, directive, options=("--mem=1",)) for user in users]
    for job in jobs:
        there = site.slurm.work / f"{job}.there"
        wait_until(there.exists, f"job {job} does not get there: {site.slurm.show(job)} {site.said()}")
    printed = [site.slurm.printed(job).splitlines() for job in jobs]
    assert [lines[:2] for lines in printed] == [["2 right", f"{user} 700"] for user in users]
    paths = [Path(lines[2]) for lines in printed]
    assert len(set(paths)) == 2
    assert {path.parent for path in paths} == {Path(SHARED_FOLDER)}
    for path in paths:
        (path / "go").touch()
    for job in jobs:
        assert "common" in site.job_end(job)
    wait_until(lambda: not any(path.exists() for path in paths), f"a mount stays: {site.said()}")
    wait_until(lambda: site.control.on_disks() == [], "volumes stay")


def test_all_nodes_of_a_job_have_the_same_file_system(site: Site) -> None:
    write = 'echo $SLURMD_NODENAME > "$FOREBAY_PATH/$SLURM_PROCID"'
    body = f'srun -n 2 -N 2 sh -c \'{write}\' && cat "$FOREBAY_PATH"/0 "$FOREBAY_PATH"/1'
    job = site.slurm.submit(body, "#BB_LUA capacity=20MB type=shared servers=2", options=("-N", "2", "--mem=1"))
    assert sorted(site.job_end(job).split()) == ["n0", "n1"]
    with site.control.client() as client:
        [grant] = [grant for grant in client.grants() if grant["job"] == job]
    wait_until(lambda: not Path(SHARED_FOLDER, grant["id"]).exists(), f"it stays mounted: {site.said()}")


def test_files_of_a_shared_file_system_are_staged_and_its_progress_is_shown(site: Site) -> None:
    work, slurm = site.slurm.work, site.slurm
    (work / "in").mkdir()
    for number in range(20):
        (work / "in" / str(number)).write_text(str(number))
    for path in (work / "in", *(work / "in").iterdir()):
        os.chown(path, slurm.user.pw_uid, slurm.user.pw_gid)
    directives = (
        "#BB_LUA capacity=20MB type=shared servers=2",
        f"#BB_LUA stage_in={work}/in:in stage_out=out:{work}/out",
    )
    job = slurm.submit('cp -r "$FOREBAY_PATH/in" "$FOREBAY_PATH/out"', *directives, options=("--mem=1",))
    site.job_end(job)
    wait_until(lambda: slurm.show(job)["BurstBufferState"] == "complete", f"no stage-out: {site.said()}")
    assert {path.name: path.read_text() for path in (work / "out").iterdir()} == {str(n): str(n) for n in range(20)}
    assert slurm.show(job)["AdminComment"].startswith("staged in: 20 files")


BAD = {
    "capacity=20MB type=shred": "type: 'shred' is not a type of space; known types: shared, volumes",
    "capacity=20MB servers=2": "servers: is only for a shared file system; add type=shared",
    "capacity=20MB equal": "equal: is only for a shared file system; add type=shared",
    "capacity=20MB type=shared servers=0": "servers: '0' is not a number of data servers such as 4",
    "capacity=20MB type=shared servers=9": "9 data servers need 9 disks; there are only 2 disks",
    "capacity=20MB type=shared stage_in=hosts": "stage_in: 'hosts': needs an absolute path",
}


def test_what_is_not_possible_is_refused_at_submission(site: Site) -> None:
    for options, reason in BAD.items():
        assert reason in site.slurm.refused("true", f"#BB_LUA {options}"), options
