"""The files that Slurm reads beside its slurm.conf, and how they get there without overwriting anybody's work."""

from __future__ import annotations

import difflib
import os
import re
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Literal

from forebay.act.control.client import parse_service
from forebay.act.slurm.burst_buffer.staging import KEPT
from forebay.act.slurm.jobs.scripts import scripts
from forebay.act.slurm.jobs.settings import read_job_settings
from forebay.model.errors import BadInput, why

BURST_BUFFER = ("forebay.lua", "burst_buffer.lua")
JOB_SUBMIT = ("forebay_submit.lua", "job_submit.lua")
SETTINGS = "forebay_settings.lua"
JOBS = "forebay_jobs"
"""The folder in Slurm's own where the hooks keep what they must know of jobs."""
_JOB_LINES = {"PrologSlurmctld": "prolog.sh", "EpilogSlurmctld": "epilog.sh", "TaskProlog": "task_prolog.sh"}
_CLUSTER = re.compile(r"[A-Za-z0-9_-]{1,40}")
_LONGEST = 24 * 86400.0
"""Seconds that Slurm waits for a script at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hooks:
    """How the hooks find the service and how long they wait; times in seconds.

    `command` is how `forebay` is started, `conf` is slurm.conf ("" where Slurm finds it by itself), `state` the folder
    where slurmctld keeps its state: what the hooks must know while the service is away is kept there, too. A job
    without a time limit gets its space for `time`; each gets `margin` more, for what comes after its end, and `queue`
    more until it starts. A queued request is waited for as long as `wait`, a service that is away as long as
    `patience`.
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
                raise BadInput(name, f"must be a path from / on, not {path!r}")
        for name in ("time", "margin", "queue", "wait", "patience"):
            if not 0 <= getattr(self, name) <= _LONGEST:
                raise BadInput(f"--{name}", f"must be from 0 to {_LONGEST / 86400:g} days")

    @property
    def socket(self) -> str:
        """The hooks are callers on the service's own machine."""
        found = parse_service(self.service, "--service").socket
        if not found:
            raise BadInput("--service", "the hooks speak to the service's socket: unix:/PATH")
        return found


def texts(hooks: Hooks, *, job_submit: bool = True) -> dict[str, str]:
    """All files by their names; what others of them need comes first, as Slurm may read them at any moment."""
    own = files("forebay.act.slurm.burst_buffer") / "lua"
    names = (*BURST_BUFFER, *(JOB_SUBMIT if job_submit else ()))
    found = {name: (own / name).read_text("utf-8") for name in names}
    return {SETTINGS: settings_text(hooks), "burst_buffer.conf": conf_text(hooks), **found}


def settings_text(hooks: Hooks) -> str:
    """The settings as a Lua table."""
    words = {"socket": hooks.socket, "token": hooks.token, "cluster": hooks.cluster, "command": hooks.command,
             "conf": hooks.conf, "cache": _in(hooks.state, "forebay_pools.json"), "jobs": _in(hooks.state, JOBS),
             "kept": KEPT}  # fmt: skip
    numbers = {name: f"{getattr(hooks, name):g}" for name in ("time", "margin", "queue", "wait", "patience")}
    lines = [f"  {name} = {value}," for name, value in ({n: lua_text(w) for n, w in words.items()} | numbers).items()]
    return "\n".join(("-- Written by `forebay slurm install`; times in seconds.", "return {", *lines, "}", ""))


def _in(folder: str, name: str) -> str:
    return f"{folder.rstrip('/')}/{name}" if folder else ""


def lua_text(words: str) -> str:
    r"""
    >>> print(lua_text('a "b" \\ c'))
    "a \"b\" \\ c"
    """
    plain = words.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{plain}"'


def conf_text(hooks: Hooks) -> str:
    """Slurm's own settings of burst buffers: its timeouts are such that ours come first."""
    other = int(3 * max(hooks.wait, hooks.patience) + 2 * hooks.patience + 120)
    lines = ("# Written by `forebay slurm install`; times in seconds.", "Directive=BB_LUA",
             "Flags=DisablePersistent,TeardownFailure",
             f"OtherTimeout={other}", "StageInTimeout=86400", "StageOutTimeout=86400")  # fmt: skip
    return "\n".join((*lines, ""))


def job_texts(hooks: Hooks, config: Path, log: Path) -> dict[str, str]:
    """The scripts before and after jobs; `config` says what they do."""
    told = read_job_settings(config).jobs.folder
    return scripts(command=hooks.command, config=config, told=told, log=log, conf=hooks.conf)


def conf_lines(folder: Path, *, job_submit: bool, jobs: bool) -> list[str]:
    """What slurm.conf must say."""
    return [
        "BurstBufferType=burst_buffer/lua",
        *(["JobSubmitPlugins=lua"] if job_submit else []),
        *([f"{name}={folder / file}" for name, file in _JOB_LINES.items()] if jobs else []),
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """A file, and what there is in its place now; `differs` is how that is unlike it."""

    path: Path
    text: str
    state: Literal["new", "same", "other"]
    differs: tuple[str, ...] = ()


def plan(folder: Path, wanted: Mapping[str, str]) -> list[Planned]:
    """What would be written into a folder."""
    if not folder.is_dir():
        raise BadInput(str(folder), "is no folder; it is the one with slurm.conf")
    return [_planned(folder / name, text) for name, text in wanted.items()]


def _planned(path: Path, text: str) -> Planned:
    try:
        there = path.read_text("utf-8", "replace")
    except FileNotFoundError:
        return Planned(path=path, text=text, state="new")
    except OSError as error:
        raise BadInput(str(path), why(error)) from None
    if there == text:
        return Planned(path=path, text=text, state="same")
    lines = difflib.unified_diff(there.splitlines(), text.splitlines(), str(path), "to be written", lineterm="", n=0)
    return Planned(path=path, text=text, state="other", differs=tuple(lines))


def write(planned: Planned) -> None:
    """All of it or nothing, so that slurmctld never reads a part."""
    number, name = tempfile.mkstemp(prefix=f".{planned.path.name}.", dir=planned.path.parent)
    try:
        with os.fdopen(number, "w", encoding="utf-8") as file:
            file.write(planned.text)
            os.fchmod(file.fileno(), 0o755 if planned.path.suffix == ".sh" else 0o644)
        Path(name).replace(planned.path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def cluster_of(folder: Path) -> str:
    """What slurm.conf says is its cluster's name; nothing if it says none."""
    return _said(folder, "ClusterName")


def state_of(folder: Path) -> str:
    """The folder where slurmctld keeps its state, to which nobody else may write; nothing if slurm.conf says none."""
    state = _said(folder, "StateSaveLocation")
    return state if state.startswith("/") else ""


def _said(folder: Path, name: str) -> str:
    """What slurm.conf says last of a name; nothing if it says nothing."""
    try:
        text = (folder / "slurm.conf").read_text("utf-8", "replace")
    except OSError:
        return ""
    found = re.findall(rf"^\s*{name}\s*=\s*([^\s#]+)", text, re.MULTILINE | re.IGNORECASE)
    return str(found[-1]) if found else ""
