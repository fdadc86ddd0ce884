"""The mounts of a node, as their records describe them."""

import json
from dataclasses import asdict
from pathlib import Path

from forebay.act.volumes.shared_mount import RECORD, MountRecord, SharedMount, list_mounts_of_job


def record_mount(folder: Path, grant: str, **fields: str) -> SharedMount:
    mount = SharedMount(folder / grant)
    record = MountRecord(grant=grant, path=str(mount.path), servers=(), everybody=True, uid=1, gid=1, **fields)
    mount.folder.mkdir()
    (mount.folder / RECORD).write_text(json.dumps(asdict(record)))
    return mount


def test_the_mounts_of_a_job_are_those_of_its_own_service(tmp_path: Path) -> None:
    # Two clusters may share a node, and both have a job 1.
    own = record_mount(tmp_path, "a", job="1", service="unix:/one")
    record_mount(tmp_path, "b", job="1", service="unix:/other")
    record_mount(tmp_path, "c", job="2", service="unix:/one")
    assert list_mounts_of_job(tmp_path, "1", "unix:/one") == [own]
