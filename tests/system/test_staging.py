"""Files that real agents copy into and out of grants, as the owner, while processes are killed."""

from __future__ import annotations

import os
import random
import signal
import stat
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from forebay.act.control.client import Client, TurnedAway
from forebay.act.control.documents import GrantDocument, StagingDocument
from forebay.act.staging.copier import PIECE
from support.control_processes import MB, System, control_system
from support.processes import PATIENCE, wait_until
from support.users import ORDINARY

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root: files are copied as another user")
KINDS: dict[str, dict[str, Any]] = {"volumes": {}, "shared": {"type": "shared", "servers": 2}}


@pytest.fixture(scope="module")
def system() -> Iterator[System]:
    with control_system() as made:
        made.folder.chmod(0o755)
        for node in ("n1", "n2"):
            made.add_agent(node, "loop")
        made.start()
        yield made


@pytest.fixture
def outside(system: System) -> Iterator[Path]:
    """A folder of the user's, who can reach it."""
    with tempfile.TemporaryDirectory(dir=system.folder) as name:
        Path(name).chmod(0o755)
        made = Path(name) / "home"
        made.mkdir()
        own(made)
        yield made


def own(path: Path) -> None:
    for each in (path, *path.rglob("*")):
        os.chown(each, ORDINARY, ORDINARY, follow_symlinks=False)


@pytest.fixture(params=KINDS)
def grant(request: pytest.FixtureRequest, system: System) -> Iterator[GrantDocument]:
    with system.client() as client:
        *_, made = client.follow(client.request(40 * MB, "1h", uid=ORDINARY, gid=ORDINARY, **KINDS[request.param]))
        assert made["state"] == "ready", made
        yield made
        client.release(made["id"])
    wait_until(lambda: system.on_disks() == [], "a volume stays")
    folders = [system.folder / f"{node}-state" / "copies" for node in system.agents]
    wait_until(lambda: not any(any(f.iterdir()) for f in folders if f.exists()), "an agent keeps a journal")
    wait_until(lambda: find_processes(b"staging", system.folder) == [], "a process stays")


def make_tree(path: Path, files: int = 40) -> None:
    for number in range(files):
        folder = path / f"d{number % 5}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"f{number}").write_bytes(os.urandom(number * 50))
    (path / "large").write_bytes(os.urandom(PIECE + 12345))
    (path / "link").symlink_to("d1/f1")
    (path / "d1" / "f1").chmod(0o751)
    (path / "d2").chmod(0o750)
    os.utime(path / "d2", ns=(10**18, 10**18 + 7))
    own(path)


def tree(path: Path) -> dict[str, object]:
    """All that is in a folder: modes, times of last change, and content or where links lead."""
    found: dict[str, object] = {}
    for each in sorted(path.rglob("*")):
        seen, name = each.lstat(), str(each.relative_to(path))
        content = str(each.readlink()) if each.is_symlink() else each.read_bytes() if each.is_file() else None
        found[name] = content if each.is_symlink() else (stat.S_IMODE(seen.st_mode), seen.st_mtime_ns, content)
    return found


def stage(client: Client, grant: GrantDocument, way: str, *pairs: tuple[Path | str, Path | str]) -> StagingDocument:
    begun = client.stage(grant["id"], way, [(str(source), str(target)) for source, target in pairs])
    *_, last = client.follow_staging(begun, PATIENCE)
    assert last["staging"] is not None
    return last["staging"]


def test_a_tree_goes_in_and_out_with_modes_times_and_links(system: System, grant: GrantDocument, outside: Path) -> None:
    make_tree(outside / "in")
    with system.client() as client:
        assert stage(client, grant, "in", (outside / "in", "data/in"))["said"].startswith("staged in: 41 files, ")
        done = stage(client, grant, "out", ("data/in", outside / "out"), ("data/in/large", outside / "large"))
    assert (done["state"], done["because"]) == ("done", "")
    assert tree(outside / "out") == tree(outside / "in")
    assert (outside / "large").read_bytes() == (outside / "in" / "large").read_bytes()
    assert {each.lstat().st_uid for each in (outside / "out", *(outside / "out").rglob("*"))} == {ORDINARY}
    assert f"  {done['said']}" in system.command("show", grant["id"]).stdout


def test_what_cannot_be_copied_ends_with_the_reason_and_leaves_nothing(
    system: System, grant: GrantDocument, outside: Path
) -> None:
    make_tree(outside / "in", files=3)
    secret, full = outside / "secret", outside / "full"
    secret.write_text("only root may read this")
    secret.chmod(0o600)
    full.mkdir(0o700)
    (outside / "far").symlink_to("/etc")
    full.chmod(0o555)
    (outside / "big").write_bytes(bytes(60 * MB).replace(b"\0", b"x"))
    os.chown(outside / "big", ORDINARY, ORDINARY)
    with system.client() as client:
        assert stage(client, grant, "in", (outside / "in", "data"))["because"] == ""
        for way, pair, reason in (
            ("in", (secret, "x"), f"{secret}: permission denied"),
            ("in", (outside / "none", "x"), f"{outside}/none: no such file or directory"),
            ("in", (outside / "big", "x"), "no space left on device"),
            ("out", ("none", outside / "x"), "none: no such file or directory"),
            ("out", ("data/large", full / "x"), f"{full}/x: permission denied"),
            ("out", ("data/large", "/nowhere/x"), "/nowhere: no such file or directory"),
        ):
            failed = stage(client, grant, way, pair)
            assert failed["state"] == "failed" and reason in failed["because"], (reason, failed)
        with pytest.raises(TurnedAway, match="must be a path inside"):
            client.stage(grant["id"], "in", [("/etc/hostname", "../x")])
        assert stage(client, grant, "out", ("data", outside / "out"))["state"] == "done"
    assert tree(outside / "out") == tree(outside / "in")
    assert not any("forebay" in path.name for path in outside.rglob("*"))


def find_processes(name: bytes, folder: Path) -> list[int]:
    """The processes with this in their arguments that have a file below the folder open."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            opened = (str(file.readlink()) for file in (process / "fd").iterdir())
            if name in (process / "cmdline").read_bytes() and any(file.startswith(f"{folder}/") for file in opened):
                found.append(int(process.name))
    return found


def test_staging_goes_on_after_any_of_its_processes_is_killed(
    system: System, grant: GrantDocument, outside: Path
) -> None:
    chance = random.Random(7)
    make_tree(outside / "in", files=100)

    def kill_copier() -> None:
        for process in find_processes(b"forebay.act.staging.process", system.folder)[:1]:
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)

    def restart(process: str) -> None:
        victim = system.service if process == "service" else system.agents[process]
        victim.kill()
        victim.start()

    faults: list[Callable[[], None]] = [kill_copier, kill_copier, lambda: restart("n1"), lambda: restart("service")]
    chance.shuffle(faults)
    with system.client() as client:
        for way, pair in (("in", (str(outside / "in"), "data")), ("out", ("data", str(outside / "out")))):
            begun = client.stage(grant["id"], way, [pair], key=way)
            for fault in faults:
                time.sleep(chance.uniform(0.0, 0.4))  # seeded; whenever it comes, the result is the same
                fault()
            *_, last = client.follow_staging(client.grant(begun["id"]), PATIENCE)
            assert last["staging"] is not None
            assert last["staging"]["state"] == "done", last["staging"]["said"]
    assert tree(outside / "out") == tree(outside / "in")
    assert not any("forebay" in path.name for path in outside.rglob("*"))
