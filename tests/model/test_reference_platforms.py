"""The platforms of the paper, and others of the same layouts."""

import pytest

from forebay.model.errors import UnknownName
from forebay.model.reference_platforms import LAYOUTS, NAMES, homogeneous, reference_platform

TERABYTE = 10**12


def test_there_are_four_capacities_of_four_layouts_and_a_heterogeneous_one() -> None:
    assert len(NAMES) == 17
    assert NAMES[0] == "8TB/nNnD"
    assert NAMES[-1] == "32TB/heterogeneous"


@pytest.mark.parametrize("name", NAMES)
def test_a_platform_has_the_capacity_of_its_name(name: str) -> None:
    platform = reference_platform(name)
    assert platform.name == name
    assert platform.capacity == int(name.split("TB")[0]) * TERABYTE
    assert [server.name for server in platform.servers] == ["S-0"]
    assert [node.name for node in platform.nodes] == [f"node-{i}" for i in range(len(platform.nodes))]


@pytest.mark.parametrize(("layout", "nodes", "disks"), [("nNnD", 4, 2), ("nN1D", 8, 1), ("1NnD", 1, 8)])
def test_eight_disks_are_spread_over_the_nodes(layout: str, nodes: int, disks: int) -> None:
    platform = reference_platform(f"16TB/{layout}")
    assert [len(node.disks) for node in platform.nodes] == [disks] * nodes
    assert {node.network_bandwidth for node in platform.nodes} == {12.5e9}
    assert {(d.capacity, d.write_bandwidth, d.read_bandwidth) for d in platform.disks} == {
        (2 * TERABYTE, 2.93e9, 3.13e9)
    }


def test_one_disk_has_the_whole_capacity_and_half_the_bandwidth() -> None:
    (disk,) = reference_platform("64TB/1N1D").disks
    assert (disk.capacity, disk.write_bandwidth, disk.read_bandwidth) == (64 * TERABYTE, 1.465e9, 1.565e9)


def test_the_heterogeneous_platform_has_fast_disks_first_and_says_of_each_what_it_is() -> None:
    platform = reference_platform("32TB/heterogeneous")
    assert [(node.network_bandwidth, len(node.disks)) for node in platform.nodes] == [(25e9, 5)] * 2 + [(12.5e9, 2)] * 4
    kinds = [disk.fields["kind"] for disk in platform.disks]
    assert kinds == ["SSD"] * 10 + ["HDD"] * 8
    assert {d.capacity for d in platform.disks[:10]} == {1_600 * 10**9}
    assert {(d.capacity, d.write_bandwidth, d.read_bandwidth) for d in platform.disks[10:]} == {
        (2 * TERABYTE, 0.05e9, 0.1e9)
    }


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_layout_can_have_any_capacity(layout: str) -> None:
    platform = homogeneous("mine", layout, 24 * TERABYTE)
    assert (platform.name, platform.capacity) == ("mine", 24 * TERABYTE)
    assert len(platform.disks) == (1 if layout == "1N1D" else 8)


def test_what_eight_disks_cannot_share_evenly_is_left() -> None:
    assert homogeneous("mine", "nNnD", 8 * TERABYTE + 7).capacity == 8 * TERABYTE


def test_no_disk_is_smaller_than_a_byte() -> None:
    with pytest.raises(ValueError, match="capacity must be at least 1 byte"):
        homogeneous("mine", "nNnD", 7)


def test_unknown_names_come_with_the_nearest_one() -> None:
    with pytest.raises(UnknownName, match=r"no platform '32TB/nNn'; did you mean '32TB/nNnD'\?"):
        reference_platform("32TB/nNn")
    with pytest.raises(UnknownName, match="no layout '2N2D'"):
        homogeneous("mine", "2N2D", TERABYTE)
