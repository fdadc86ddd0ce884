"""Volumes for other nodes: what is exposed, how, to which hosts, and what a client needs to connect."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Protocol

from forebay.act.volumes.mounts import mounted_at
from forebay.act.volumes.record import write_file
from forebay.act.volumes.volume import BadRequest, State, Volume, VolumeFailed, check_name, is_name
from forebay.act.volumes.volume_lifecycle import ignore_step
from forebay.model.errors import BadInput, UnknownName, UserError, why


@dataclass(frozen=True, slots=True, kw_only=True)
class Exposed:
    """A volume that other nodes can reach."""

    name: str
    kind: str
    settings: dict[str, str] = field(repr=False)  # contains a key
    """What the client needs; for the grant's owner only."""
    state: State = "whole"
    """`half`: it should be exposed, but nothing serves it now; `expose` or `withdraw` ends that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """An exposure as it was requested, to be restored after a crash. `ceiling` in bytes per second."""

    name: str
    kind: str
    source: str
    hosts: tuple[str, ...]
    ceiling: float | None = None
    settings: dict[str, str] = field(default_factory=dict, repr=False)


class Exposer(Protocol):
    """One way to expose volumes."""

    def check(self) -> None:
        """Raise an error, in one line, unless it works here."""

    def plan(self, volume: Volume, hosts: tuple[str, ...], /) -> Plan:
        """A plan for the volume, with settings that stay the same; raises BadInput for what is impossible."""

    def start(self, plan: Plan) -> None:
        """Serve it, unless it is served already."""

    def stop(self, name: str) -> None:
        """Stop serving the volume, if it is served, and leave nothing behind."""

    def serves(self, plan: Plan) -> bool: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Exposures:
    """All exposures of a node. `folder` keeps the plans, with mode 0600 as they contain keys."""

    folder: Path
    exposers: dict[str, Exposer]
    after: Callable[[str], None] = ignore_step

    def expose(self, volume: Volume, how: str, hosts: Sequence[str], *, key: str = "") -> Exposed:
        """Let these hosts, and no others, reach the volume; does nothing if it is exposed like that already.

        `key` is for exposers that need one; they make one up if it is empty.
        """
        if how == "none":
            return Exposed(name=volume.name, kind="none", settings={"path": str(volume.path)})
        if how not in self.exposers:
            raise UnknownName("way to expose a volume", how, ("none", *self.exposers))
        exposer, name = self.exposers[how], check_name(volume.name)
        _check_request(volume, hosts)
        known = self._read(name)
        plan = known or exposer.plan(volume, tuple(hosts))
        if (plan.kind, plan.source, plan.hosts) != (how, str(volume.path), tuple(hosts)):
            state = "has an unreadable plan" if plan.kind == "unreadable" else (
                f"is exposed already, by {plan.kind} to {', '.join(plan.hosts)}"
            )  # fmt: skip
            raise BadInput(f"volume {name}", f"{state}; withdraw it first")
        if key and "key" in plan.settings:
            plan = replace(plan, settings={**plan.settings, "key": key})
        try:
            if known is not None and known != plan:
                exposer.stop(name)  # it has another key
            write_file(self._path(name), json.dumps(asdict(plan)), 0o600)
            self.after(f"plan the exposure of {name}")
            exposer.start(plan)
        except (OSError, UserError) as error:
            self.withdraw(name)
            raise error if isinstance(error, UserError) else _wrap_error(name, error) from None
        return self._describe(plan)

    def withdraw(self, name: str) -> None:
        """Make the volume unreachable for all hosts, if it is exposed."""
        plan = self._path(check_name(name))
        try:
            if plan.exists():
                for exposer in self.exposers.values():  # all of them, as an unreadable plan does not name its own
                    exposer.stop(name)
            for path in (plan, plan.with_name(f"{plan.name}.new")):
                path.unlink(missing_ok=True)
        except OSError as error:
            raise _wrap_error(name, error) from None
        self.after(f"forget the exposure of {name}")

    def exposed(self) -> list[Exposed]:
        """All exposures by name, including those that nothing serves now."""
        names = sorted(file.name.removesuffix(".exposed") for file in self.folder.glob("*.exposed"))
        plans = [self._read(name) for name in names if is_name(name)]
        return [self._describe(plan) for plan in plans if plan is not None]

    def _describe(self, plan: Plan) -> Exposed:
        serves = plan.kind in self.exposers and self.exposers[plan.kind].serves(plan)
        return Exposed(name=plan.name, kind=plan.kind, settings=plan.settings, state="whole" if serves else "half")

    def _path(self, name: str) -> Path:
        return self.folder / f"{name}.exposed"

    def _read(self, name: str) -> Plan | None:
        with suppress(FileNotFoundError):
            try:
                fields = json.loads(self._path(name).read_text())
                return Plan(**fields | {"hosts": tuple(fields["hosts"])})
            except (ValueError, TypeError, KeyError):
                return Plan(name=name, kind="unreadable", source="", hosts=())
        return None


def _check_request(volume: Volume, hosts: Sequence[str]) -> None:
    where = f"volume {volume.name}"
    if not hosts:
        raise BadRequest(where, "name at least one host that can connect")
    if volume.state != "whole":
        raise BadInput(where, "is half made; make it before you expose it")
    if volume.path.is_dir() or mounted_at(volume.path) is not None:
        raise BadInput(where, "is a folder on this node; only an unmounted image or device can be exposed")


def _wrap_error(name: str, error: OSError) -> VolumeFailed:
    return VolumeFailed(f"volume {name}: cannot be exposed or withdrawn: {why(error)}")
