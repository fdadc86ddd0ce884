"""Images so large that the volume is handed over before all of their space is set aside."""

import os
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from forebay.act.volumes.loop import Loop
from forebay.act.volumes.volume import VolumeFailed
from support.processes import limited
from support.volumes import GROUP, MIB, NAME, USER, LoopDisk, free_bytes, loops_below, sh, small_loop_disk

SIZE = 32 * MIB


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[LoopDisk]:
    with small_loop_disk(tmp_path / "disk") as made:
        yield made


class Steps:
    """Told of each step: does what is given for its word (its first, or a stage), and says when all is `finished`."""

    def __init__(self, **does: Callable[[], object]) -> None:
        self.finished = threading.Event()
        self._does = {"finish": self.finished.set, **does}

    def __call__(self, step: str) -> None:
        self._does.get(step.rpartition(": ")[2].split()[0], bool)()


def slow(disk: LoopDisk, after: Callable[[str], None]) -> Loop:
    """Sets nothing aside before the volume is handed over."""
    return Loop(root=disk.root, at_once=0.0, piece=4 * MIB, after=after)


def sparse(disk: LoopDisk) -> bool:
    image = (disk.root / ".forebay" / f"{NAME}.image").stat()
    return image.st_blocks * 512 < image.st_size


def fill(disk: LoopDisk) -> None:
    sh("sh", "-c", f"cat /dev/zero > {disk.root}/greedy || true")


def test_the_rest_is_set_aside_while_the_volume_is_used_and_granted_to_nobody_else(disk: LoopDisk) -> None:
    handed_over = threading.Event()
    steps = Steps(reserve=lambda: handed_over.wait(60))
    volumes = slow(disk, steps)
    in_all = volumes.usable()
    made = volumes.make(NAME, SIZE, uid=USER, gid=GROUP)
    assert made.state == "whole"
    assert sparse(disk)
    assert volumes.find() == [made]
    assert abs(volumes.usable() - in_all) <= MIB
    assert free_bytes(volumes) <= in_all - SIZE * 0.95
    (made.path / "early").write_text("42")
    handed_over.set()
    assert steps.finished.wait(60)
    assert not sparse(disk)
    (made.path / "early").unlink()
    fill(disk)
    with (made.path / "result").open("wb") as file:
        file.write(bytes(SIZE))
        file.flush()
        os.fsync(file.fileno())
    assert Loop(root=disk.root).find() == [made]


def test_an_agent_killed_half_way_goes_on_at_its_next_start_and_nothing_is_lost(disk: LoopDisk) -> None:
    child = os.fork()
    if not child:
        slow(disk, Steps(reserve=lambda: os.kill(os.getpid(), signal.SIGKILL))).make(NAME, SIZE, uid=USER, gid=GROUP)
        signal.pause()
    assert limited(lambda: os.waitpid(child, 0))[1] == signal.SIGKILL
    steps = Steps()
    volumes = slow(disk, steps)
    [found] = volumes.find()
    assert found.state == "half"
    assert sparse(disk)
    (found.path / "result").write_text("42")
    assert volumes.make(NAME, SIZE, uid=USER, gid=GROUP).state == "whole"
    assert steps.finished.wait(60)
    assert not sparse(disk)
    assert (found.path / "result").read_text() == "42"
    assert len(loops_below(disk.root)) == 1


def test_a_release_half_way_leaves_nothing(disk: LoopDisk) -> None:
    released = threading.Event()
    volumes = slow(disk, Steps(reserve=lambda: released.wait(60), releasing=released.set))
    volumes.make(NAME, SIZE, uid=USER, gid=GROUP)
    assert sparse(disk)
    volumes.release(NAME)
    assert disk.left() == []
    assert "reservation" not in [thread.name for thread in threading.enumerate()]


def test_a_disk_that_others_fill_first_breaks_the_volume_for_good_and_says_why(disk: LoopDisk) -> None:
    full = threading.Event()
    volumes = slow(disk, Steps(reserve=lambda: full.wait(60)))
    made = volumes.make(NAME, SIZE, uid=USER, gid=GROUP)
    fill(disk)
    full.set()
    for thread in threading.enumerate():
        if thread.name == "reservation":
            thread.join(60)
    assert volumes.find()[0].state == "half"
    with pytest.raises(OSError, match="nput/output error"):
        (made.path / "result").write_text("42")
    for _ in range(2):
        with pytest.raises(VolumeFailed, match="cannot reserve its space: no space left on device"):
            volumes.make(NAME, SIZE, uid=USER, gid=GROUP)
        (disk.root / "greedy").unlink(missing_ok=True)  # too late: what was written meanwhile may be lost
    volumes.release(NAME)
    assert disk.left() == []
    assert volumes.make(NAME, SIZE, uid=USER, gid=GROUP).state == "whole"


def test_an_image_larger_than_the_disk_can_have_files_is_told_and_leaves_nothing(
    disk: LoopDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Loop, "_free_bytes", lambda _: 1 << 50)
    with pytest.raises(VolumeFailed, match=r"\.image: file too large"):
        Loop(root=disk.root).make(NAME, 17 << 40, uid=USER, gid=GROUP)
    assert disk.left() == []
