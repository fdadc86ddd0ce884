"""An agent over real folders, under a service that decides as the real one does."""

from __future__ import annotations

import os
import random
import secrets
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from forebay.act.control.agent.agent import Agent
from forebay.act.control.agent.settings import AgentFile, read_agent
from forebay.act.control.agent.state_folder import ReportNumbers
from forebay.act.control.api.forms import ReportForm
from forebay.act.volumes.directory import Directory
from forebay.act.volumes.volume import Volume, VolumeFailed
from forebay.decide.grants import commands as co
from forebay.decide.grants.grant_limits import GrantRules
from forebay.model.errors import BadInput, UserError
from support.control_fake import Fake, served
from support.grants import used_bytes
from support.processes import PATIENCE, limited
from support.volumes import Killed, dying

MB = 10**6
# The HTTP library leaves a socket to the collector where nobody listens.
_SOCKETS = "ignore:Exception ignored in. <socket.socket:pytest.PytestUnraisableExceptionWarning"
pytestmark = [pytest.mark.filterwarnings(_SOCKETS), pytest.mark.processes]
UID = os.geteuid()
FILE = """
[agent]
node = "n1"
service = "unix:{folder}/s"
folder = "state"
parallel = 3
heartbeat = "0.2 s"
[[disk]]
name = "d0"
kind = "directory"
root = "d0"
capacity = "100 MB"
read_bandwidth = "1 GB/s"
write_bandwidth = "1 GB/s"
fields = {{ tier = "fast" }}
[[disk]]
name = "d1"
kind = "directory"
root = "d1"
capacity = "100 MB"
read_bandwidth = "1 GB/s"
write_bandwidth = "1 GB/s"
"""


@pytest.fixture
def folder() -> Iterator[Path]:
    """With a short path, since a socket's has to be short."""
    with tempfile.TemporaryDirectory(prefix="fb-") as name:
        for disk in ("d0", "d1"):
            (Path(name) / disk).mkdir(mode=0o711)
        (Path(name) / "agent.toml").write_text(FILE.format(folder=name))
        yield Path(name)


@pytest.fixture
def fake() -> Fake:
    return Fake()


@contextmanager
def running(folder: Path) -> Iterator[Agent]:
    agent = Agent(read_agent(folder / "agent.toml"), lambda _: None)
    agent.start()
    try:
        yield agent
    finally:
        agent.stop(2.0)


@pytest.fixture
def service(fake: Fake, folder: Path) -> Iterator[Fake]:
    with served(fake, folder / "s"):
        yield fake


def registered(fake: Fake) -> None:
    fake.wait_for(lambda: "n1/d1" in fake.control.tables.disks, "no hello")


def marks(folder: Path) -> list[str]:
    return sorted(made.name for disk in ("d0", "d1") for made in Directory(root=folder / disk).find())


def make(folder: Path, disk: str, name: str) -> Volume:
    return Directory(root=folder / disk).make(name, MB, uid=UID, gid=UID)


def test_a_grant_becomes_a_folder_and_its_release_takes_it_away(service: Fake, folder: Path) -> None:
    with running(folder):
        registered(service)
        grant = service.ask(10 * MB)
        service.wait_state(grant, "ready")
        path = Path(service.document(grant)["path"])
        assert path.is_dir() and path.stat().st_mode & 0o777 == 0o700
        service.release(grant)
        service.wait_state(grant, "released")
    assert not path.exists() and marks(folder) == []


def test_disks_are_told_with_their_fields_and_how_volumes_are_reached(service: Fake, folder: Path) -> None:
    with running(folder):
        registered(service)
    said = service.control.tables.disks["n1/d0"].spec
    assert said.capacity == 100 * MB
    assert said.fields == {"tier": "fast", "expose": "none", "kind": "directory"}


def test_a_grant_on_two_disks_is_ready_when_both_volumes_are(service: Fake, folder: Path) -> None:
    service.do(co.ChangeRules(caller=co.SERVICE, rules=GrantRules(split=50 * MB)))
    with running(folder):
        registered(service)
        grant = service.ask(100 * MB)
        service.wait_state(grant, "ready")
        paths = service.document(grant)["paths"]
        assert len(paths) == 2 and all(Path(path).is_dir() for path in paths)


def test_a_make_that_fails_fails_the_grant_with_the_reason_and_leaves_nothing(service: Fake, folder: Path) -> None:
    with running(folder):
        registered(service)
        name = secrets.token_hex(16)
        for disk in ("d0", "d1"):
            (folder / disk / f"{name}.0").mkdir()
        service.ask(MB)
        service.do(co.Request(caller=co.Caller(role="user", uid=UID), ask=_ask(name)))
        service.wait_state(name, "failed")
        assert "could not be made" in service.control.grant(name).because
    assert f"{name}.0" not in marks(folder)
    assert (folder / "d0" / f"{name}.0").is_dir(), "took what is not ours"
    assert any("could not make" in line["text"] and line["grant"] == name for line in service.lines)


def _ask(name: str) -> Any:
    from forebay.model.grant import Ask

    return Ask(grant=name, key=name, uid=UID, gid=UID, size=MB, seconds=3600.0)


def test_an_exposure_that_a_disk_can_not_have_is_a_failure_in_words(service: Fake, folder: Path) -> None:
    with running(folder):
        registered(service)
        grant = service.ask(MB, expose="nbd", hosts=("h",))
        service.wait_state(grant, "failed")
    assert "its volumes are mounted on the node; nbd is not possible there" in service.control.grant(grant).because
    assert marks(folder) == []


def test_what_nobody_owns_is_removed_at_the_start_and_what_has_no_mark_stays(service: Fake, folder: Path) -> None:
    stray = f"{secrets.token_hex(16)}.0"
    with running(folder):
        registered(service)  # an agent that remembers no journal would keep it
    make(folder, "d0", stray)
    (folder / "d0" / "precious").mkdir()
    with running(folder):
        registered(service)
        service.wait_for(lambda: not service.control.tables.strays and marks(folder) == [])
    assert (folder / "d0" / "precious").is_dir()


def test_what_was_made_before_a_crash_and_not_told_is_ready_after_the_next_start(service: Fake, folder: Path) -> None:
    with running(folder):
        registered(service)
    grant = service.ask(MB)
    volume = service.control.volumes(grant)[0]
    make(folder, volume.disk.partition("/")[2], volume.name)
    with running(folder):
        service.wait_state(grant, "ready")
    assert marks(folder) == [volume.name]


def test_nothing_is_left_of_files_that_a_killed_agent_was_writing(service: Fake, folder: Path) -> None:
    left = [folder / "state" / ".numbers.1.new", folder / "state" / "copies" / ".0123.plan.1.new"]
    for file in left:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        file.touch()
    with running(folder):
        registered(service)
    assert not any(file.exists() for file in left)


def test_what_is_lost_while_the_agent_is_away_is_reported(service: Fake, folder: Path) -> None:
    with running(folder):
        registered(service)
        grant = service.ask(MB)
        service.wait_state(grant, "ready")
    volume = service.control.volumes(grant)[0]
    Directory(root=folder / volume.disk.partition("/")[2]).release(volume.name)
    with running(folder):
        service.wait_state(grant, "failed")
    assert "did not find it" in service.control.grant(grant).because


def test_a_release_asked_while_the_agent_is_away_is_done_at_its_start(service: Fake, folder: Path) -> None:
    with running(folder):
        registered(service)
        grant = service.ask(MB)
        service.wait_state(grant, "ready")
    service.release(grant)
    assert service.state(grant) == "releasing"
    with running(folder):
        service.wait_state(grant, "released")
    assert marks(folder) == []


def test_reports_made_while_the_service_is_away_arrive_when_it_is_back(fake: Fake, folder: Path) -> None:
    with served(fake, folder / "s"):
        agent = Agent(read_agent(folder / "agent.toml"), lambda _: None)
        agent.start()
        registered(fake)
        fake.fault = lambda _, path: "drop" if path.endswith("/reports") else ""
        grant = fake.ask(MB)
        fake.wait_for(lambda: any(path.endswith("/reports") for _, path, _ in fake.calls), "no report")
    assert fake.state(grant) == "making"
    fake.fault = lambda *_: ""
    with served(fake, folder / "s"):
        fake.wait_state(grant, "ready")
        agent.stop(2.0)


def test_one_report_that_makes_no_sense_does_not_hold_up_the_others(service: Fake, folder: Path) -> None:
    with running(folder) as agent:
        registered(service)
        volume = "0" * 32 + ".0"
        bad = ReportForm(kind="made", volume=volume, disk="d0", path="", device="", settings={})
        refused: list[str] = []

        def fault(_: str, path: str) -> str:
            waiting = agent.outbox.undelivered_volumes() if path.endswith("/reports") else set()
            refused.extend(["x"] if bad.volume in waiting else [])
            return "422" if bad.volume in waiting else ""

        service.fault = fault
        agent.outbox.report(bad)
        grant = service.ask(MB)
        service.wait_state(grant, "ready")
    assert refused


def test_a_service_that_does_not_know_the_node_is_told_again(folder: Path) -> None:
    first, second = Fake(), Fake()
    with served(first, folder / "s"):
        agent = Agent(read_agent(folder / "agent.toml"), lambda _: None)
        agent.start()
        registered(first)
    with served(second, folder / "s"):
        registered(second)
        agent.stop(2.0)


def test_a_release_that_resists_is_tried_again(service: Fake, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with running(folder):
        registered(service)
        grant = service.ask(MB)
        service.wait_state(grant, "ready")
        tries: list[str] = []
        real = Directory.release

        def resist(self: Directory, name: str) -> None:
            tries.append(name)
            if len(tries) == 1:
                raise VolumeFailed(f"volume {name}: is busy")
            real(self, name)

        monkeypatch.setattr(Directory, "release", resist)
        service.release(grant)
        service.wait_state(grant, "released")
    assert len(tries) == 2
    assert any("is busy (try 1)" in line["text"] for line in service.lines)


def test_a_release_that_never_succeeds_ends_with_the_reason_and_is_tried_on(
    service: Fake, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("forebay.act.control.agent.agent._FIRST_PAUSE", 0.001)
    with running(folder):
        registered(service)
        grant = service.ask(MB)
        service.wait_state(grant, "ready")
        real = Directory.release

        def resist(_: Directory, name: str) -> None:
            raise VolumeFailed(f"volume {name}: input/output error")

        monkeypatch.setattr(Directory, "release", resist)
        service.release(grant)
        service.wait_state(grant, "failed")
        assert "could not be removed" in service.control.grant(grant).because
        assert [stray.name for stray in service.control.tables.strays.values()] == [f"{grant}.0"]
        monkeypatch.setattr(Directory, "release", real)
        service.wait_for(lambda: not service.control.tables.strays, "not tried any more")
    assert marks(folder) == []


def test_one_missing_disk_keeps_no_other_from_working(service: Fake, folder: Path) -> None:
    with running(folder):
        registered(service)
        kept = [service.ask(100 * MB), service.ask(100 * MB)]
        for grant in kept:
            service.wait_state(grant, "ready")
    there, missing = sorted(kept, key=lambda grant: service.control.volumes(grant)[0].disk)
    (folder / "d1").rename(folder / "unmounted")
    (folder / "d1").mkdir(mode=0o711)
    with running(folder):
        service.wait_for(lambda: service.control.tables.disks["n1/d1"].unseen != "", "not told")
        service.release(there)
        service.wait_state(there, "released")
        grant = service.ask(MB)
        service.wait_state(grant, "ready")
        assert service.control.volumes(grant)[0].disk == "n1/d0"
        assert service.state(missing) == "ready"
        (folder / "d1").rmdir()
        (folder / "unmounted").rename(folder / "d1")
        service.do(co.Silent(caller=co.SERVICE, node="n1"))
    with running(folder):
        service.wait_for(lambda: service.control.tables.disks["n1/d1"].unseen == "", "not seen")
    assert service.state(missing) == "ready"


def test_nothing_is_made_or_removed_where_a_disk_is_not_mounted(
    service: Fake, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("forebay.act.control.agent.agent._FIRST_PAUSE", 0.001)
    with running(folder):
        registered(service)
        for disk in ("d0", "d1"):
            (folder / disk).rename(folder / f"{disk}.unmounted")
            (folder / disk).mkdir(mode=0o711)
        grant = service.ask(MB)
        service.wait_state(grant, "failed")
    assert "is it mounted?" in service.control.grant(grant).because
    assert [list((folder / disk).iterdir()) for disk in ("d0", "d1")] == [[], []]


def test_a_volume_that_fails_on_one_disk_is_made_on_the_other_and_the_bad_disk_is_suspended(
    service: Fake, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Directory.make

    def resist(self: Directory, name: str, size: int, **how: Any) -> Volume:
        if self.root.name == "d0":
            raise VolumeFailed(f"volume {name}: read-only file system")
        return real(self, name, size, **how)

    with running(folder):
        registered(service)
        monkeypatch.setattr(Directory, "make", resist)
        service.do(co.ChangePolicy(caller=co.SERVICE, policy="first-fit"))
        for _ in range(5):
            service.wait_state(service.ask(MB), "ready")
        found = service.control.tables.disks["n1/d0"].suspension
        assert found is not None and found.because.endswith("read-only file system")
        monkeypatch.setattr(Directory, "make", real)
        service.now = found.due
        service.do(co.Tick(caller=co.SERVICE))
        service.wait_for(lambda: service.control.tables.disks["n1/d0"].suspension is None, "not taken back")
        service.wait_for(lambda: not service.control.tables.strays, "the trial is left")


def test_what_is_there_and_can_not_be_brought_up_is_not_given_up_at_once(
    service: Fake, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running(folder):
        registered(service)
    grant = service.ask(MB)
    volume = service.control.volumes(grant)[0]
    make(folder, volume.disk.partition("/")[2], volume.name)
    tries: list[str] = []
    real = Directory.make

    def resist(self: Directory, name: str, size: int, **how: Any) -> Volume:
        tries.append(name)
        if len(tries) == 1:
            raise VolumeFailed(f"volume {name}: the device is busy")
        return real(self, name, size, **how)

    def half(self: Directory) -> list[Volume]:
        from dataclasses import replace

        return [replace(made, state="half") for made in look(self)]

    look = Directory.find
    monkeypatch.setattr(Directory, "make", resist)
    monkeypatch.setattr(Directory, "find", half)
    with running(folder):
        service.wait_state(grant, "ready")
    assert len(tries) == 2


def test_a_disk_that_can_not_be_looked_at_is_left_out_and_the_others_work(service: Fake, folder: Path) -> None:
    (folder / "d1").rmdir()
    with running(folder):
        service.wait_for(lambda: "n1/d0" in service.control.tables.disks)
        service.wait_for(lambda: any("disk d1" in line["text"] for line in service.lines))
        assert "n1/d1" not in service.control.tables.disks
        grant = service.ask(MB)
        service.wait_state(grant, "ready")


def test_a_disk_that_is_not_mounted_is_not_taken_for_an_empty_one(service: Fake, folder: Path) -> None:
    """What is on it is not given up, neither at a look nor at a start."""
    text = (folder / "agent.toml").read_text().replace("parallel = 3", 'look = "1 s"')
    (folder / "agent.toml").write_text(text)
    with running(folder):
        registered(service)
        grant = service.ask(MB)
        service.wait_state(grant, "ready")
        disk = folder / service.control.volumes(grant)[0].disk.partition("/")[2]
        disk.rename(folder / "unmounted")
        disk.mkdir(mode=0o711)
        service.wait_for(lambda: _complaints(service) == 1, "not told")
    assert service.state(grant) == "ready"
    with running(folder):
        service.wait_for(lambda: _complaints(service) == 2, "not told")
        assert service.state(grant) == "ready"
        disk.rename(folder / "empty")
        (folder / "unmounted").rename(disk)
        other = service.ask(MB)
        service.wait_state(other, "ready")
    assert service.state(grant) == "ready" and marks(folder) == sorted([f"{grant}.0", f"{other}.0"])


def _complaints(fake: Fake) -> int:
    return sum("is it mounted?" in line["text"] for line in fake.lines)


def test_a_disk_that_stays_away_is_given_up_with_what_is_on_it(service: Fake, folder: Path) -> None:
    text = (folder / "agent.toml").read_text().replace("parallel = 3", 'look = "1 s"\ngive_up = "1 s"')
    (folder / "agent.toml").write_text(text)
    with running(folder):
        registered(service)
        grant = service.ask(MB)
        service.wait_state(grant, "ready")
        (folder / service.control.volumes(grant)[0].disk.partition("/")[2]).rename(folder / "away")
        service.wait_state(grant, "failed")


@pytest.mark.parametrize("step", range(5))
def test_a_crash_in_the_middle_of_making_or_releasing_is_mended_at_the_next_start(
    service: Fake, folder: Path, step: int
) -> None:
    with running(folder):
        registered(service)
    grant = service.ask(MB)
    volume = service.control.volumes(grant)[0]
    root = folder / volume.disk.partition("/")[2]
    with suppress(Killed):
        Directory(root=root, after=dying(step, Killed())).make(volume.name, MB, uid=UID, gid=UID)
    with running(folder):
        service.wait_state(grant, "ready")
        assert [made.state for made in Directory(root=root).find()] == ["whole"]
    service.release(grant)
    with suppress(Killed):
        Directory(root=root, after=dying(step, Killed())).release(volume.name)
    with running(folder):
        service.wait_state(grant, "released")
    assert marks(folder) == []


def test_an_agent_without_any_good_disk_does_not_start(folder: Path) -> None:
    (folder / "d0").rmdir()
    (folder / "d1").rmdir()
    agent = Agent(read_agent(folder / "agent.toml"), lambda _: None)
    with pytest.raises(UserError, match="is not a folder"):
        agent.start()


@pytest.mark.usefixtures("service")
def test_two_agents_do_not_work_with_one_folder(folder: Path) -> None:
    with running(folder), pytest.raises(BadInput, match="another agent of node 'n1'"):
        Agent(read_agent(folder / "agent.toml"), lambda _: None)


def test_the_disks_are_looked_at_again_from_time_to_time(service: Fake, folder: Path) -> None:
    text = (folder / "agent.toml").read_text().replace("parallel = 3", 'look = "1 s"')
    (folder / "agent.toml").write_text(text)
    with running(folder):
        registered(service)
        grant = service.ask(MB)
        service.wait_state(grant, "ready")
        volume = service.control.volumes(grant)[0]
        Directory(root=folder / volume.disk.partition("/")[2]).release(volume.name)
        service.wait_state(grant, "failed")


@pytest.mark.parametrize("seed", range(6))
def test_lost_answers_and_restarts_leave_nothing_doubled_or_behind(fake: Fake, folder: Path, seed: int) -> None:
    """Whatever gets lost on the way, in the end there is on the disks what the service thinks there is."""
    chance = random.Random(seed)

    def fault(_: str, path: str) -> str:
        return chance.choices(["", "lose", "drop", "503"], [6, 2, 1, 1])[0] if "/nodes/" in path else ""

    fake.fault = fault
    grants: list[str] = []
    with served(fake, folder / "s"):
        for _ in range(3):
            with running(folder):
                registered(fake)
                for _ in range(5):
                    grants.append(fake.ask(chance.randint(1, 20) * MB))
                    if chance.random() < 0.5:
                        fake.release(chance.choice(grants))
        fake.fault = lambda *_: ""
        with running(folder):
            live = [name for name in grants if fake.state(name) not in ("released", "refused", "failed", "queued")]
            fake.wait_for(lambda: not fake.control.actions("n1"), "there is still work")
            fake.wait_for(lambda: all(fake.control.grant(n).state != "making" for n in live))
    held = sorted(name for name, v in fake.control.tables.volumes.items() if v.state == "made")
    assert marks(folder) == held and not fake.control.tables.strays
    assert all(used <= 100 * MB for used in used_bytes(fake.control).values())


def test_numbers_rise_from_start_to_start_even_if_the_clock_goes_back(tmp_path: Path) -> None:
    first = ReportNumbers(tmp_path / "n", lambda: 1000.0)
    used = [first.next() for _ in range(3)]
    second = ReportNumbers(tmp_path / "n", lambda: 10.0)
    assert used == sorted(set(used)) and second.next() > used[-1]


def test_numbers_rise_by_the_clock_if_the_file_is_lost(tmp_path: Path) -> None:
    last = [ReportNumbers(tmp_path / "n", lambda: 1000.0).next() for _ in range(3)][-1]
    (tmp_path / "n").unlink()
    assert ReportNumbers(tmp_path / "n", lambda: 1010.0).next() > last


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ('node = "n1"', 'node = "n 1"', "is not a valid node name"),
        ('service = "unix', 'service = "http', "must be like 'unix:/path' or 'https://host:port'"),
        ('name = "d1"', 'name = "d0"', r"disk\[1\].name: two disks have the name 'd0'"),
        ('root = "d1"', 'root = "../{}/d0"', r"disk\[1\].root: already belongs to disk 'd0'"),
        ('kind = "directory"', 'kind = "tape"', r"disk\[0\]: no kind of volumes 'tape'"),
        ('kind = "directory"', 'kind = "lvm"', r"disk\[0\]: lvm volumes: need the name of a volume group"),
        ('capacity = "100 MB"', 'capacity = "-1 MB"', r"disk\[0\].capacity: must be at least 1, not '-1 MB'"),
        ('capacity = "100 MB"', 'capacity = "much"', r"disk\[0\].capacity: 'much' is not a number"),
        ('read_bandwidth = "1 GB/s"', "read_bandwidth = 0", r"read_bandwidth: must be greater than 0"),
        ('root = "d0"', 'root = "d0"\nexpose = "nbd"', "must be none for directory volumes, not 'nbd'"),
        ('tier = "fast"', 'expose = "nbd"', "must not contain expose; set expose in the disk's own table"),
        ("parallel = 3", "paralel = 3", "agent.paralel: is not a key"),
        ("0.2 s", "an hour", "agent.heartbeat: 'an hour' is not a number"),
        ("0.2 s", "1 h", "agent.heartbeat: must be at most 50, not 3600"),
        ("parallel = 3", 'look = "0 s"', "agent.look: must be at least 1, not 0"),
    ],
)
def test_what_is_wrong_with_the_file_is_told_in_one_line(folder: Path, old: str, new: str, says: str) -> None:
    path = folder / "agent.toml"
    path.write_text(path.read_text().replace(old, new.replace("{}", folder.name), 1))
    with pytest.raises(UserError, match=says) as caught:
        read_agent(path)
    assert str(caught.value).startswith(f"{path}: ") and "\n" not in str(caught.value)


def test_paths_in_the_file_are_relative_to_it(folder: Path) -> None:
    file: AgentFile = read_agent(folder / "agent.toml")
    assert file.settings.folder == folder / "state"
    assert file.node.disks["d0"].volumes.make(f"{'0' * 32}.0", 1, uid=UID, gid=UID).path.parent == folder / "d0"


def test_a_capacity_is_told_anew_only_if_it_changed_much(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = read_agent(folder / "agent.toml").node.disks["d0"]
    from dataclasses import replace

    disk = replace(disk, capacity=None)
    first = disk.describe().capacity
    for usable, same in ((first, True), (first + first // 300, True), (first - 1, False), (2 * first, False)):
        monkeypatch.setattr(Directory, "usable", lambda _, usable=usable: usable)
        told = disk.describe(first).capacity
        assert (told == first) is same and told <= usable


def test_a_slow_volume_holds_up_no_other_and_is_worked_on_once(
    service: Fake, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on, begun = threading.Event(), list[str]()
    real = Directory.make

    def slow(self: Directory, name: str, size: int, **how: Any) -> Volume:
        begun.append(name)
        if name == begun[0]:
            assert go_on.wait(60.0)
        return real(self, name, size, **how)

    monkeypatch.setattr(Directory, "make", slow)
    with running(folder):
        registered(service)
        first = service.ask(MB)
        service.wait_for(lambda: bool(begun), "nothing was begun")
        others = [service.ask(MB) for _ in range(4)]
        for grant in others:
            service.wait_state(grant, "ready")
        assert service.state(first) == "making"
        go_on.set()
        service.wait_state(first, "ready")
    assert sorted(begun) == sorted(f"{grant}.0" for grant in (first, *others))


def test_a_release_that_comes_while_its_volume_is_made_waits_for_it(
    service: Fake, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on, order = threading.Event(), list[str]()
    make, release = Directory.make, Directory.release

    def slow(self: Directory, name: str, size: int, **how: Any) -> Volume:
        order.append("make")
        assert go_on.wait(60.0)
        made = make(self, name, size, **how)
        order.append("made")
        return made

    def noted(self: Directory, name: str) -> None:
        order.append("release")
        release(self, name)

    monkeypatch.setattr(Directory, "make", slow)
    monkeypatch.setattr(Directory, "release", noted)
    with running(folder):
        registered(service)
        grant = service.ask(MB)
        service.wait_for(lambda: bool(order), "nothing was begun")
        service.release(grant)
        asked = len(service.calls)
        service.wait_for(lambda: len(service.calls) > asked + 2, "the agent asks no more")
        go_on.set()
        service.wait_state(grant, "released")
    assert order == ["make", "made", "release"] and marks(folder) == []


def test_an_answer_that_makes_no_sense_does_not_end_the_agent(service: Fake, folder: Path) -> None:
    with running(folder):
        registered(service)
        real = service.answer
        service.answer = lambda *_: (200, {"actions": [{"colour": "red"}]})  # type: ignore[method-assign]
        asked = len(service.calls)
        service.wait_for(lambda: len(service.calls) > asked + 1, "the agent asks no more")
        service.answer = real  # type: ignore[method-assign]
        service.wait_state(service.ask(MB), "ready")


def test_a_stop_ends_soon(service: Fake, folder: Path) -> None:
    agent = Agent(read_agent(folder / "agent.toml"), lambda _: None)
    agent.start()
    registered(service)
    limited(lambda: agent.stop(10 * PATIENCE))
