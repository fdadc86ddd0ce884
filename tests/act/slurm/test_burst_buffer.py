"""The hooks of burst_buffer.lua against a real service, called as Slurm calls them."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.control import GB, Running, running
from support.forward_processes import wait_until
from support.slurm_lua import Answer, Lua, skip_without_lua

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
        process = self.lua.start("setup", job, *user, "any", "0", self.lua.script(f"#BB_LUA {words}"))

        def ended() -> bool:
            self.carry_out()
            return process.poll() is not None

        wait_until(ended, "setup does not end")
        return self.lua.end(process)

    def grants(self, job: str = "7") -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.service.call("GET", f"/v1/keys/slurm-c-{job}")["grants"]
        return found

    def states(self, job: str = "7") -> list[str]:
        return [grant["state"] for grant in self.grants(job)]


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    skip_without_lua()
    with running(tmp_path) as service:
        lua = Lua(tmp_path / "etc", service.socket)
        limit = lua.folder / "squeue"
        limit.write_text("#!/bin/sh\necho 10:00 PENDING\n")
        limit.chmod(0o755)
        yield Bench(service, lua)


def test_the_whole_life_of_a_burst_buffer(bench: Bench, tmp_path: Path) -> None:
    lua = bench.lua
    script = lua.script("#BB_LUA capacity=10GB")
    assert lua.call("job_process", script) == Answer(0, "", "")
    assert bench.setup().code == 0
    (grant,) = bench.grants()
    assert (grant["state"], grant["size"], grant["uid"], grant["gid"]) == ("ready", 10 * GB, 1000, 1000)
    assert (grant["key"], grant["job"]) == ("slurm-c-7", "7")
    assert lua.call("data_in", "7", script).code == 0
    assert lua.call("real_size", "7") == Answer(0, str(10 * GB), "")
    paths = tmp_path / "paths"
    assert lua.call("paths", "7", script, str(paths)).code == 0
    path = f"/fast/{grant['id']}.0"
    assert paths.read_text() == f"FOREBAY_GRANT={grant['id']}\nFOREBAY_PATH={path}\nFOREBAY_PATHS={path}\n"
    assert lua.call("pre_run", "7", script).code == 0
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
    assert lua.call("pre_run", "7", lua.script("#BB_LUA capacity=10GB")).code == 0
    assert bench.grants()[0]["until"] - grant["until"] == pytest.approx(3600 - 90, abs=60)
    bench.setup("8", "capacity=1GB time=2h")
    assert bench.grants("8")[0]["seconds"] == 7200 + 3600 + 30


def test_a_job_that_begins_twice_keeps_its_space(bench: Bench) -> None:
    bench.setup()
    script = bench.lua.script("#BB_LUA capacity=10GB")
    assert [bench.lua.call("pre_run", "7", script).code for _ in range(2)] == [0, 0]
    assert bench.states() == ["in-use"]


def test_space_that_is_promised_to_others_later_is_told_to_a_job_that_begins_late(bench: Bench) -> None:
    bench.lua.configure(margin=0.0, queue=0.0)
    bench.setup(words="capacity=60GB")
    (grant,) = bench.grants()
    bench.service.ask(60 * GB, start=grant["until"] + 60)
    bench.lua.configure(margin=3600.0)
    found = bench.lua.call("pre_run", "7", bench.lua.script("#BB_LUA capacity=60GB"))
    assert found.code == -1 and found.text.startswith("can't extend") and "\n" not in found.text


def test_what_slurm_of_later_versions_passes_is_used(bench: Bench) -> None:
    lua = bench.lua
    lua.configure(margin=60.0, queue=30.0)
    script = lua.script("#BB_LUA capacity=10GB")
    process = lua.start("setup", "7", *USER, "any", "0", script, {"time_limit": 30})  # type: ignore[arg-type]

    def ended() -> bool:
        bench.carry_out()
        return process.poll() is not None

    wait_until(ended, "setup does not end")
    assert lua.end(process).code == 0 and bench.grants()[0]["seconds"] == 1800 + 90
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
    assert found == Answer(-1, "no disk has tier 'slow'; there are: fast", found.log)
    job, said = bench.lua.submit(script="#!/bin/sh\n#BB_LUA capacity=1GB tier=slow\n")
    assert job["code"] == -1 and said == "burst buffer: no disk has tier 'slow'; there are: fast"


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
    (bench.lua.folder / "squeue").write_text("#!/bin/sh\necho 10:00 CANCELLED\n")
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


def test_hooks_of_a_job_without_a_grant_say_so(bench: Bench, tmp_path: Path) -> None:
    script = bench.lua.script("#BB_LUA capacity=1GB stage_in=/x")
    for hook, words in {"paths": (str(tmp_path / "p"),), "pre_run": (), "data_in": ()}.items():
        assert bench.lua.call(hook, "7", script, *words)[:2] == (-1, "the job has no grant any more")
    assert bench.lua.call("real_size", "7")[:2] == (-1, "the job has no grant any more")


def test_staging_is_done_by_a_command_with_the_owners_numbers(bench: Bench) -> None:
    lua = bench.lua
    words = lua.folder / "words"
    lua.configure(command=f'sh -c \'printf "%s\\n" "$@" >{words}\' x')
    bench.setup(words="capacity=1GB stage_in=/a/b:c stage_in=/it's stage_out=o:/p")
    (grant,) = bench.grants()
    script = str(lua.folder / "script")
    assert lua.call("data_in", "7", script).code == 0
    told = ["--uid", "1000", "--gid", "1000", "--volume", grant["path"], "--"]
    assert words.read_text().splitlines() == ["slurm", "stage", "in", *told, "/a/b", "c", "/it's", "it's"]
    assert lua.call("data_out", "7", script).code == 0
    assert words.read_text().splitlines() == ["slurm", "stage", "out", *told, "o", "/p"]
    lua.configure(command="sh -c 'echo forebay: /a/b: not there >&2; exit 2' x")
    assert lua.call("data_in", "7", script)[:2] == (-1, "/a/b: not there")


@pytest.fixture
def away(tmp_path: Path) -> Lua:
    skip_without_lua()
    return Lua(tmp_path / "etc", tmp_path / "nobody", wait=0.0)


WORDS = {"setup": (*USER, "any", "0"), "data_in": (), "paths": (), "pre_run": (), "job_teardown": ()}


@pytest.mark.parametrize("hook", WORDS)
def test_a_service_that_is_away_is_told_in_one_line(away: Lua, hook: str) -> None:
    script = away.script("#BB_LUA capacity=1GB stage_in=/x")
    found = away.call(hook, "7", *WORDS[hook], script, "/none")
    assert (
        found.code == -1 and found.text.startswith("the storage service does not answer (") and "\n" not in found.text
    )


def test_without_the_service_jobs_are_taken_and_pools_are_as_they_were(bench: Bench, tmp_path: Path) -> None:
    bench.lua.call("pools")
    bench.lua.configure(service=f"unix:{tmp_path}/nobody")
    pool = {"granularity": 1, "quantity": 100 * GB}
    found = bench.lua.call("pools")
    assert found.code == 0 and json.loads(found.text)["pools"] == [{"id": "any", **pool}, {"id": "fast", **pool}]
    os.unlink(bench.lua.hooks.cache)  # noqa: PTH108 - the name is text
    empty = {"id": "any", "granularity": 1, "quantity": 0}
    assert json.loads(bench.lua.call("pools").text)["pools"] == [empty]
    assert bench.lua.call("job_process", bench.lua.script("#BB_LUA capacity=1GB")).code == 0
    assert "does not answer" in bench.lua.call("get_status").text


def test_a_service_that_hangs_keeps_nobody_for_ever(away: Lua, tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as door:
        door.bind(str(tmp_path / "nobody"))
        door.listen()
        assert away.call("job_process", away.script("#BB_LUA capacity=1GB")).code == 0
        found = away.call("paths", "7", away.script("#BB_LUA capacity=1GB"), "/none")
    assert found.code == -1 and found.text.startswith("the storage service does not answer (timeout)")


def test_a_fraction_that_slurm_would_misread_is_refused_where_nothing_rewrites_it(away: Lua) -> None:
    found = away.call("job_process", away.script("#BB_LUA capacity=1.5GB pool=any"))
    assert found.code == -1 and "Slurm itself reads no '1.5GB'" in found.text


def test_a_token_is_shown_to_the_service(bench: Bench) -> None:
    token = bench.lua.folder / "token"
    token.write_text(bench.service.token("slurm", "administrator") + "\n")
    bench.lua.configure(token=str(token))
    assert bench.setup().code == 0
    token.write_text("wrong\n")
    assert bench.lua.call("real_size", "7")[:2] == (-1, "no such token")
    token.unlink()
    assert "the token can't be read" in bench.lua.call("real_size", "7").text


def test_the_status_tells_the_tiers(bench: Bench) -> None:
    found = bench.lua.call("get_status", "0", "0")
    assert found.code == 0 and "fast: 100.0 GB free of 100.0 GB on 1 disks" in found.text
