"""Exposes volumes to other nodes: which volumes, how, and to which hosts."""

import json
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import ClassVar, Protocol, TypeVar

from forebay.act.command import CommandFailed
from forebay.act.files import write_file
from forebay.act.volumes.mounts import mounted_at
from forebay.act.volumes.volume import BadRequest, State, Volume, check_name, is_name
from forebay.act.volumes.volume_lifecycle import ignore_step, wrap_errors
from forebay.model.errors import BadInput, UnknownName, UserError

_Item = TypeVar("_Item")


@dataclass(frozen=True, slots=True, kw_only=True)
class Exposure:
    """The request to expose a volume to other nodes. A file keeps it, so that it can be restored after a crash."""

    name: str
    kind: str
    ceiling: float | None = None
    """Bytes per second."""
    source: str
    hosts: tuple[str, ...]
    settings: dict[str, str] = field(default_factory=dict, repr=False)  # contains a key
    """What the client needs to connect. Only the grant's owner may read it."""
    state: State = "half"
    """`half`: the volume should be exposed, but nothing serves it; call `expose` or `withdraw`."""


class Exposer(Protocol):
    """A way to expose volumes."""

    mounted: ClassVar[bool]
    """Whether it serves the files of a mounted volume, to anybody with the key, at an address that never changes;
    otherwise, it serves an unmounted image or device."""

    def plan(self, volume: Volume, hosts: tuple[str, ...], /) -> Exposure:
        """Plan the exposure, with settings that do not change later. Raise BadInput if it is impossible."""

    def start(self, plan: Exposure) -> None:
        """Serve the volume, unless it is served already."""

    def stop(self, name: str) -> None:
        """Stop serving the volume, if it is served, and remove all traces."""

    def serves(self, plan: Exposure) -> bool: ...


def find_free_port(address: str) -> tuple[str, int]:
    """The host part of a URL for this address, and a port that is free there."""
    is_ipv6 = ":" in address
    with socket.socket(socket.AF_INET6 if is_ipv6 else socket.AF_INET) as listener:
        listener.bind((address, 0))
        return f"[{address}]" if is_ipv6 else address, listener.getsockname()[1]


@dataclass(frozen=True, slots=True, kw_only=True)
class Exposures:
    """All exposures of a node. `folder` keeps the plans with mode 0600, as they contain keys."""

    folder: Path
    exposers: dict[str, Exposer]
    after: Callable[[str], None] = ignore_step

    def expose(
        self, volume: Volume, how: str, hosts: Sequence[str], *, key: str = "", more: Mapping[str, str] | None = None
    ) -> Exposure:
        """Let only these hosts reach the volume, with `key` or a new key. Repeating the call changes nothing.

        `more` are further settings.
        """
        name, path, hosts = volume.name, str(volume.path), tuple(hosts)
        if how == "none":
            return Exposure(name=name, kind=how, source=path, hosts=hosts, settings={"path": path}, state="whole")
        if how not in self.exposers:
            raise UnknownName("way to expose a volume", how, ("none", *self.exposers))
        exposer, known = self.exposers[how], self._read(name)
        if not exposer.mounted:
            _check_request(volume, hosts)
        plan = known or exposer.plan(volume, hosts)
        if plan.kind == "unreadable":
            raise BadInput(f"volume {name}", "has an unreadable plan; withdraw it first")
        if (plan.kind, plan.source, plan.hosts) != (how, path, hosts):
            reason = f"is already exposed by {plan.kind} to {', '.join(plan.hosts)}; withdraw it first"
            raise BadInput(f"volume {name}", reason)
        plan = replace(plan, settings={**plan.settings, **(more or {})})
        if key and "key" in plan.settings:
            plan = replace(plan, settings={**plan.settings, "key": key})
        fields = {field: value for field, value in asdict(plan).items() if field != "state"}
        try:
            with wrap_errors(f"{name}: cannot expose it"):
                if known is not None and known != plan:
                    exposer.stop(name)  # it has another key
                write_file(self._path(name), json.dumps(fields), 0o600)
                self.after(f"plan the exposure of {name}")
                exposer.start(plan)
        except UserError:
            if known is None or not exposer.mounted:
                self.withdraw(name)
            raise
        return self._update_state(plan)

    def list(self) -> list[Exposure]:
        """List all exposures by name, including those that nothing serves."""
        names = sorted(file.name.removesuffix(".exposed") for file in self.folder.glob("*.exposed"))
        plans = [self._read(name) for name in names if is_name(name)]
        return [self._update_state(plan) for plan in plans if plan is not None]

    def withdraw(self, name: str) -> None:
        """Make the volume unreachable from all hosts, if it is exposed."""
        plan = self._path(check_name(name))
        with wrap_errors(f"{name}: cannot withdraw it"):
            if plan.exists():
                for exposer in self.exposers.values():  # an unreadable plan does not say which one
                    exposer.stop(name)
            for path in (plan, *self.folder.glob(f".{plan.name}.*")):
                path.unlink(missing_ok=True)
        self.after(f"forget the exposure of {name}")

    def _update_state(self, plan: Exposure) -> Exposure:
        serves = plan.kind in self.exposers and self.exposers[plan.kind].serves(plan)
        return replace(plan, state="whole" if serves else "half")

    def _path(self, name: str) -> Path:
        return self.folder / f"{name}.exposed"

    def _read(self, name: str) -> Exposure | None:
        with suppress(FileNotFoundError):
            try:
                fields = json.loads(self._path(name).read_text())
                return Exposure(**fields | {"hosts": tuple(fields["hosts"])})
            except (ValueError, TypeError, KeyError):
                return Exposure(name=name, kind="unreadable", source="", hosts=())
        return None


def _check_request(volume: Volume, hosts: Sequence[str]) -> None:
    where = f"volume {check_name(volume.name)}"
    if not hosts:
        raise BadRequest(where, "name at least one host that can connect")
    if volume.state != "whole":
        raise BadInput(where, "is incomplete; make it again before you expose it")
    if volume.path.is_dir() or mounted_at(volume.path) is not None:
        raise BadInput(where, "is a folder on this node; only an unmounted image or device can be exposed")


def await_ready(
    what: str, find: Callable[[], _Item | None], *, seconds: float, find_error: Callable[[], str] = str
) -> _Item:
    """Wait until `find` returns an item. Raise CommandFailed after `seconds` or as soon as `find_error` returns one."""
    deadline = time.monotonic() + seconds
    while not (item := find()):
        error = find_error()
        if error or time.monotonic() > deadline:
            raise CommandFailed(f"{what}: {error or f'not ready within {seconds:g} s'}")
        time.sleep(0.005)
    return item
