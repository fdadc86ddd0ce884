"""Platforms from files, and what is said of files that hold none."""

import math
from dataclasses import replace
from pathlib import Path

import pytest

from forebay.history.platforms import read_platform
from forebay.model.errors import BadInput
from forebay.model.reference_platforms import reference_platform
from forebay.model.system import Platform

DISK = '[[node.disk]]\ncapacity = "4 TB"\nwrite_bandwidth = "2.93 GB/s"\nread_bandwidth = "3.13 GB/s"\n'
NODE = '[[node]]\nnetwork_bandwidth = "100 Gbit/s"\n'
HOSTS = """\
hosts:
  - hostname: first
    ipv4: 10.0.0.1
    network_bw: 12.5 # GBps
    disks:
      - {vendor: INTEL, capacity: 4000, write_bandwidth: 2.93, read_bandwidth: 3.13, block_device: /dev/nvme0n1}
      - {vendor: INTEL, capacity: 4000, write_bandwidth: 2.93, read_bandwidth: 3.13, block_device: /dev/nvme1n1}
"""


def written(folder: Path, text: str, name: str = "platform.toml") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def refused(path: Path) -> tuple[str, str]:
    """The place, without the folder, and the reason."""
    with pytest.raises(BadInput) as raised:
        read_platform(path)
    assert "\n" not in str(raised.value)
    return raised.value.where.removeprefix(f"{path.parent}/"), raised.value.reason


def without_names(platform: Platform) -> list[object]:
    return [(n.network_bandwidth, [replace(d, fields={}) for d in n.disks]) for n in platform.nodes]


def test_a_toml_file_names_nodes_and_disks_with_units(tmp_path: Path) -> None:
    platform = read_platform(written(tmp_path, NODE + DISK))
    assert platform.name == "platform"
    (node,) = platform.nodes
    assert (node.name, platform.servers[0].name, node.network_bandwidth) == ("node-0", "S-0", 12.5e9)
    (disk,) = node.disks
    assert (disk.capacity, disk.write_bandwidth, disk.read_bandwidth) == (4 * 10**12, 2.93e9, 3.13e9)


def test_the_papers_platform_can_be_written_in_toml(tmp_path: Path) -> None:
    platform = read_platform(written(tmp_path, 'name = "mine"\n' + NODE + "count = 4\n" + DISK + "count = 2\n"))
    assert platform.name == "mine"
    assert [node.name for node in platform.nodes] == ["node-0-0", "node-0-1", "node-0-2", "node-0-3"]
    assert without_names(platform) == without_names(reference_platform("32TB/nNnD"))


def test_nodes_of_one_server_need_not_be_next_to_each_other(tmp_path: Path) -> None:
    def node(name: str, server: str) -> str:
        return NODE + f'name = "{name}"\nserver = "{server}"\n' + DISK

    platform = read_platform(written(tmp_path, node("a", "S-1") + node("b", "S-0") + node("c", "S-1")))
    assert [(s.name, [n.name for n in s.nodes]) for s in platform.servers] == [("S-1", ["a", "c"]), ("S-0", ["b"])]


def test_keys_of_ones_own_are_kept(tmp_path: Path) -> None:
    platform = read_platform(written(tmp_path, NODE + "rack = 7\n" + DISK + 'kind = "SSD"\ncount = 1\n'))
    assert dict(platform.nodes[0].fields) == {"rack": 7}
    assert dict(platform.disks[0].fields) == {"kind": "SSD"}


def test_no_limit_is_inf_in_toml_and_in_yaml(tmp_path: Path) -> None:
    text = (NODE + DISK).replace('"100 Gbit/s"', '"inf"').replace('"2.93 GB/s"', '"inf"')
    platform = read_platform(written(tmp_path, text))
    assert (platform.nodes[0].network_bandwidth, platform.disks[0].write_bandwidth) == (math.inf, math.inf)
    platform = read_platform(written(tmp_path, HOSTS.replace("12.5", ".inf"), "system.yml"))
    assert platform.nodes[0].network_bandwidth == math.inf


def test_storallocs_file_counts_in_gigabytes(tmp_path: Path) -> None:
    platform = read_platform(written(tmp_path, HOSTS, "system.yml"))
    assert (platform.name, platform.servers[0].name, platform.nodes[0].name) == ("system", "S-0", "first")
    assert platform.nodes[0].network_bandwidth == 12.5e9
    assert without_names(platform)[0] == without_names(reference_platform("32TB/nNnD"))[0]
    assert dict(platform.nodes[0].fields) == {"ipv4": "10.0.0.1"}
    assert dict(platform.disks[1].fields) == {"vendor": "INTEL", "block_device": "/dev/nvme1n1"}


def test_storallocs_single_disk_is_the_papers(tmp_path: Path) -> None:
    disk = "{capacity: 32000, write_bandwidth: 1.465, read_bandwidth: 1.565}"
    text = f"hosts: [{{hostname: a, network_bw: 12.5, disks: [{disk}]}}]"
    assert without_names(read_platform(written(tmp_path, text, "s.yaml"))) == without_names(
        reference_platform("32TB/1N1D")
    )


def test_storallocs_file_may_have_units_too(tmp_path: Path) -> None:
    text = HOSTS.replace("12.5", "100 Gbit/s").replace("4000", "4 TB").replace("2.93", "2930 MB/s")
    assert without_names(read_platform(written(tmp_path, text, "system.yaml"))) == without_names(
        read_platform(written(tmp_path, HOSTS, "system.yml"))
    )


def test_keys_like_ours_are_keys_of_ones_own_in_storallocs_file(tmp_path: Path) -> None:
    platform = read_platform(written(tmp_path, HOSTS.replace("ipv4: 10.0.0.1", "count: 3\n    disk: 1"), "s.yml"))
    assert len(platform.nodes) == 1
    assert dict(platform.nodes[0].fields) == {"count": 3, "disk": 1}


@pytest.mark.parametrize(
    ("old", "new", "key", "reason"),
    [
        ('"4 TB"', "4000", "node[0].disk[0].capacity", "needs a unit, like '4 TB', not 4000"),
        ('"4 TB"', '"4000"', "node[0].disk[0].capacity", "needs a unit, like '4 TB', not '4000'"),
        ('"4 TB"', "inf", "node[0].disk[0].capacity", "needs a unit, like '4 TB', not inf"),
        ('"4 TB"', '"inf"', "node[0].disk[0].capacity", "needs a unit, like '4 TB', not 'inf'"),
        ('"4 TB"', '"0 TB"', "node[0].disk[0].capacity", "must be at least 1 byte and at most 1e+18, not '0 TB'"),
        ('"4 TB"', '"-1 TB"', "node[0].disk[0].capacity", "must be at least 1 byte and at most 1e+18, not '-1 TB'"),
        ('"4 TB"', '"2e3 PB"', "node[0].disk[0].capacity", "must be at least 1 byte and at most 1e+18, not '2e3 PB'"),
        ('"4 TB"', "true", "node[0].disk[0].capacity", "must be text with a unit, like '4 TB', not True"),
        ('"4 TB"', "[4]", "node[0].disk[0].capacity", "must be text with a unit, like '4 TB', not a list"),
        ('"4 TB"', '"4 TB/s"', "node[0].disk[0].capacity", "'4 TB/s' has no unit of bytes; write it like"),
        ('capacity = "4 TB"', "", "node[0].disk[0].capacity", "is missing"),
        ('"2.93 GB/s"', '"2.93 GB"', "node[0].disk[0].write_bandwidth", "'2.93 GB' is not a bandwidth; write it like"),
        ('"2.93 GB/s"', "2.93", "node[0].disk[0].write_bandwidth", "needs a unit, like '2.5 GB/s', not 2.93"),
        ('"2.93 GB/s"', '"0 GB/s"', "node[0].disk[0].write_bandwidth", "must be positive and finite, not '0 GB/s'"),
        ('"2.93 GB/s"', '"nan"', "node[0].disk[0].write_bandwidth", "needs a unit, like '2.5 GB/s', not 'nan'"),
        ('read_bandwidth = "3.13 GB/s"', "", "node[0].disk[0].read_bandwidth", "is missing"),
        ('"100 Gbit/s"', '"100 Gbps"', "node[0].network_bandwidth", "'100 Gbps' is not a bandwidth; write it like"),
        ('"100 Gbit/s"', '"100 Gb/s"', "node[0].network_bandwidth", "'100 Gb/s' has no unit of bytes; write it like"),
        ('"100 Gbit/s"', "inf", "node[0].network_bandwidth", "needs a unit, like '2.5 GB/s', not inf"),
        ('network_bandwidth = "100 Gbit/s"', "", "node[0].network_bandwidth", "is missing"),
        ("capacity", "capacty", "node[0].disk[0].capacty", "is not a key; did you mean 'capacity'?"),
        ("network_band", "netwrk_band", "node[0].netwrk_bandwidth", "is not a key; did you mean 'network_bandwidth'?"),
        ("[[node.disk]]", "[[node.disks]]", "node[0].disks", "is not a key; did you mean 'disk'?"),
        ("[[node.disk]]", "[[node.drive]]", "node[0].disk", "is missing; add at least one"),
        ("[[node.disk]]", "[node.disk]", "node[0].disk", "must be a list of tables, not a table"),
        ("[[node]]", 'naem = "x"\n[[node]]', "naem", "is not a key of this file; did you mean 'name'?"),
        ("[[node]]", "owner = 1\n[[node]]", "owner", "is not a key of this file"),
        ("[[node]]", "name = 1\n[[node]]", "name", "must be text, not 1"),
        ("[[node]]", "[[node]]\nname = 1", "node[0].name", "must be text, not 1"),
        ("[[node]]", '[[node]]\nserver = ""', "node[0].server", "must be text, not ''"),
        ("[[node]]", "[[node]]\ncount = 0", "node[0].count", "must be a whole number from 1, not 0"),
        ("[[node]]", "[[node]]\ncount = 1.5", "node[0].count", "must be a whole number from 1, not 1.5"),
        ("[[node]]", "[[node]]\ncount = true", "node[0].count", "must be a whole number from 1, not True"),
        ("[[node]]", "[[node]]\ncount = 1_000_001", "node[0].count", "exceeds the limit of 1,000,000 disks"),
        ("[[node]]", f"[[node]]\ncount = 0x{'f' * 6000}", "node[0].count", "exceeds the limit of 1,000,000 disks"),
        ("[[node]]", "[[node]]\ncount = -5", "node[0].count", "must be a whole number from 1, not -5"),
        ("[[node.disk]]", "[[node.disk]]\ncount = 1e3", "node[0].disk[0].count", "must be a whole number from 1"),
    ],
)
def test_a_bad_value_in_toml_is_named_by_its_key(tmp_path: Path, old: str, new: str, key: str, reason: str) -> None:
    where, because = refused(written(tmp_path, (NODE + DISK).replace(old, new)))
    assert where == f"platform.toml: {key}"
    assert because.startswith(reason)


@pytest.mark.parametrize(
    ("old", "new", "place", "reason"),
    [
        ("4000", "0", "system.yml: hosts[0].disks[0].capacity", "must be at least 1 byte"),
        ("4000", "-4", "system.yml: hosts[0].disks[0].capacity", "must be at least 1 byte"),
        ("4000", ".nan", "system.yml: hosts[0].disks[0].capacity", "must be at least 1 byte"),
        ("4000", ".inf", "system.yml: hosts[0].disks[0].capacity", "must be at least 1 byte"),
        ("4000", "1" * 400, "system.yml: hosts[0].disks[0].capacity", "must be at least 1 byte"),
        ("4000", "'4000'", "system.yml: hosts[0].disks[0].capacity", "needs a unit, like '4 TB', not '4000'"),
        ("4000", "4 GB/s", "system.yml: hosts[0].disks[0].capacity", "'4 GB/s' has no unit of bytes"),
        ("4000", "yes", "system.yml: hosts[0].disks[0].capacity", "must be text with a unit"),
        ("4000", "2020-01-01", "system.yml: hosts[0].disks[0].capacity", "must be text with a unit"),
        ("4000", "", "system.yml: hosts[0].disks[0].capacity", "is missing"),
        ("2.93", ".nan", "system.yml: hosts[0].disks[0].write_bandwidth", "must be positive and finite, not nan"),
        ("2.93", "-.inf", "system.yml: hosts[0].disks[0].write_bandwidth", "must be positive and finite, not -inf"),
        ("2.93", "inf", "system.yml: hosts[0].disks[0].write_bandwidth", "needs a unit"),
        ("12.5", "100 Gbps", "system.yml: hosts[0].network_bw", "'100 Gbps' is not a bandwidth"),
        ("network_bw: 12.5", "", "system.yml: hosts[0].network_bw", "is missing"),
        ("hosts:", "machines:", "system.yml: hosts", "is missing; add at least one"),
        ("    disks:", "    drives:", "system.yml: hosts[0].disks", "is missing; add at least one"),
        ("hosts:", "hosts: 3\nother:", "system.yml: hosts", "must be a list of tables, not 3"),
        ("hostname: first", "hostname: [1]", "system.yml: hosts[0].hostname", "must be text, not a list"),
        ("disks:", "disks:\n      - 7", "system.yml: hosts[0].disks[0]", "must be a table of keys and values, not 7"),
        ("ipv4: 10.0.0.1", "ipv4: [", "system.yml:5", "is not YAML: did not find"),
        ("ipv4: 10.0.0.1", "ipv4: !!python/name:os.system x", "system.yml:3", "is not YAML: could not determine"),
        ("ipv4: 10.0.0.1", "ipv4: 2020-13-45", "system.yml", "is not YAML: month must be in 1..12"),
        ("ipv4: 10.0.0.1", f"ipv4: {'[' * 60}{']' * 60}", "system.yml:3", "is nested too deeply"),
        ("ipv4: 10.0.0.1", f"ipv4: {'[' * 300_000}", "system.yml:3", "is nested too deeply"),
        ("ipv4: 10.0.0.1", "ipv4: *nowhere", "system.yml:3", "is not YAML: found undefined alias"),
    ],
)
def test_a_bad_value_in_storallocs_file_is_named_by_its_key_or_line(
    tmp_path: Path, old: str, new: str, place: str, reason: str
) -> None:
    where, because = refused(written(tmp_path, HOSTS.replace(old, new, 1), "system.yml"))
    assert where == place
    assert because.startswith(reason)


def test_two_nodes_may_not_have_one_name(tmp_path: Path) -> None:
    twice = HOSTS + HOSTS.removeprefix("hosts:\n")
    reason = "another node is already named 'first'; rename one"
    assert refused(written(tmp_path, twice, "s.yml")) == ("s.yml: hosts[1].hostname", reason)
    counted = NODE + 'name = "a"\ncount = 2\n' + DISK + NODE + 'name = "a-1"\n' + DISK
    reason = "another node is already named 'a-1'; rename one"
    assert refused(written(tmp_path, counted)) == ("platform.toml: node[1].name", reason)


def test_counts_that_are_fine_one_by_one_are_too_many_together(tmp_path: Path) -> None:
    text = NODE + "count = 1_001\n" + DISK + "count = 1_000\n"
    assert refused(written(tmp_path, text)) == ("platform.toml: node[0].count", "exceeds the limit of 1,000,000 disks")
    text = NODE + DISK + "count = 1_000_000\n" + DISK
    assert refused(written(tmp_path, text)) == (
        "platform.toml: node[0].disk[1]",
        "exceeds the limit of 1,000,000 disks",
    )
    text = NODE + DISK + "count = 1_000_000\n" + NODE + DISK
    assert refused(written(tmp_path, text)) == (
        "platform.toml: node[1].disk[0]",
        "exceeds the limit of 1,000,000 disks",
    )


@pytest.mark.parametrize(
    ("text", "place", "reason"),
    [
        ("", "platform.toml: node", "is missing; add at least one"),
        ("a = 1\nb = ", "platform.toml:2", "is not TOML: Invalid value"),
        ("a = [1,\n", "platform.toml:2", "is not TOML: Invalid value"),
        (f"a = {'9' * 5000}", "platform.toml:1", "is not TOML: Exceeds the limit"),
        (f"a = {'[' * 5000}", "platform.toml", "is nested too deeply"),
    ],
)
def test_a_file_that_is_not_toml_is_named_with_the_line(tmp_path: Path, text: str, place: str, reason: str) -> None:
    where, because = refused(written(tmp_path, text))
    assert where == place
    assert because.startswith(reason)


@pytest.mark.parametrize("name", ["platform.toml", "system.yml", "system.yaml"])
def test_a_file_that_is_not_there_not_text_or_a_folder_is_named(tmp_path: Path, name: str) -> None:
    assert refused(tmp_path / name) == (name, "no such file or directory")
    (tmp_path / name).write_bytes(b"\xff\xfe\x00\x01\x80junk")
    assert refused(tmp_path / name)[0].startswith(name)
    folder = tmp_path / "folder" / name
    folder.mkdir(parents=True)
    assert refused(folder) == (name, "is a directory")


def test_an_empty_storalloc_file_has_no_host(tmp_path: Path) -> None:
    assert refused(written(tmp_path, "", "s.yml")) == ("s.yml: hosts", "is missing; add at least one")
    assert refused(written(tmp_path, "- 1", "s.yml")) == ("s.yml", "must be a table of keys and values, not a list")


def test_other_kinds_of_file_are_refused(tmp_path: Path) -> None:
    assert refused(written(tmp_path, "{}", "p.json")) == (
        "p.json",
        "must be a .toml file, or StorAlloc's .yml or .yaml",
    )
