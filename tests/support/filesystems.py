"""File systems that are not there: commands of their names on PATH that behave as the real ones do.

`fakes/` has the commands; what they remember is one JSON file (see `fakes/_fake.py`).
"""

import json
import os
import shlex
import shutil
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pytest

from forebay.act import command
from forebay.act.filesystems.filesystem import FileSystem
from forebay.act.filesystems.settings import Kind, Settings, open_filesystem

KINDS: tuple[Kind, ...] = ("lustre", "beegfs7", "beegfs8")
MIB, TIB = 1 << 20, 1 << 40
Doing = Literal["set", "get", "list"]
VERBS: dict[Kind, dict[Doing, str]] = {
    "lustre": {"set": "lfs setstripe", "get": "lfs getstripe", "list": "lfs df"},
    "beegfs7": {
        "set": "beegfs-ctl --setpattern",
        "get": "beegfs-ctl --getentryinfo",
        "list": "beegfs-ctl --listtargets",
    },
    "beegfs8": {"set": "beegfs entry set", "get": "beegfs entry info", "list": "beegfs target list"},
}
FAKES = Path(__file__).parent / "fakes"
sys.path.append(str(FAKES))  # as it is where they run
import _fake  # type: ignore[import-not-found]  # noqa: E402
import _lustre  # type: ignore[import-not-found]  # noqa: E402


@dataclass(frozen=True)
class Pretended:
    """One file system that answers to its commands."""

    kind: Kind
    mount: Path
    memory: Path

    @property
    def settings(self) -> Settings:
        return Settings(kind=self.kind, name="scratch", mount=self.mount, timeout=60.0)

    @property
    def system(self) -> FileSystem:
        return open_filesystem(self.settings)

    def state(self) -> dict[str, Any]:
        return json.loads(self.memory.read_text())

    def change(self, **values: Any) -> None:
        self.memory.write_text(json.dumps(self.state() | values))

    def change_target(self, index: int, **values: Any) -> None:
        targets = self.state()["targets"]
        self.change(targets=[t | values if t["index"] == index else t for t in targets])

    def lose(self, index: int) -> None:
        """The target is away, as its administrator or the network would have it."""
        gone = {"state": "inactive"} if self.kind == "lustre" else {"reachability": "Offline"}
        self.change_target(index, **gone)

    def refuse(self, doing: Doing, words: str, code: int = 1, **more: Any) -> None:
        self.change(refuse={VERBS[self.kind][doing]: [code, words]}, **more)

    def calls(self, doing: Doing) -> list[list[str]]:
        verb = VERBS[self.kind][doing].split()
        return [call for call in self.state()["log"] if call[: len(verb)] == verb]

    def folder(self, name: str) -> Path:
        made = self.mount / name
        made.mkdir(parents=True, exist_ok=True)
        return made


Pretend = Callable[..., Pretended]


class _Quick:
    """One of the commands that has ended already: no process was needed for it."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.returncode = code
        self._printed = out.encode("utf-8", "surrogateescape"), err.encode()

    def communicate(self, _input: bytes | None = None, timeout: float = 0) -> tuple[bytes, bytes]:  # noqa: ARG002
        return self._printed

    def __enter__(self) -> "_Quick":
        return self

    def __exit__(self, *_: object) -> None: ...


def answer_quickly(monkeypatch: pytest.MonkeyPatch, commands: Path) -> None:
    """Lustre's commands are answered at once; only one that hangs is started."""
    start = command._start
    known = {"lfs": _lustre.lfs, "lctl": _lustre.lctl}

    def started(argv: Sequence[str], **options: Any) -> Any:
        if argv[0] not in known or shutil.which(argv[0]) != str(commands / argv[0]):
            return start(argv, **options)
        state = _fake.remembered()
        try:
            return _Quick(*_fake.perform(known[argv[0]], argv[0], argv[1], list(argv[1:])))
        except _fake.Hangs:
            _fake.remember(state)
            return start(argv, **options)

    monkeypatch.setattr(command, "_start", started)


@pytest.fixture
def pretend(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Pretend:
    """Call it with a kind, and how many targets it has, for a file system that the commands on PATH know."""

    def make(kind: Kind, targets: int = 8) -> Pretended:
        commands = put_on_path(tmp_path, monkeypatch)
        answer_quickly(monkeypatch, commands)
        mount = tmp_path / "mnt"
        mount.mkdir()
        made = Pretended(kind, mount, commands / "state.json")
        made.memory.write_text(json.dumps(_at_first(mount, targets, 0 if kind == "lustre" else 1)))
        monkeypatch.setenv("FOREBAY_FAKE_STATE", str(made.memory))
        return made

    return make


def put_on_path(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of its own with the commands, first on PATH."""
    commands = folder / "bin"
    commands.mkdir()
    for name in ("lfs", "lctl", "beegfs-ctl", "beegfs"):
        script = commands / name
        # -S -E: nothing of this environment is needed, and the command starts in half the time
        start = shlex.join([sys.executable, "-SEB", str(FAKES / name)])
        script.write_text(f'#!/bin/sh\nexec {start} "$@"\n')
        script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{commands}{os.pathsep}{os.environ['PATH']}")
    return commands


def _at_first(mount: Path, targets: int, first: int) -> dict[str, Any]:
    here = [
        {
            "index": index,
            "total": 4 * TIB,
            "free": 2 * TIB + index * MIB,
            "reachability": "Online",
            "consistency": "Good",
            "pool": "normal",
        }
        for index in range(first, first + targets)
    ]
    default = {"count": 1, "size": MIB, "start": -1}
    return {
        "name": "scratch",
        "mount": str(mount),
        "targets": here,
        "default": default,
        "layouts": {},
        "log": [],
    }
