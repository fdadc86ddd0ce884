"""Kinds of volumes and ways to expose them, by the names in a storage node's configuration."""

from collections.abc import Callable
from pathlib import Path

from forebay.act.volumes.btrfs import Btrfs
from forebay.act.volumes.data_server import DataServers
from forebay.act.volumes.directory import Directory
from forebay.act.volumes.exposure import Exposer, Exposures
from forebay.act.volumes.loop import Loop
from forebay.act.volumes.lvm import Lvm
from forebay.act.volumes.nbd import NbdExposer
from forebay.act.volumes.nvme import NvmeExposer, Nvmet
from forebay.act.volumes.volume_lifecycle import Volumes, ignore_step
from forebay.model.errors import BadInput, UnknownName
from forebay.model.grant import SHARED

KINDS = ("directory", "loop", "btrfs", "lvm", "nvmet")


def open_volumes(kind: str, root: Path, *, fs: str = "ext4", group: str = "", local: bool = True) -> Volumes:
    """Open the volumes of one disk; `group` is the volume group of lvm and nvmet.

    Unless `local`, images and logical volumes stay unmounted, to be exposed.
    """
    if kind not in KINDS:
        raise UnknownName("kind of volumes", kind, KINDS)
    if kind in ("lvm", "nvmet") and not group:
        raise BadInput(f"{kind} volumes", "need the name of a volume group; set `group`")
    match kind:
        case "directory":
            return Directory(root=root)
        case "btrfs":
            return Btrfs(root=root)
        case "loop":
            return Loop(root=root, fs=fs, local=local)
        case "lvm":
            return Lvm(root=root, fs=fs, group=group, local=local)
    return Nvmet(root=root, fs=fs, group=group)


def open_exposures(
    folder: Path, *, address: str = "127.0.0.1", after: Callable[[str], None] = ignore_step
) -> Exposures:
    """Open the exposures of the node at `address`; `folder` keeps their plans and keys."""
    nbd = NbdExposer(folder=folder, address=address, after=after)
    nvmet = NvmeExposer(folder=folder, address=address, after=after)
    exposers: dict[str, Exposer] = {"nbd": nbd, "nvmet": nvmet, SHARED: DataServers(address)}
    return Exposures(folder=folder, exposers=exposers, after=after)
