"""An I/O node in front of a real CephFS: every request goes to the server that its layout names, through the mount."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from forebay.act.forward.bench.client_processes import LayerAccess, Task, run_task
from forebay.act.forward.bench.workload import PATTERNS, Pattern, Workload
from support.cephfs import OSDS, CephFS, cephfs
from support.fio import fio, needs_fio
from support.forward_processes import Layer, layer

__all__ = ["cephfs"]
STRIPE = 65536


@pytest.fixture(scope="module")
def running(cephfs: CephFS) -> Iterator[tuple[Layer, Path]]:
    folder = cephfs.striped(size=STRIPE, count=OSDS)
    with layer() as made:
        made.add_nodes(
            1, "--root", str(folder), "--layout-from", "ceph", "--servers", str(OSDS), "--scheduler", "twins"
        )
        made.nodes[0].start()
        yield made, folder


@pytest.mark.parametrize("pattern", PATTERNS)
def test_what_processes_write_through_the_node_is_in_cephfs(running: tuple[Layer, Path], pattern: Pattern) -> None:
    made, folder = running
    workload = Workload(processes=4, pattern=pattern, request=100_000, total=8_000_000)
    task = Task(workload=workload, doings=("write", "read"), name=pattern, seed=1, sync=True)
    run_task(task, LayerAccess(made.addresses, made.key))
    assert sum(file.stat().st_size for file in folder.glob(f"{pattern}.*")) == workload.bytes


def test_files_have_the_layout_of_their_folder_in_cephfs(running: tuple[Layer, Path]) -> None:
    made, folder = running
    data = os.urandom(3 * STRIPE + 17)
    with made.client() as client, client.open("/laid-out", os.O_RDWR | os.O_CREAT) as file:
        file.pwrite(data, 0)
        file.fsync()
        assert (file.layout.count, file.layout.size) == (OSDS, STRIPE)
    assert (folder / "laid-out").read_bytes() == data
    assert b"stripe_unit=65536 stripe_count=4" in os.getxattr(folder / "laid-out", "ceph.file.layout")


def test_what_is_in_cephfs_already_is_read_through_the_node(running: tuple[Layer, Path]) -> None:
    made, folder = running
    data = os.urandom(500_000)
    (folder / "before").write_bytes(data)
    with made.client() as client, client.open("/before") as file:
        assert file.pread(1_000_000, 0) == data
        assert client.stat("/before").size == len(data)


def test_names_are_those_of_cephfs(running: tuple[Layer, Path]) -> None:
    made, folder = running
    with made.client() as client:
        client.mkdir("/d")
        client.open("/d/a", os.O_WRONLY | os.O_CREAT).close()
        client.rename("/d/a", "/d/b")
        assert [path.name for path in (folder / "d").iterdir()] == ["b"]
        client.unlink("/d/b")
        client.rmdir("/d")
    assert not (folder / "d").exists()


def test_fio_finds_what_it_wrote_to_cephfs_through_mount_and_node(running: tuple[Layer, Path]) -> None:
    needs_fio()
    made, _ = running
    part, point = made.add_mount()
    part.start()
    try:
        found = fio(point, rw="randwrite", bs="4k-300k", size="8m", numjobs=2, verify="crc32c", verify_fatal=1)
    finally:
        part.stop()
    assert found["read"]["io_bytes"] > 0


def test_every_layer_has_a_folder_of_its_own(cephfs: CephFS) -> None:
    """A module whose tests run in two goes sets up its layer twice, on one cluster."""
    assert cephfs.striped() != cephfs.striped()
