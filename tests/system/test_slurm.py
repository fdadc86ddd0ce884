"""Burst buffers of a real Slurm, from a real service and agent with volumes of real size."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from forebay.act.control.documents import GrantDocument
from support.control_processes import MB, System, control_system, forebay
from support.processes import wait_until
from support.slurm import CLUSTER, ENDED, Slurm, make_user, own_slurm, skip_without_slurm

WAIT = 30
"""Seconds for which a job waits for space that others hold."""


class Site:
    """A cluster, the service, and one storage node with one disk of 100 MB."""

    def __init__(self, slurm: Slurm, control: System) -> None:
        self.slurm, self.control = slurm, control

    def install(self, *words: str) -> None:
        own = ("--service", self.control.address, "--patience", "110s", *words)
        done = forebay("slurm", "install", str(self.slurm.etc), "--force", *own)
        assert done.returncode == 0, done.stderr

    def grants(self, job: str) -> list[GrantDocument]:
        """All that were ever asked for, for a job."""
        with self.control.client() as client:
            return [grant for grant in client.grants() if grant["job"] == job]

    def states(self, job: str) -> list[str]:
        return [grant["state"] for grant in self.grants(job)]

    def is_over(self, job: str) -> bool:
        return set(self.states(job)) <= {"released"}

    def wait_state(self, job: str, *states: str) -> None:
        """Until these are the states of the grants of a job."""
        try:
            wait_until(lambda: self.states(job) == list(states), f"job {job} never has {states}")
        except AssertionError as error:
            error.add_note(f"it has {self.grants(job)}\n{(self.slurm.folder / 'slurmctld.log').read_text()[-3000:]}")
            raise

    def wait_waiting(self, job: str) -> list[str]:
        """Until it waits for space; the states of its grants. It has none where Slurm, which counts what is free every
        half minute, came to know before it asked us."""
        ours, slurms = ["queued"], "BurstBufferResources"
        wait_until(
            lambda: self.states(job) == ours or self.slurm.show(job)["Reason"] == slurms, f"job {job} does not wait"
        )
        return self.states(job)

    def wait_given_back(self, job: str, grants: int = 1) -> None:
        """Until all the `grants` that a cancelled job had are released; by `reconcile` if Slurm killed the job's
        teardown, too."""
        killed = f"teardown for JobId={job} terminated by slurmctld"
        wait_until(
            lambda: self.states(job) == ["released"] * grants or killed in self.slurm.controller_log(),
            f"nothing gives back the space of job {job}",
        )
        if self.states(job) != ["released"] * grants:
            done, known = self.reconcile(), self.slurm.run("scontrol", "show", "job", job)
            assert f"job {job} is cancelled" in done, known
            self.slurm.stop_controller()
            self.slurm.start_controller()  # which forgets its own buffer only so
        self.wait_state(job, *["released"] * grants)

    def reconcile(self) -> str:
        words = ("slurm", "reconcile", "--service", self.control.address, "--cluster", CLUSTER, "--grace", "0s")
        done = forebay(*words, "--conf", str(self.slurm.conf))
        assert done.returncode == 0, done.stderr
        return done.stdout

    def wait_buffer(self, job: str, state: str) -> None:
        wait_until(lambda: self.slurm.show(job)["BurstBufferState"] == state, f"job {job} is never {state}")

    @contextmanager
    def all_nodes_busy(self) -> Iterator[None]:
        """With a job of somebody's that uses no burst buffer; others are set up meanwhile, and wait."""
        name = f"busy-{os.urandom(4).hex()}"
        job = self.slurm.submit(self.until(name), options=("--nodes=2", "--exclusive"))
        self.slurm.wait(job, "RUNNING")
        try:
            yield
        finally:
            self.go(name)

    def until(self, name: str) -> str:
        """A line for a job that waits for `go` of that name."""
        return f"while [ ! -e {self.slurm.work}/{name} ]; do sleep 0.05; done"

    def go(self, name: str) -> None:
        (self.slurm.work / name).touch()

    def own(self, path: Path) -> None:
        os.chown(path, self.slurm.user.pw_uid, self.slurm.user.pw_gid)

    @contextmanager
    def held(self, size: int) -> Iterator[None]:
        """Space that somebody else has, of whom Slurm knows nothing."""
        with self.control.client() as client:
            *_, grant = client.follow(client.request(size, "1h"))
            try:
                yield
            finally:
                client.release(grant["id"])

    def check_end(self, jobs: dict[str, str]) -> None:
        """Slurm's accounting, the service's and the disks agree: jobs ended like this, and nothing of them is left."""
        wait_until(lambda: set(jobs) <= set(self.slurm.completed()), f"{jobs} are not in Slurm's accounting")
        noted = self.slurm.completed()
        assert {job: noted[job]["JobState"] for job in jobs} == jobs
        for job in jobs:
            wait_until(partial(self.is_over, job), f"the grant of job {job} has not ended")
            self.check_journal(job, ran=jobs[job] == "COMPLETED")
        wait_until(lambda: self.control.on_disks() == [], "a volume is left")
        assert str(self.control.folder) not in Path("/proc/mounts").read_text()
        wait_until(lambda: "Allocated Buffers" not in self.burst(), f"Slurm still has a burst buffer: {self.burst()}")
        assert "UsedSpace=0\n" in self.burst().split("PoolName[0]=any", 1)[1]

    def check_journal(self, job: str, *, ran: bool) -> None:
        """A job that ran had its last space in use, and any before it was given back unused."""
        with self.control.client() as client:
            told = [" ".join(str(line["what"]) for line in client.story(grant["id"])) for grant in self.grants(job)]
        assert all("InUse" not in story for story in told[:-1])
        assert not ran or all("InUse" in story for story in told[-1:])

    def burst(self) -> str:
        return self.slurm.run("scontrol", "show", "burst")


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    skip_without_slurm()
    make_user()
    with control_system() as control, own_slurm(start=False) as slurm:
        control.add_agent("n1", "loop")
        control.start()
        made = Site(slurm, control)
        made.install("--wait", f"{WAIT}s")
        slurm.add_lines("BurstBufferType=burst_buffer/lua", "JobSubmitPlugins=lua")
        slurm.start()
        yield made


def test_a_job_finds_its_space_with_its_files_and_what_it_wrote_comes_out(site: Site) -> None:
    work, content = site.slurm.work, os.urandom(3 * MB)
    (work / "in").mkdir()
    (work / "in" / "data").write_bytes(content)
    (work / "in" / "data").chmod(0o640)
    os.utime(work / "in" / "data", (1_000_000_000, 1_000_000_000))
    for path in (work / "in", work / "in" / "data"):
        site.own(path)
    body = (
        'cd "$FOREBAY_PATH" && stat -c "%u %a" . && df --output=size -B1 . && stat -c "%a %Y" input/data'
        ' && cat input/data input/data > out && ls -l /proc/self/cwd && echo "$FOREBAY_PATHS"'
    )
    staging = (f"#BB_LUA stage_in={work}/in:input", f"#BB_LUA stage_out=out:{work}/result")
    job = site.slurm.submit(body, "#BB_LUA capacity=20MB", *staging)
    plain = site.slurm.submit('echo "without:$FOREBAY_PATH"')
    assert site.slurm.wait(job)["JobState"] == "COMPLETED", site.slurm.printed(job)
    said = site.slurm.printed(job).splitlines()
    assert said[0] == f"{site.slurm.user.pw_uid} 700" and int(said[2]) >= 20 * MB and said[3] == "640 1000000000"
    assert said[-1].startswith(str(site.control.folder))
    site.wait_state(job, "released")
    result = work / "result"
    assert result.read_bytes() == content * 2 and result.stat().st_uid == site.slurm.user.pw_uid
    site.slurm.wait(plain)
    assert site.slurm.printed(plain) == "without:\n" and site.states(plain) == []
    site.check_end({job: "COMPLETED", plain: "COMPLETED"})


BAD = {
    "capacity=1TB": "all disks together have 100.00 MB, less than 1.00 TB",
    "capacity=-5GB": "capacity: must be above 0, not '-5GB'",
    "capacity=0": "capacity: must be above 0, not '0'",
    "capacity=much": "capacity: 'much' is not a number with a unit",
    "capacity=5G": "capacity: '5G' has an unknown unit",
    "capacity=900000PB": "capacity: is too large",
    "capacity=5MB tier=tape": "no disk has the field 'tier'",
    "capacity=5MB pool=tape": "no disk has the field 'tier'",
    "capacity=5MB time=-1h": "time: must be above 0",
    "capacity=5MB speed=9": "unknown option 'speed=9'",
    "capacity=5MB stage_in=data": "stage_in: 'data': needs an absolute path",
    "capacity=5MB stage_out=../x:/tmp/x": "NAME must be a path inside the burst buffer",
    "tier=nvme": "capacity is missing",
}


def test_what_makes_no_sense_or_never_fits_is_refused_at_submission_in_one_clear_line(site: Site) -> None:
    for words, line in BAD.items():
        said = site.slurm.refused("true", f"#BB_LUA {words}").splitlines()
        assert len(said) == 2 and line in said[0], (words, said)
    assert site.slurm.run("squeue", "-h") == ""


def test_more_than_fits_waits_and_runs_when_the_space_is_free(site: Site) -> None:
    first = site.slurm.submit(site.until("first"), "#BB_LUA capacity=80MB")
    site.slurm.wait(first, "RUNNING")
    second = site.slurm.submit("true", "#BB_LUA capacity=80MB")
    wait_until(lambda: site.slurm.reason(second) == "BurstBufferResources", "the second job does not wait for space")
    assert site.states(second) == []
    site.go("first")
    assert site.slurm.wait(second)["JobState"] == "COMPLETED"
    site.check_end({first: "COMPLETED", second: "COMPLETED"})


def test_space_that_others_hold_is_waited_for(site: Site) -> None:
    with site.held(80 * MB):
        job = site.slurm.submit("true", "#BB_LUA capacity=80MB")
        site.wait_waiting(job)
        assert site.slurm.state(job) == "PENDING"
    assert site.slurm.wait(job)["JobState"] == "COMPLETED"
    site.check_end({job: "COMPLETED"})


def test_a_job_that_waited_too_long_is_held_with_the_reason_and_can_be_let_go_again(site: Site) -> None:
    site.install("--wait", "1s")
    with site.held(80 * MB):
        job = site.slurm.submit("true", "#BB_LUA capacity=80MB")
        wait_until(lambda: "no space within 1s: queued, place 1: no room for" in site.slurm.reason(job), "no reason")
        site.wait_state(job, "released")
    site.install("--wait", f"{WAIT}s")
    wait_until(lambda: site.slurm.show(job)["BurstBufferState"] == "complete", "it is not torn down")
    site.slurm.run("scontrol", "release", job)
    assert site.slurm.wait(job)["JobState"] == "COMPLETED"
    site.wait_state(job, "released", "released")
    site.check_end({job: "COMPLETED"})


def test_a_failing_stage_in_is_told_and_what_it_began_is_torn_down(site: Site) -> None:
    secret = site.slurm.folder / "secret"
    secret.write_text("only root may read this")
    secret.chmod(0o600)
    job = site.slurm.submit("true", f"#BB_LUA capacity=20MB stage_in={secret}:in")
    wait_until(lambda: f"{secret}: permission denied" in site.slurm.reason(job), "no reason")
    site.wait_state(job, "released")
    assert site.slurm.state(job) == "PENDING"
    site.slurm.cancel(job)
    site.check_end({job: "CANCELLED"})


def test_a_failing_stage_out_loses_nothing(site: Site) -> None:
    job = site.slurm.submit('echo result > "$FOREBAY_PATH/out"', "#BB_LUA capacity=20MB stage_out=out:/nowhere/out")
    wait_until(lambda: "/nowhere:_no_such_file" in site.slurm.show(job).get("Reason", ""), "no reason")
    wait_until(lambda: site.slurm.show(job)["BurstBufferState"] == "complete", "it is not torn down")
    (grant,) = site.grants(job)
    assert grant["state"] == "in-use" and (Path(grant["path"]) / "out").read_text() == "result\n"
    assert site.control.command("release", grant["id"], "--wait").returncode == 0
    site.check_end({job: "COMPLETED"})


def test_a_cancelled_job_gives_its_space_back(site: Site) -> None:
    running = site.slurm.submit(site.until("never"), "#BB_LUA capacity=60MB")
    site.slurm.wait(running, "RUNNING")
    with site.held(30 * MB):
        waiting = site.slurm.submit("true", "#BB_LUA capacity=40MB")
        waits = site.wait_waiting(waiting)
        site.slurm.cancel(waiting)
        site.slurm.cancel(running)
        site.wait_given_back(waiting, len(waits))
    site.wait_given_back(running)
    site.check_end({running: "CANCELLED", waiting: "CANCELLED"})


def test_jobs_go_on_over_a_restart_of_slurmctld_and_a_kill_of_the_service(site: Site) -> None:
    job = site.slurm.submit(
        site.until("over") + '; echo here > "$FOREBAY_PATH/x" && echo fine', "#BB_LUA capacity=20MB"
    )
    site.slurm.wait(job, "RUNNING")
    site.slurm.stop_controller()
    site.control.service.kill()
    site.slurm.start_controller()  # with the service away
    assert site.slurm.state(job) == "RUNNING" and "JobID=" + job in site.burst()
    site.go("over")
    site.slurm.wait(job, *ENDED)
    assert "is not a number" in site.slurm.refused("true", "#BB_LUA capacity=much")
    next_one = site.slurm.submit("true", "#BB_LUA capacity=20MB")
    site.control.service.start()
    site.wait_state(job, "released")
    assert site.slurm.printed(job) == "fine\n"
    site.slurm.wait(next_one)
    site.check_end({job: "COMPLETED", next_one: "COMPLETED"})


def test_a_slurmctld_that_is_restarted_gives_back_what_a_job_waited_for(site: Site) -> None:
    with site.held(80 * MB):
        job = site.slurm.submit("true", "#BB_LUA capacity=80MB")
        waits = site.wait_waiting(job)
        site.slurm.stop_controller()
        assert site.states(job) == waits
        site.slurm.start_controller()
        site.wait_state(job, *("released" for _ in waits))
    site.slurm.cancel(job)  # Slurm itself would let it wait for a minute now
    site.check_end({job: "CANCELLED"})


def test_a_killed_slurmctld_forgets_nothing_and_what_nobody_knows_is_reconciled(site: Site) -> None:
    job = site.slurm.submit(site.until("killed"), "#BB_LUA capacity=20MB")
    site.slurm.wait(job, "RUNNING")
    with site.control.client() as client:
        key, owner = f"slurm-{CLUSTER}-999999", site.slurm.user
        *_, lost = client.follow(
            client.request(20 * MB, "1h", key=key, job="999999", uid=owner.pw_uid, gid=owner.pw_gid)
        )
    assert site.reconcile() == f"grant {lost['id']}: release: job 999999 is gone\n"
    site.wait_state("999999", "released")
    site.slurm.save(job)
    site.slurm.stop_controller(signal.SIGKILL)
    site.slurm.start_controller()
    site.go("killed")
    site.wait_state(job, "released")
    site.check_end({job: "COMPLETED"})


def test_a_job_that_is_set_up_runs_and_is_copied_out_while_the_service_is_away(site: Site) -> None:
    site.install("--wait", f"{WAIT}s", "--patience", "0s")
    result = site.slurm.work / "while-away"
    with site.all_nodes_busy():
        job = site.slurm.submit(
            'echo fine > "$FOREBAY_PATH/out"', f"#BB_LUA capacity=20MB stage_out=out:{result}", options=("--time=5",)
        )
        site.wait_buffer(job, "staged-in")
        site.control.service.kill()
    wait_until(result.exists, f"nothing is copied out: {site.slurm.show(job)}")
    assert result.read_text() == "fine\n"
    site.control.service.start()
    site.install("--wait", f"{WAIT}s")
    site.slurm.wait(job)
    wait_until(lambda: "Allocated Buffers" not in site.burst(), "Slurm does not give up its burst buffer")
    site.reconcile()  # where Slurm's own tries to tear it down came too early
    site.wait_state(job, "released")


def test_a_job_that_slurm_could_not_start_begins_again_and_who_is_held_is_named(site: Site) -> None:
    script = site.slurm.etc / "burst_buffer.lua"
    before = script.read_text()
    script.write_text(before + '\nfunction slurm_bb_paths() return slurm.ERROR, "broken" end\n')
    try:
        stuck = site.slurm.submit('test -d "$FOREBAY_PATH"', "#BB_LUA capacity=20MB", options=("--no-requeue",))
        wait_until(lambda: site.slurm.show(stuck)["Reason"] == "JobHeldAdmin", "it starts")
    finally:
        script.write_text(before)
    held = site.slurm.submit("true", "#BB_LUA capacity=20MB stage_in=/nowhere/x:y")
    wait_until(lambda: "/nowhere: no such file" in site.slurm.reason(held), "it is not held")
    first, second = sorted(site.reconcile().splitlines(), key=lambda line: int(line.split()[1][:-1]))
    assert first == f"job {stuck}: requeued: its start failed, and Slurm does not try again"
    assert second.startswith(f"job {held}: cannot start: slurm_bb_data_in: /nowhere: no such file or directory; ")
    assert second.endswith(f"scontrol release {held} (or scancel {held})")
    assert site.slurm.wait(stuck)["JobState"] == "COMPLETED" and site.slurm.show(stuck)["Requeue"] == "0"
    site.slurm.cancel(held)
    site.check_end({stuck: "COMPLETED", held: "CANCELLED"})


def test_a_job_that_was_held_because_the_service_was_away_is_let_go(site: Site) -> None:
    site.install("--wait", "0s", "--patience", "0s")
    site.control.service.kill()
    job = site.slurm.submit("true", "#BB_LUA capacity=20MB")
    wait_until(lambda: site.slurm.show(job)["Priority"] == "0", "it is not held")
    site.control.service.start()
    site.install("--wait", f"{WAIT}s")
    done = site.reconcile()
    assert f"job {job}: released from hold: " in done and "the storage service does not answer" in done
    assert site.slurm.wait(job)["JobState"] == "COMPLETED"
    site.check_end({job: "COMPLETED"})


def test_a_job_whose_set_up_a_killed_slurmctld_forgot_begins_again(site: Site) -> None:
    site.control.service.signal(signal.SIGSTOP)
    job = site.slurm.submit("true", "#BB_LUA capacity=20MB")
    site.wait_buffer(job, "staging-in")
    site.slurm.save(job)
    site.slurm.stop_controller(signal.SIGKILL)
    for saved in (site.slurm.folder / "state").glob("burst_buffer_lua_state*"):
        saved.unlink()  # Slurm writes this down only every half minute
    site.slurm.start_controller()
    assert site.slurm.show(job)["BurstBufferState"] == "staging-in" and "JobID=" + job not in site.burst()
    site.control.service.signal(signal.SIGCONT)
    line = f"job {job}: requeued: Slurm lost its burst buffer during set-up\n"
    wait_until(lambda: line in site.reconcile(), "it does not begin again")  # once Slurm has looked at the job
    assert site.slurm.wait(job)["JobState"] == "COMPLETED"
    site.check_end({job: "COMPLETED"})


def test_a_job_without_a_limit_that_backfill_starts_runs(site: Site) -> None:
    before = site.slurm.conf.read_text()
    assert "sched_interval=1," in before
    changed = before.replace("sched_interval=1,", "sched_interval=-1,defer,")  # so that nothing but backfill starts it
    site.slurm.conf.write_text(changed.replace(" DefaultTime=10", ""))
    site.slurm.run("scontrol", "reconfigure")
    try:
        job = site.slurm.submit("true", "#BB_LUA capacity=20MB")
        assert site.slurm.wait(job)["TimeLimit"] == "365-00:00:00"
    finally:
        site.slurm.conf.write_text(before)
        site.slurm.run("scontrol", "reconfigure")
    (grant,) = site.grants(job)
    assert grant["seconds"] == 86400 + 2 * 3600
    site.check_end({job: "COMPLETED"})


def test_many_jobs_at_once_end_well_while_the_service_goes_comes_and_hangs(site: Site) -> None:
    kinds = [(size, options) for size in ("20MB", "40MB") for options in ((), ("--time=5",)) for _ in range(3)]
    for at, how in enumerate((signal.SIGKILL, signal.SIGTERM, signal.SIGKILL, signal.SIGSTOP)):
        jobs = [
            site.slurm.submit('echo x > "$FOREBAY_PATH/x"', f"#BB_LUA capacity={size}", options=options)
            for size, options in kinds[at::4]
        ]
        site.slurm.wait(jobs[0], "RUNNING", "CONFIGURING", *ENDED)
        if how == signal.SIGSTOP:
            site.control.service.signal(how)
            time.sleep(2)  # longer than a hook inside slurmctld waits
            site.control.service.signal(signal.SIGCONT)
        else:
            site.control.service.end(how)
            site.control.service.start()
        for job in jobs:
            assert site.slurm.wait(job)["JobState"] == "COMPLETED"
        site.check_end(dict.fromkeys(jobs, "COMPLETED"))
    assert site.reconcile() == ""


def test_jobs_that_have_their_space_do_not_wait_for_one_that_was_set_up_with_them(site: Site) -> None:
    with site.held(60 * MB):
        waiting = site.slurm.submit("true", "#BB_LUA capacity=80MB")
        others = [site.slurm.submit("true", "#BB_LUA capacity=2MB") for _ in range(6)]
        for job in others:
            assert site.slurm.wait(job)["JobState"] == "COMPLETED"
        assert site.slurm.state(waiting) == "PENDING"
    assert site.slurm.wait(waiting)["JobState"] == "COMPLETED"
    site.check_end(dict.fromkeys((waiting, *others), "COMPLETED"))
