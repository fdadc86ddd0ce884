"""Writes the files that Slurm reads beside slurm.conf, without overwriting the site's changes, and checks them."""

from __future__ import annotations

import difflib
import re
import shlex
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from forebay.act.command import CommandFailed, run
from forebay.act.files import write_file
from forebay.act.slurm.burst_buffer.staging import KEPT
from forebay.act.slurm.jobs.prolog import NAMES
from forebay.model.errors import BadInput, UserError, name_errors
from forebay.model.units import format_size

if TYPE_CHECKING:
    from forebay.act.control.client import Client

BURST_BUFFER = ("forebay.lua", "burst_buffer.lua")
JOB_SUBMIT = ("forebay_submit.lua", "job_submit.lua")
SCRIPTS = {"PrologSlurmctld": "prolog.sh", "EpilogSlurmctld": "epilog.sh", "TaskProlog": "task_prolog.sh"}
SETTINGS = "forebay_settings.lua"
JOBS = "forebay_jobs"  # the folder in slurmctld's state folder where the hooks keep notes on jobs
_CLUSTER = re.compile(r"[A-Za-z0-9_-]{1,40}")
_DURATIONS = ("time", "margin", "queue", "wait", "patience")
_LONGEST = 24 * 86400.0  # the maximum time that Slurm waits for a script, in seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Hooks:
    """How the hooks reach the service and how long they wait. Times are in seconds.

    `command` starts `forebay`. `conf` is slurm.conf, "" if Slurm finds it itself. `state` is slurmctld's state folder,
    where the hooks keep what they need if the service does not answer. A job without a time limit gets its space for
    `time`. Each job gets `margin` more for stage-out, and `queue` more until it starts. A job waits up to `wait` for
    space, and up to `patience` for a service that does not answer.
    """

    service: str
    cluster: str
    command: str
    conf: str = ""
    state: str = ""
    token: str = ""
    time: float = 86400.0
    margin: float = 3600.0
    queue: float = 3600.0
    wait: float = 600.0
    patience: float = 60.0

    def __post_init__(self) -> None:
        if not _CLUSTER.fullmatch(self.cluster):
            raise BadInput("--cluster", f"must be Slurm's ClusterName, not {self.cluster[:40]!r}")
        for name, path in (("--service", self.socket), ("--token", self.token), ("StateSaveLocation", self.state)):
            if path and (not path.startswith("/") or not path.isprintable()):
                raise BadInput(name, f"must be an absolute path, not {path!r}")
        for name in _DURATIONS:
            if not 0 <= getattr(self, name) <= _LONGEST:
                raise BadInput(f"--{name}", f"must be from 0 to {_LONGEST / 86400:g} days")

    @property
    def socket(self) -> str:
        """The service's socket. The hooks run on the same machine as the service."""
        from forebay.act.control.client import parse_service

        path = parse_service(self.service, "--service").socket
        if not path:
            raise BadInput("--service", "the hooks need the service's socket: unix:/PATH")
        return path


def burst_buffer_files(hooks: Hooks, *, job_submit: bool = True) -> dict[str, str]:
    """Return all files for burst buffers, by name, each after the files that it needs: Slurm may read them any time."""
    folder = files("forebay.act.slurm.burst_buffer") / "lua"
    names = (*BURST_BUFFER, *(JOB_SUBMIT if job_submit else ()))
    scripts = {name: (folder / name).read_text("utf-8") for name in names}
    return {SETTINGS: format_settings(hooks), "burst_buffer.conf": format_conf(hooks), **scripts}


def format_settings(hooks: Hooks) -> str:
    """Format the settings as a Lua table."""
    state = hooks.state.rstrip("/")
    texts = {
        "socket": hooks.socket,
        "token": hooks.token,
        "cluster": hooks.cluster,
        "command": hooks.command,
        "conf": hooks.conf,
        "cache": f"{state}/forebay_pools.json" if state else "",
        "jobs": f"{state}/{JOBS}" if state else "",
        "kept": KEPT,
    }
    values = {name: quote_lua(text) for name, text in texts.items()}
    values |= {name: f"{getattr(hooks, name):g}" for name in _DURATIONS}
    lines = "".join(f"  {name} = {value},\n" for name, value in values.items())
    return f"-- Written by `forebay slurm install`; times in seconds.\nreturn {{\n{lines}}}\n"


def quote_lua(text: str) -> str:
    r"""
    >>> print(quote_lua('a "b" \\ c'))
    "a \"b\" \\ c"
    """
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def format_conf(hooks: Hooks) -> str:
    """Format Slurm's settings for burst buffers, whose timeouts must be longer than ours."""
    other = int(3 * max(hooks.wait, hooks.patience) + 2 * hooks.patience + 120)
    return f"""\
# Written by `forebay slurm install`; times in seconds.
Directive=BB_LUA
Flags=DisablePersistent,TeardownFailure
OtherTimeout={other}
StageInTimeout={int(_LONGEST)}
StageOutTimeout={int(_LONGEST)}
"""


def fill_scripts(command: str, config: Path, folder: Path, log: Path, conf: str = "") -> dict[str, str]:
    """Return the scripts that run `command` with `config`. `folder` is its `jobs.folder`; `log` is their log file."""
    values = {"CONFIG": str(config), "FOLDER": str(folder), "LOG": str(log), "CONF": conf}
    marks = {f"@{name}@": shlex.quote(value) for name, value in values.items()}
    marks |= {"@FOREBAY@": command, "@NAMES@": " ".join(NAMES)}
    folder_of_scripts = files("forebay.act.slurm.jobs") / "sh"
    hook, *texts = ((folder_of_scripts / name).read_text("utf-8") for name in ("hook.sh", *SCRIPTS.values()))
    scripts = {}
    for name, text in zip(SCRIPTS.values(), texts, strict=True):
        whole = text.replace("@HOOK@\n", hook.replace("@NAME@", name.removesuffix(".sh")))
        scripts[name] = re.sub(r"@[A-Z]+@", lambda mark: marks[mark[0]], whole)
    return scripts


def conf_lines(folder: Path, *, job_submit: bool, jobs: bool) -> list[str]:
    """Return the lines that slurm.conf must contain."""
    return [
        "BurstBufferType=burst_buffer/lua",
        *(["JobSubmitPlugins=lua"] if job_submit else []),
        *([f"{name}={folder / file}" for name, file in SCRIPTS.items()] if jobs else []),
    ]


@dataclass(frozen=True, slots=True)
class PlannedFile:
    """A file to write in place of the `existing` one, or None."""

    path: Path
    text: str
    existing: str | None

    @property
    def state(self) -> Literal["new", "same", "other"]:
        return "new" if self.existing is None else "same" if self.existing == self.text else "other"

    def difference(self) -> Iterator[str]:
        """Yield the lines that differ from the existing file."""
        before, after = (self.existing or "").splitlines(), self.text.splitlines()
        return difflib.unified_diff(before, after, str(self.path), "to be written", lineterm="", n=0)

    def write(self) -> None:
        """Write the file atomically, so that slurmctld never reads half of it."""
        write_file(self.path, self.text, 0o755 if self.path.suffix == ".sh" else 0o644)


def plan_files(folder: Path, texts: Mapping[str, str]) -> list[PlannedFile]:
    if not folder.is_dir():
        raise BadInput(str(folder), "is not a folder; give the folder with slurm.conf")
    planned = []
    for path, text in ((folder / name, text) for name, text in texts.items()):
        with name_errors(path):
            planned.append(PlannedFile(path, text, path.read_text("utf-8", "replace") if path.exists() else None))
    return planned


def read_conf(folder: Path, name: str) -> str:
    """Return the last value of a name in slurm.conf, or ""."""
    try:
        text = (folder / "slurm.conf").read_text("utf-8", "replace")
    except OSError:
        return ""
    values = re.findall(rf"^\s*{name}\s*=\s*([^\s#]+)", text, re.MULTILINE | re.IGNORECASE)
    return str(values[-1]) if values else ""


@dataclass(frozen=True, slots=True)
class Check:
    """A check of an installation, and its result."""

    what: str
    fine: bool
    message: str


def check_installation(folder: Path, client: Client) -> list[Check]:
    """Check everything that burst buffers need."""
    if not folder.is_dir():
        raise BadInput(str(folder), "no such folder; name the one with slurm.conf")
    missing = [name for name in (*BURST_BUFFER, SETTINGS, "burst_buffer.conf") if not (folder / name).is_file()]
    kind, is_set = "burst_buffer/lua", read_conf(folder, "BurstBufferType").lower() == "burst_buffer/lua"
    return [
        Check("files", not missing, f"missing: {', '.join(missing)}" if missing else "complete"),
        Check("slurm.conf", is_set, f"BurstBufferType={kind}" if is_set else f"BurstBufferType={kind} is missing"),
        _check_modules(),
        *_check_service(client),
    ]


def _check_modules() -> Check:
    """Check with a Lua interpreter, if one is installed: Slurm's Lua library finds the same modules."""
    lua = shutil.which("lua5.1") or shutil.which("lua5.3") or shutil.which("lua")
    if lua is None:
        return Check("Lua modules", True, "not checked: the lua command is not installed")
    try:
        run((lua, "-e", 'require "socket.core" require "socket.unix" require "cjson"'), timeout=10.0)
    except CommandFailed as error:
        return Check("Lua modules", False, f"install lua-socket and lua-cjson: {error}")
    return Check("Lua modules", True, "lua-socket and lua-cjson are installed")


def _check_service(client: Client) -> tuple[Check, Check]:
    """Check the service, and whether it has space."""
    try:
        health, tiers = client.health(), client.tiers()
    except UserError as error:
        return Check("service", False, str(error)), Check("pools", False, "not checked")
    state = f"{health['status']}, policy {health['policy']}"
    texts = [f"{tier['name']} {format_size(tier['free'])} free of {format_size(tier['total'])}" for tier in tiers]
    pools = Check("pools", any(tier["total"] for tier in tiers), "; ".join(texts))
    return Check("service", health["status"] == "ready", state), pools
