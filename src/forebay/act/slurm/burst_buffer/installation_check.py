"""Is everything there that burst buffers need?"""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from forebay.act.command import CommandFailed, run
from forebay.act.control.client import Client
from forebay.act.slurm.burst_buffer.installation import BURST_BUFFER, SETTINGS
from forebay.model.errors import UserError
from forebay.model.units import format_size

_MODULES = 'require "socket.core" require "socket.unix" require "cjson"'


@dataclass(frozen=True, slots=True)
class Seen:
    """One thing that was looked at."""

    what: str
    fine: bool
    words: str


def look(folder: Path, client: Client) -> list[Seen]:
    service = _service(client)
    pools = _tiers(client) if service.fine else Seen("pools", False, "not asked")
    return [_files(folder), _conf(folder), _modules(), service, pools]


def _files(folder: Path) -> Seen:
    missing = [name for name in (*BURST_BUFFER, SETTINGS, "burst_buffer.conf") if not (folder / name).is_file()]
    return Seen("files", not missing, f"missing: {', '.join(missing)}" if missing else "all there")


def _conf(folder: Path) -> Seen:
    try:
        text = (folder / "slurm.conf").read_text("utf-8", "replace")
    except OSError as error:
        return Seen("slurm.conf", False, f"can't be read: {error.strerror}")
    named = re.search(r"^\s*BurstBufferType\s*=\s*burst_buffer/lua\s*$", text, re.MULTILINE | re.IGNORECASE)
    return Seen("slurm.conf", named is not None, "BurstBufferType=burst_buffer/lua" + ("" if named else " is missing"))


def _modules() -> Seen:
    """By a Lua interpreter, if there is one; Slurm has its own in a library, which finds the same modules."""
    lua = shutil.which("lua5.1") or shutil.which("lua5.3") or shutil.which("lua")
    if lua is None:
        return Seen("Lua modules", True, "not looked at: no lua command to do it with")
    try:
        run((lua, "-e", _MODULES), timeout=10.0)
    except CommandFailed as error:
        return Seen("Lua modules", False, f"lua-socket and lua-cjson are needed: {error}")
    return Seen("Lua modules", True, "lua-socket and lua-cjson are there")


def _service(client: Client) -> Seen:
    try:
        health = client.health()
    except UserError as error:
        return Seen("service", False, str(error))
    return Seen("service", health["status"] == "ready", f"{health['status']}, policy {health['policy']}")


def _tiers(client: Client) -> Seen:
    try:
        tiers = client.tiers()
    except UserError as error:
        return Seen("pools", False, str(error))
    words = [f"{tier['name']} {format_size(tier['free'])} free of {format_size(tier['total'])}" for tier in tiers]
    return Seen("pools", any(tier["total"] for tier in tiers), "; ".join(words))
