"""What an agent does for one action, over real folders and means to expose that fail at will."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import ClassVar

import pytest

from forebay.act.control.agent.actions import Node, read_action
from forebay.act.control.agent.disk import AgentDisk
from forebay.act.volumes.directory import Directory
from forebay.act.volumes.exposure import Exposure, Exposures
from forebay.act.volumes.loop import Loop
from forebay.act.volumes.volume import Volume, VolumeFailed
from forebay.decide.grants.machine import Action
from forebay.model.errors import UserError

NAME = "0123456789abcdef" * 2 + ".0"
UID = os.geteuid()
MAKE = Action(kind="make", volume=NAME, disk="d0", size=1000, uid=UID, gid=UID)
RELEASE = replace(MAKE, kind="release")
EXPOSE = replace(MAKE, expose="wire", hosts=("h1",))


@dataclass
class Wire:
    """Means that serve by remembering; `broken` ones don't start."""

    mounted: ClassVar[bool] = False
    broken: bool = False
    serving: set[str] = field(default_factory=set)

    def plan(self, made: Volume, hosts: tuple[str, ...]) -> Exposure:
        return Exposure(name=made.name, kind="wire", source=str(made.path), hosts=hosts, settings={"door": "7"})

    def start(self, plan: Exposure) -> None:
        if self.broken:
            raise VolumeFailed("the wire is cut")
        self.serving.add(plan.name)

    def stop(self, name: str) -> None:
        self.serving.discard(name)

    def serves(self, plan: Exposure) -> bool:
        return plan.name in self.serving


class Bare(Directory):
    """Volumes that are left unmounted: files, as images are."""

    def _create(self, record: object) -> None:
        self.path(record.name).touch()  # type: ignore[attr-defined]

    def _up(self, record: object) -> None: ...

    def _is_up(self, _record: object) -> bool:
        return True

    def _clear(self, record: object) -> None:
        self.path(record.name).unlink(missing_ok=True)  # type: ignore[attr-defined]

    def _down(self, record: object) -> None: ...

    def _held(self, _record: object) -> int:
        return 0


def node_of(root: Path, wire: Wire, *, expose: str = "none") -> Node:
    (root / "disk").mkdir(mode=0o711, exist_ok=True)
    kind = Directory if expose == "none" else Bare
    disk = AgentDisk(
        name="d0", volumes=kind(root=root / "disk"), read_bandwidth=1e9, write_bandwidth=1e9, expose=expose
    )
    return Node(disks={"d0": disk}, exposures=Exposures(folder=root / "exposed", exposers={"wire": wire}))


@pytest.fixture
def wire() -> Wire:
    return Wire()


def there(node: Node) -> list[str]:
    return [made.name for made in node.disks["d0"].volumes.find()]


def test_a_volume_is_made_and_told_and_the_same_again(tmp_path: Path, wire: Wire) -> None:
    node = node_of(tmp_path, wire)
    first = node.do(MAKE)
    assert first == node.do(MAKE)
    where = {"path": str(tmp_path / "disk" / NAME), "device": "", "settings": {}}
    assert first.model_dump(exclude_unset=True) == {"kind": "made", "volume": NAME, "disk": "d0", **where}


def test_an_exposed_one_has_settings_and_no_path(tmp_path: Path, wire: Wire) -> None:
    node = node_of(tmp_path, wire, expose="wire")
    told = node.do(EXPOSE)
    assert (told.kind, told.path, told.settings) == ("made", "", {"door": "7"})
    assert wire.serving == {NAME}


def test_a_release_withdraws_first_and_again_is_harmless(tmp_path: Path, wire: Wire) -> None:
    node = node_of(tmp_path, wire, expose="wire")
    node.do(EXPOSE)
    for _ in range(2):
        assert node.do(RELEASE).model_dump(exclude_unset=True) == {"kind": "gone", "volume": NAME, "disk": "d0"}
    assert not wire.serving and there(node) == [] and node.exposures.list() == []


def test_an_exposure_that_fails_leaves_no_new_volume_behind(tmp_path: Path, wire: Wire) -> None:
    wire.broken = True
    node = node_of(tmp_path, wire, expose="wire")
    told = node.do(EXPOSE)
    assert (told.kind, told.because) == ("failed", "the wire is cut")
    assert there(node) == []


def test_an_exposure_that_fails_for_what_has_data_keeps_it_and_is_an_error(tmp_path: Path, wire: Wire) -> None:
    node = node_of(tmp_path, wire, expose="wire")
    node.do(EXPOSE)
    wire.serving.clear()
    wire.broken = True
    with pytest.raises(UserError, match="the wire is cut"):
        node.do(EXPOSE)
    assert there(node) == [NAME]


def test_what_nobody_serves_any_more_is_only_half_there(tmp_path: Path, wire: Wire) -> None:
    node = node_of(tmp_path, wire, expose="wire")
    node.do(EXPOSE)
    disk = node.disks["d0"]
    assert disk.find_volumes(node.exposures)[0].state == "whole"
    wire.serving.clear()
    assert disk.find_volumes(node.exposures)[0].state == "half"
    node.do(EXPOSE)
    assert disk.find_volumes(node.exposures)[0].model_dump() | {"size": 0, "since": 0} == {
        "name": NAME, "disk": "d0", "size": 0, "state": "whole", "path": "", "device": "", "settings": {"door": "7"},
        "uid": EXPOSE.uid, "gid": EXPOSE.gid, "mode": EXPOSE.mode, "ceiling": 0.0, "since": 0,
    }  # fmt: skip


def test_one_that_was_made_but_not_exposed_when_the_agent_died_is_half(tmp_path: Path, wire: Wire) -> None:
    node = node_of(tmp_path, wire, expose="wire")
    node.disks["d0"].volumes.make(NAME, 1000, uid=UID, gid=UID)
    assert node.disks["d0"].find_volumes(node.exposures)[0].state == "half"


@pytest.mark.parametrize(
    ("action", "says"),
    [
        (replace(MAKE, disk="d9"), "no disk 'd9'"),
        (replace(MAKE, size=0), "size must be from 1 byte"),
        (replace(MAKE, volume="../etc"), "is not a volume name"),
        (EXPOSE, "its volumes are mounted on the node; wire is not possible there"),
    ],
)
def test_what_can_not_be_made_is_told_in_words(tmp_path: Path, wire: Wire, action: Action, says: str) -> None:
    node = node_of(tmp_path, wire)
    told = node.do(action)
    assert told.kind == "failed" and says in told.because
    assert there(node) == []


def test_a_plain_volume_is_not_made_where_all_are_exposed(tmp_path: Path, wire: Wire) -> None:
    told = node_of(tmp_path, wire, expose="wire").do(MAKE)
    assert told.because == "disk d0: its volumes are exposed by wire; none is not possible there"


def test_a_release_of_what_is_not_ours_by_name_is_an_error_and_touches_nothing(tmp_path: Path, wire: Wire) -> None:
    node = node_of(tmp_path, wire)
    (tmp_path / "disk" / "precious").mkdir()
    with pytest.raises(UserError, match="is not a volume name"):
        node.do(replace(RELEASE, volume="precious"))
    assert (tmp_path / "disk" / "precious").is_dir()


def test_an_action_with_words_of_a_later_version_is_understood() -> None:
    document = {
        "kind": "make",
        "volume": NAME,
        "disk": "d0",
        "size": 1000,
        "hosts": ["h"],
        "colour": "red",
        "mode": None,
    }
    assert read_action(document) == Action(kind="make", volume=NAME, disk="d0", size=1000, hosts=("h",))


def test_a_capacity_above_what_is_usable_is_not_told(tmp_path: Path) -> None:
    disk = AgentDisk(name="d", volumes=Loop(root=tmp_path), read_bandwidth=1.0, write_bandwidth=1.0, capacity=2**59)
    assert 0 < disk.describe().capacity <= Loop(root=tmp_path).usable()
