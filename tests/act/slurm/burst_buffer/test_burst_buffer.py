"""The hooks of burst_buffer.lua against a real service, called as Slurm calls them."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from support.control import GB, Running, running
from support.processes import wait_until
from support.slurm_lua import LUA, PATIENCE, Answer, Lua, skip_without_lua

USER = ("1000", "1000")


class Bench:
    """A service with one node of one disk (100 GB, tier fast) whose agent we are, and the hooks."""

    def __init__(self, service: Running, lua: Lua) -> None:
        self.service, self.lua, self._reports = service, lua, 1
        disk = {"name": "d", "capacity": 100 * GB, "read_bandwidth": 1e9, "write_bandwidth": 1e9}
        service.call("POST", "/v1/nodes/n/hello", {"disks": [disk | {"fields": {"tier": "fast"}}], "number": 1})

    def carry_out(self) -> None:
        self._reports += 1
        self.service.carry_out("n", self._reports)

    def setup(self, job: str = "7", words: str = "capacity=10GB", user: tuple[str, str] = USER) -> Answer:
        """With an agent that does its work meanwhile."""
        return self.finish(self.lua.start("setup", job, *user, "any", "0", self.lua.script(f"#BB_LUA {words}")))

    def finish(self, process: subprocess.Popen[str]) -> Answer:
        def ended() -> bool:
            self.carry_out()
            return process.poll() is not None

        wait_until(ended, "setup does not end")
        return self.lua.end(process)

    def begin(self, job: str = "7", words: str = "capacity=10GB") -> Answer:
        """The job starts: it is told of its space, and that is in use."""
        script = self.lua.script(f"#BB_LUA {words}")
        assert self.lua.call("paths", job, script, str(self.lua.folder / "path"))[:2] == (0, "")
        return self.lua.call("pre_run", job, script)

    def limit(self, limit: str, state: str = "PENDING") -> None:
        """What squeue says of every job."""
        (self.lua.folder / "squeue").write_text(f"#!/bin/sh\necho {limit} {state}\n")
        (self.lua.folder / "squeue").chmod(0o755)

    def leave(self) -> None:
        """From now on the service is away for the hooks."""
        self.lua.configure(service=f"unix:{self.lua.folder}/nobody")

    def grants(self, job: str = "7") -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.service.call("GET", f"/v1/keys/slurm-c-{job}")["grants"]
        return found

    def states(self, job: str = "7") -> list[str]:
        return [grant["state"] for grant in self.grants(job)]


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    skip_without_lua()
    with running(tmp_path) as service:
        made = Bench(service, Lua(tmp_path / "etc", service.socket))
        made.limit("10:00")
        yield made


def test_the_whole_life_of_a_burst_buffer(bench: Bench) -> None:
    lua = bench.lua
    script = lua.script("#BB_LUA capacity=10GB")
    assert lua.call("job_process", script) == Answer(0, "", "")
    assert bench.setup().code == 0
    (grant,) = bench.grants()
    assert (grant["state"], grant["size"], grant["uid"], grant["gid"]) == ("ready", 10 * GB, 1000, 1000)
    assert (grant["key"], grant["job"]) == ("slurm-c-7", "7")
    assert lua.call("data_in", "7", script).code == 0
    assert lua.call("real_size", "7") == Answer(0, str(10 * GB), "")
    assert bench.begin().code == 0
    path = f"/fast/{grant['id']}.0"
    assert (
        lua.folder / "path"
    ).read_text() == f"FOREBAY_GRANT={grant['id']}\nFOREBAY_PATH={path}\nFOREBAY_PATHS={path}\n"
    assert bench.states() == ["in-use"]
    assert lua.call("post_run", "7", script).code == 0
    assert lua.call("data_out", "7", script).code == 0
    assert lua.call("job_teardown", "7", script, "true").code == 0
    bench.carry_out()
    assert bench.states() == ["released"]


def test_the_paths_of_a_split_grant_are_all_told(bench: Bench, tmp_path: Path) -> None:
    bench.service.call("PUT", "/v1/rules", {"split": "90 GB"})
    bench.service.hello("n", "d", "e", number=2)
    assert bench.setup(words="capacity=150GB").code == 0
    names = [f"/fast/{bench.grants()[0]['id']}.{number}" for number in range(2)]
    assert bench.lua.call("paths", "7", "/none", str(tmp_path / "paths")).code == 0
    assert (tmp_path / "paths").read_text().endswith(f"FOREBAY_PATH={names[0]}\nFOREBAY_PATHS={':'.join(names)}\n")


def test_a_setup_that_is_called_twice_grants_once_and_a_requeued_job_gets_new_space(bench: Bench) -> None:
    assert [bench.setup().code, bench.setup().code] == [0, 0]
    assert bench.states() == ["ready"]
    bench.lua.call("job_teardown", "7", "/none", "true")
    bench.carry_out()
    assert bench.setup().code == 0
    assert [(grant["key"], grant["state"]) for grant in bench.grants()] == [
        ("slurm-c-7", "released"), ("slurm-c-7.2", "ready")]  # fmt: skip


def test_a_set_up_whose_old_space_is_taken_away_asks_for_new(bench: Bench) -> None:
    old = bench.service.ask(10 * GB, key="slurm-c-7", job="7", uid=1000, gid=1000)
    process = bench.lua.start("setup", "7", *USER, "any", "0", bench.lua.script("#BB_LUA capacity=10GB"))
    with pytest.raises(subprocess.TimeoutExpired):  # it waits for what is being made
        process.wait(0.5)
    bench.service.call("POST", f"/v1/grants/{old['id']}/release", {})
    assert bench.finish(process).code == 0
    assert bench.states() == ["released", "ready"]


def test_another_users_job_of_that_number_does_not_get_the_space(bench: Bench) -> None:
    bench.setup()
    assert bench.setup(user=("2000", "2000")).code == 0
    bench.carry_out()
    assert [(grant["uid"], grant["state"]) for grant in bench.grants()] == [(1000, "released"), (2000, "ready")]


def test_the_space_lasts_for_the_jobs_limit_and_is_kept_when_the_job_begins_late(bench: Bench) -> None:
    lua = bench.lua
    lua.configure(margin=60.0, queue=30.0)
    bench.setup()
    (grant,) = bench.grants()
    assert grant["seconds"] == 600 + 60 + 30
    lua.configure(margin=3600.0)
    assert bench.begin().code == 0
    assert bench.grants()[0]["until"] - grant["until"] == pytest.approx(3600 - 90, abs=60)
    bench.setup("8", "capacity=1GB time=2h")
    assert bench.grants("8")[0]["seconds"] == 7200 + 3600 + 30


def test_a_job_that_begins_twice_keeps_its_space(bench: Bench) -> None:
    bench.setup()
    assert [bench.begin().code for _ in range(2)] == [0, 0]
    assert bench.states() == ["in-use"]


def test_space_that_is_promised_to_others_later_is_told_to_a_job_that_begins_late(bench: Bench) -> None:
    bench.lua.configure(margin=0.0, queue=0.0)
    bench.setup(words="capacity=60GB")
    (grant,) = bench.grants()
    bench.service.ask(60 * GB, start=grant["until"] + 60)
    bench.lua.configure(margin=3600.0)
    found = bench.begin()
    assert found.code == -1 and found.text.startswith("cannot extend") and "\n" not in found.text


def test_what_slurm_of_later_versions_passes_is_used(bench: Bench) -> None:
    lua = bench.lua
    lua.configure(margin=60.0, queue=30.0)
    script = lua.script("#BB_LUA capacity=10GB")
    process = lua.start("setup", "7", *USER, "any", "0", script, {"time_limit": 30})  # type: ignore[arg-type]
    assert bench.finish(process).code == 0 and bench.grants()[0]["seconds"] == 1800 + 90
    assert lua.call("job_process", script, *USER).code == 0
    assert lua.call("job_teardown", "7", script, "true", *USER).code == 0
    assert lua.call("test_data_in", "7").code == 0 and lua.call("test_data_out", "7").code == 0


def test_what_never_fits_is_refused_with_the_services_reason_at_once_and_at_setup(bench: Bench) -> None:
    reason = "less than 200.00 GB"
    found = bench.lua.call("job_process", bench.lua.script("#BB_LUA capacity=200GB"))
    assert found.code == -1 and reason in found.text and "\n" not in found.text
    found = bench.setup(words="capacity=200GB")
    assert found.code == -1 and reason in found.text and bench.states() == ["refused"]
    found = bench.lua.call("job_process", bench.lua.script("#BB_LUA capacity=1GB tier=slow"))
    assert found == Answer(-1, "no disk has tier 'slow'; known values: fast", found.log)
    job, said = bench.lua.submit(script="#!/bin/sh\n#BB_LUA capacity=1GB tier=slow\n")
    assert job["code"] == -1 and said == "burst buffer: no disk has tier 'slow'; known values: fast"


def test_a_refused_job_may_ask_again(bench: Bench) -> None:
    bench.setup(words="capacity=200GB")
    assert bench.setup(words="capacity=20GB").code == 0
    assert bench.states() == ["refused", "ready"]


def test_who_waited_long_enough_gives_up_and_leaves_nothing_in_the_queue(bench: Bench) -> None:
    bench.setup("1", "capacity=90GB")
    bench.lua.configure(wait=0.0)
    found = bench.setup("2", "capacity=90GB")
    assert found.code == -1 and found.text.startswith("no space within 0s: queued, place 1: no room for 90.00 GB")
    assert bench.states("2") == ["released"]


def test_a_job_that_was_cancelled_meanwhile_gets_nothing(bench: Bench) -> None:
    bench.limit("10:00", "CANCELLED")
    found = bench.setup()
    assert found.code == -1 and found.text == "the job is cancelled"
    bench.carry_out()
    assert bench.states() == ["released"]


def test_the_tiers_are_slurms_pools(bench: Bench) -> None:
    bench.setup(words="capacity=10GB tier=fast")
    found = json.loads(bench.lua.call("pools").text)["pools"]
    wanted = {"granularity": 1, "quantity": 100 * GB, "free": 90 * GB}
    assert found == [{"id": "any", **wanted}, {"id": "fast", **wanted}]


def test_numbers_of_large_machines_are_written_as_whole_numbers(bench: Bench) -> None:
    disk = {"name": "d", "capacity": 123_456_789_012_345, "read_bandwidth": 1e9, "write_bandwidth": 1e9}
    bench.service.call("POST", "/v1/nodes/n/hello", {"disks": [disk], "number": 9})
    assert '"quantity":123456789012345,' in bench.lua.call("pools").text


def test_teardown_is_harmless_where_nothing_was_set_up_and_when_it_is_called_again(bench: Bench) -> None:
    assert bench.lua.call("job_teardown", "7", "/no/script", "false") == Answer(0, "", "")
    bench.setup()
    for _ in range(2):
        assert bench.lua.call("job_teardown", "7", "/no/script", "true").code == 0
    bench.carry_out()
    assert bench.states() == ["released"]


def test_hooks_of_a_job_without_a_grant_say_so(bench: Bench) -> None:
    script = bench.lua.script("#BB_LUA capacity=1GB stage_in=/x")
    for hook in ("pre_run", "data_in"):
        assert bench.lua.call(hook, "7", script)[:2] == (-1, "the job no longer has a grant")
    assert bench.lua.call("real_size", "7")[:2] == (-1, "the job no longer has a grant")


def copy(bench: Bench, way: str, because: str = "") -> Answer:
    """Run the hook, while the agent copies."""
    hook = bench.lua.start(f"data_{way}", "7", str(bench.lua.folder / "script"))
    done = set[str]()

    def copied() -> bool:
        for action in bench.service.call("GET", "/v1/nodes/n/actions?seconds=0")["copies"]:
            assert (action["way"], action["uid"], action["gid"]) == (way, 1000, 1000)
            done.update(f"{source} {target}" for source, target in action["pairs"])
            report = {"grant": action["grant"], "key": action["key"], "step": "settled", "files": 2, "because": because}
            bench.service.call("POST", "/v1/nodes/n/copies", [report])
        return hook.poll() is not None

    wait_until(copied, "the hook does not end")
    assert done == ({"/a/b c", "/it's it's"} if way == "in" else {"o /p"})
    return bench.lua.end(hook)


def test_the_storage_nodes_copy_and_the_hooks_wait_for_them(bench: Bench) -> None:
    bench.setup(words="capacity=1GB stage_in=/a/b:c stage_in=/it's stage_out=o:/p")
    assert copy(bench, "in").code == 0
    assert copy(bench, "in", because="/a/b: not there")[:2] == (-1, "/a/b: not there")
    assert copy(bench, "out").code == 0
    assert copy(bench, "out", because="/p: no room")[:2] == (-1, "/p: no room")
    (grant,) = bench.grants()
    waiting = f"/v1/grants/{grant['id']}/wait?seconds=60&known={grant['state']}"
    began = time.monotonic()
    assert bench.service.call("GET", f"{waiting}&staging=running")["staging"]["state"] == "failed"
    assert time.monotonic() - began < 60, "who asks after all is copied waits for a change that never comes"
    found = bench.lua.call("job_teardown", "7", str(bench.lua.folder / "script"), "false")
    assert found.code == 0 and "stage-out failed, so grant " in found.log


@pytest.fixture
def away(tmp_path: Path) -> Lua:
    skip_without_lua()
    return Lua(tmp_path / "etc", tmp_path / "nobody", wait=0.0)


WORDS = {"setup": (*USER, "any", "0"), "data_in": (), "pre_run": (), "job_teardown": ()}


@pytest.mark.parametrize("hook", WORDS)
def test_a_service_that_is_away_is_told_in_one_line(away: Lua, hook: str) -> None:
    script = away.script("#BB_LUA capacity=1GB stage_in=/x")
    found = away.call(hook, "7", *WORDS[hook], script, "/none")
    assert found.code == -1 and found.text.startswith("the storage service does not answer (")
    assert "\n" not in found.text and found.text.endswith(" [service-away]")


def test_without_the_service_jobs_are_taken_and_pools_are_as_they_were(bench: Bench, tmp_path: Path) -> None:
    bench.lua.call("pools")
    bench.lua.configure(service=f"unix:{tmp_path}/nobody")
    pool = {"granularity": 1, "quantity": 100 * GB}
    found = bench.lua.call("pools")
    assert found.code == 0 and json.loads(found.text)["pools"] == [{"id": "any", **pool}, {"id": "fast", **pool}]
    (bench.lua.folder / "forebay_pools.json").unlink()
    empty = {"id": "any", "granularity": 1, "quantity": 0}
    assert json.loads(bench.lua.call("pools").text)["pools"] == [empty]
    assert bench.lua.call("job_process", bench.lua.script("#BB_LUA capacity=1GB")).code == 0
    assert "does not answer" in bench.lua.call("get_status").text


def test_a_service_that_hangs_keeps_nobody_for_ever(away: Lua, tmp_path: Path) -> None:
    """slurmctld waits for it once in a while, however many jobs there are."""
    settings, script = away.folder / "forebay_settings.lua", away.script("#BB_LUA capacity=1GB tier=fast")
    before, calls = settings.read_text(), list[int]()
    with socket.socket(socket.AF_UNIX) as door:
        door.bind(str(tmp_path / "nobody"))
        door.listen()
        door.setblocking(False)
        for clock in (1000, 1000, 1004, 1005, 990):
            settings.write_text(f"os.time = function() return {clock} end\n{before}")
            assert away.call("job_process", script).code == 0
            assert away.submit(script="#!/bin/sh\n#BB_LUA capacity=1GB tier=fast\n")[1] == ""
            found = away.call("paths", "7", script, "/none")
            assert found.code == 0 and "paths: the storage service did not answer a moment ago" in found.log
            calls.append(0)
            with suppress(BlockingIOError):
                while True:
                    door.accept()[0].close()
                    calls[-1] += 1
    assert calls == [1, 0, 0, 1, 1], "again after a pause, or where the clock was put back"


def test_a_fraction_that_slurm_would_misread_is_refused_where_nothing_rewrites_it(away: Lua) -> None:
    found = away.call("job_process", away.script("#BB_LUA capacity=1.5GB pool=any"))
    assert found.code == -1 and "Slurm cannot read '1.5GB'" in found.text


def test_a_token_is_shown_to_the_service(bench: Bench) -> None:
    token = bench.lua.folder / "token"
    token.write_text(bench.service.token("slurm", "administrator") + "\n")
    bench.lua.configure(token=str(token), state="")
    assert bench.setup().code == 0
    token.write_text("wrong\n")
    assert bench.lua.call("real_size", "7")[:2] == (-1, "unknown token; ask an administrator for a new one")
    token.unlink()
    assert "cannot read the token" in bench.lua.call("real_size", "7").text


def test_the_status_tells_the_tiers(bench: Bench) -> None:
    found = bench.lua.call("get_status", "0", "0")
    assert found.code == 0 and "fast: 100.0 GB free of 100.0 GB on 1 disks" in found.text


def test_a_job_that_is_set_up_begins_without_the_service(bench: Bench) -> None:
    words = "capacity=10GB"
    assert bench.setup(words=words).code == 0
    (grant,) = bench.grants()
    bench.leave()
    script = bench.lua.script(f"#BB_LUA {words}")
    assert bench.lua.call("real_size", "7") == Answer(0, str(10 * GB), "")
    found = bench.begin(words=words)
    assert found.code == 0 and "starts without the service: the storage service does not answer" in found.log
    assert f"FOREBAY_PATH={grant['path']}\n" in (bench.lua.folder / "path").read_text()
    assert bench.lua.call("data_out", "7", script) == Answer(0, "", "")
    assert bench.lua.call("job_teardown", "7", script, "false").code == -1


def test_a_job_whose_space_would_end_too_early_waits_for_the_service(bench: Bench) -> None:
    bench.setup()
    bench.lua.configure(margin=1e6)
    bench.leave()
    found = bench.begin()
    assert found.code == -1 and found.text.endswith("[service-away]")


def test_what_is_kept_of_a_job_is_for_slurm_alone_and_goes_with_its_teardown(bench: Bench) -> None:
    bench.setup()
    folder = bench.lua.folder / "forebay_jobs"
    assert folder.stat().st_mode & 0o777 == 0o700 and (folder / "7").stat().st_mode & 0o777 == 0o600
    assert bench.lua.call("job_teardown", "7", "/none", "true").code == 0
    assert list(folder.iterdir()) == []


def test_nothing_is_kept_where_others_could_write(bench: Bench, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (bench.lua.folder / "forebay_jobs").symlink_to(tmp_path / "elsewhere")
    found = bench.setup()
    assert found.code == 0 and "job 7: cannot note its grant: " in found.log
    assert list((tmp_path / "elsewhere").iterdir()) == [] and bench.begin().code == 0


KEPT = {
    "nothing": None,
    "an empty file": "",
    "half of it": lambda text: text[: len(text) // 2],
    "no grant": "{}",
    "another job's": lambda text: text.replace("slurm-c-7", "slurm-c-8"),
    "another cluster's": lambda text: text.replace("slurm-c-7", "slurm-d-7"),
    "odd paths": lambda text: text.replace('"paths":[', '"paths":[3,'),
}


@pytest.mark.parametrize("what", KEPT)
def test_where_what_is_kept_is_of_no_use_the_service_is_asked(bench: Bench, what: str) -> None:
    bench.setup()
    kept, change = bench.lua.folder / "forebay_jobs" / "7", KEPT[what]
    if change is None:
        kept.unlink()
    else:
        kept.write_text(change(kept.read_text()) if callable(change) else change)
    assert bench.begin().code == 0
    assert f"FOREBAY_GRANT={bench.grants()[0]['id']}\n" in (bench.lua.folder / "path").read_text()
    bench.leave()
    (bench.lua.folder / "path").unlink()
    found = bench.begin()
    assert found.code == -1 and found.text.endswith("[service-away]")


def test_a_job_that_was_not_told_of_its_space_does_not_run(bench: Bench) -> None:
    bench.setup()
    for text in ("", "FOREBAY_GRANT=another\n"):
        (bench.lua.folder / "path").write_text(text)
        found = bench.lua.call("pre_run", "7", bench.lua.script("#BB_LUA capacity=10GB"))
        assert found[:2] == (-1, "the job did not get the path of its space")
    assert bench.states() == ["ready"]


@pytest.mark.parametrize(
    ("limit", "seconds"),
    [
        ("UNLIMITED", 1000),
        ("365-00:00:00", 1000),  # what backfill gives to a job without a limit
        ("364-23:59:00", 30 * 86400),
        ("30-00:00:00", 30 * 86400),
        ("29-00:00:00", 29 * 86400 + 90),
    ],
)
def test_a_job_gets_its_space_for_its_limit_or_for_as_long_as_there_is_space(
    bench: Bench, limit: str, seconds: float
) -> None:
    bench.lua.configure(time=910.0, margin=60.0, queue=30.0)
    bench.limit(limit)
    assert bench.setup().code == 0
    (grant,) = bench.grants()
    assert grant["seconds"] == seconds
    bench.limit("365-00:00:00" if limit == "UNLIMITED" else limit)
    bench.lua.configure(margin=120.0)
    assert bench.begin().code == 0
    assert bench.grants()[0]["until"] <= grant["start"] + 30 * 86400


def test_more_time_than_space_may_last_is_refused_at_submission(bench: Bench) -> None:
    words = "capacity=1GB time=31d"
    found = bench.lua.call("job_process", bench.lua.script(f"#BB_LUA {words}"))
    assert found.code == -1 and "a grant lasts at most 30 d" in found.text
    assert bench.lua.call("job_process", bench.lua.script("#BB_LUA capacity=1GB time=30d")).code == 0
    assert bench.setup(words="capacity=1GB time=30d").code == 0


def test_a_stage_out_that_could_not_even_begin_keeps_the_space(bench: Bench) -> None:
    bench.setup()
    assert bench.lua.call("data_out", "7", "/no/script").code == -1
    found = bench.lua.call("job_teardown", "7", "/no/script", "false")
    assert found.code == 0 and "stage-out failed, so grant " in found.log
    assert bench.states() == ["ready"]


@contextmanager
def odd_service(path: Path, answer: bytes, pause: float = 0.0) -> Iterator[None]:
    """Something else at the service's socket: it says this to everybody, with a pause after each byte."""
    stop = threading.Event()

    def serve() -> None:
        while not stop.is_set():
            try:
                caller, _ = door.accept()
            except OSError:
                return
            with caller:
                caller.recv(65536)
                try:
                    for piece in (answer[at : at + 1] for at in range(len(answer))) if pause else (answer,):
                        caller.sendall(piece)
                        stop.wait(pause)
                except OSError:
                    continue

    with socket.socket(socket.AF_UNIX) as door:
        door.bind(str(path))
        door.listen()
        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            door.shutdown(socket.SHUT_RDWR)
            thread.join(10)


def http(body: bytes, status: int = 200) -> bytes:
    return b"HTTP/1.1 %d X\r\nContent-Length: %d\r\n\r\n%s" % (status, len(body), body)


ODD = {
    "no HTTP": b"220 mail.example.org\r\n\r\n",
    "no JSON": http(b"<html>"),
    "a list": http(b"[1, 2]"),
    "nothing in it": http(b"{}"),
    "other things in it": http(b'{"grants": [{"id": "../x", "state": 3}], "tiers": [4]}'),
    "an error of its own": http(b'{"error": "internal error"}', 500),
}
CALLS = {
    "job_process": (),
    "pools": (),
    "setup": (*USER, "any", "0"),
    "data_in": (),
    "real_size": (),
    "paths": (),
    "pre_run": (),
    "post_run": (),
    "data_out": (),
    "job_teardown": (),
    "get_status": (),
}
FAILING = ("setup", "data_in", "real_size", "pre_run", "job_teardown")


@pytest.mark.parametrize("what", ODD)
def test_an_answer_that_makes_no_sense_is_taken_for_none(away: Lua, tmp_path: Path, what: str) -> None:
    script = away.script("#BB_LUA capacity=1GB stage_in=/x")
    with odd_service(tmp_path / "nobody", ODD[what]):
        for hook, words in CALLS.items():
            job = () if hook in ("job_process", "pools", "get_status") else ("7",)
            found = away.call(hook, *job, *words, *(() if hook == "pools" else (script,)), "/none")
            assert found.code == (-1 if hook in FAILING else 0), (hook, found)
            assert hook not in FAILING or found.text.endswith("[service-away]"), (hook, found)


def test_an_answer_that_comes_byte_by_byte_takes_no_longer_than_any_other(away: Lua, tmp_path: Path) -> None:
    with odd_service(tmp_path / "nobody", http(b"{}"), pause=0.3):
        found = away.call("paths", "7", away.script("#BB_LUA capacity=1GB"), "/none")
        assert found.code == 0 and "does not answer (timeout)" in found.log


@pytest.mark.parametrize("parent", ["slurmscriptd", "slurmctld"])
def test_a_hook_does_not_hold_the_pipes_of_hooks_that_were_started_with_it(away: Lua, parent: str) -> None:
    """Its own is the one whose other end it does not have. Inside slurmctld, nothing is closed."""
    (away.folder / "hook").mkdir()
    (away.folder / parent).symlink_to("/bin/sh")  # which gives the process its name
    (away.folder / "hook" / "slurmscriptd").symlink_to(str(shutil.which(LUA)))
    program = away.folder / "program.lua"
    program.write_text(
        'local forebay = dofile(arg[1] .. "/forebay.lua")\nforebay.leave_siblings()\n'
        'for at = 2, #arg do io.write(io.open("/proc/self/fdinfo/" .. arg[at]) and "open " or "closed ") end\n'
    )
    other_end, others, own_end, own = *os.pipe(), *os.pipe()
    try:
        words = (away.folder / "hook" / "slurmscriptd", program, away.folder, other_end, others, own)
        line = " ".join(map(str, words)) + "; true"
        run = [str(away.folder / parent), "-c", line]
        done = subprocess.run(
            run, pass_fds=(other_end, others, own), capture_output=True, text=True, check=True, timeout=PATIENCE
        )
    finally:
        for number in (other_end, others, own_end, own):
            os.close(number)
    assert done.stdout == f"open {'closed' if parent == 'slurmscriptd' else 'open'} open ", done.stderr
