"""Volumes for other nodes: what is exposed, by which means, to whom, and what a client must know to reach it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Protocol

from forebay.act.volumes.mounts import mounted_at
from forebay.act.volumes.record import sync_folder
from forebay.act.volumes.volume import BadRequest, State, Volume, VolumeFailed, check_name, is_name
from forebay.act.volumes.volume_lifecycle import ignore_step
from forebay.model.errors import BadInput, UnknownName, UserError, why


@dataclass(frozen=True, slots=True, kw_only=True)
class Exposed:
    """A volume that other nodes can reach."""

    name: str
    kind: str
    settings: dict[str, str] = field(repr=False)  # there is a key in it
    """What the client needs; it is for the grant's owner only."""
    state: State = "whole"
    """`half`: it is to be exposed, but nothing serves it now; `expose` or `withdraw` ends that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What an exposure was asked to be, and what it must be again after a crash. `ceiling` in bytes per second."""

    name: str
    kind: str
    source: str
    hosts: tuple[str, ...]
    ceiling: float | None = None
    settings: dict[str, str] = field(default_factory=dict, repr=False)


class Means(Protocol):
    """One way to expose volumes."""

    def check(self) -> None:
        """Whether it can work here; what is in its way, in one line, if not."""

    def plan(self, made: Volume, hosts: tuple[str, ...]) -> Plan:
        """How the volume would be exposed, with settings that stay the same; BadInput for what it can't do."""

    def start(self, plan: Plan) -> None:
        """Serve it, if it is not served yet."""

    def stop(self, name: str) -> None:
        """Serve the volume no more, and leave nothing of that; that it was not served is no error."""

    def serves(self, plan: Plan) -> bool: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Exposures:
    """All exposures of a node. `folder` keeps the plans, with mode 0600 as there are keys in them."""

    folder: Path
    means: dict[str, Means]
    after: Callable[[str], None] = ignore_step

    def expose(self, made: Volume, how: str, hosts: Sequence[str], *, key: str = "") -> Exposed:
        """Let those hosts reach the volume, and nobody else; the same again if it is exposed that way already.

        `key` is for means that need one, which make one up if there is none.
        """
        if how == "none":
            return Exposed(name=made.name, kind="none", settings={"path": str(made.path)})
        means = self._means(how)
        name = check_name(made.name)
        _check(made, hosts)
        known = self._read(name)
        plan = known or means.plan(made, tuple(hosts))
        if (plan.kind, plan.source, plan.hosts) != (how, str(made.path), tuple(hosts)):
            raise BadInput(f"volume {name}", f"{_standing(plan)}; withdraw it first")
        plan = _with_key(plan, key)
        try:
            if known is not None and known != plan:
                means.stop(name)  # it knows another key
            self._write(plan)
            means.start(plan)
        except (OSError, UserError) as error:
            self.withdraw(name)
            raise error if isinstance(error, UserError) else _told(name, error) from None
        return self._exposed(plan)

    def withdraw(self, name: str) -> None:
        """No host can reach it any more; that none could is no error."""
        plan = self._path(check_name(name))
        try:
            if plan.exists():
                for means in self.means.values():  # all, as a plan that can't be read does not say which
                    means.stop(name)
            for path in (plan, self._new(name)):
                path.unlink(missing_ok=True)
        except OSError as error:
            raise _told(name, error) from None
        self.after(f"forget the exposure of {name}")

    def exposed(self) -> list[Exposed]:
        """By name; those too that nothing serves now."""
        names = sorted(file.name.removesuffix(".exposed") for file in self.folder.glob("*.exposed"))
        plans = [self._read(name) for name in names if is_name(name)]
        return [self._exposed(plan) for plan in plans if plan is not None]

    def _exposed(self, plan: Plan) -> Exposed:
        serves = plan.kind in self.means and self.means[plan.kind].serves(plan)
        return Exposed(name=plan.name, kind=plan.kind, settings=plan.settings, state="whole" if serves else "half")

    def _means(self, how: str) -> Means:
        if how not in self.means:
            raise UnknownName("means to expose a volume", how, ("none", *self.means))
        return self.means[how]

    def _path(self, name: str) -> Path:
        return self.folder / f"{name}.exposed"

    def _new(self, name: str) -> Path:
        return self.folder / f"{name}.exposed.new"

    def _read(self, name: str) -> Plan | None:
        with suppress(FileNotFoundError):
            try:
                words = json.loads(self._path(name).read_text())
                return Plan(**words | {"hosts": tuple(words["hosts"])})
            except (ValueError, TypeError, KeyError):
                return Plan(name=name, kind="unreadable", source="", hosts=())
        return None

    def _write(self, plan: Plan) -> None:
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with os.fdopen(os.open(self._new(plan.name), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            json.dump(asdict(plan), file)
            file.flush()
            os.fsync(file.fileno())
        self._new(plan.name).rename(self._path(plan.name))
        sync_folder(self.folder)
        self.after(f"plan the exposure of {plan.name}")


def _with_key(plan: Plan, key: str) -> Plan:
    return replace(plan, settings={**plan.settings, "key": key}) if key and "key" in plan.settings else plan


def _check(made: Volume, hosts: Sequence[str]) -> None:
    where = f"volume {made.name}"
    if not hosts:
        raise BadRequest(where, "name at least one host that may connect")
    if made.state != "whole":
        raise BadInput(where, "is half made; make it before it is exposed")
    if made.path.is_dir() or mounted_at(made.path) is not None:
        raise BadInput(where, "is a folder on this node; only an unmounted image or device can be exposed")


def _standing(plan: Plan) -> str:
    if plan.kind == "unreadable":
        return "is exposed by a plan that can't be read"
    return f"is exposed already, by {plan.kind} to {', '.join(plan.hosts)}"


def _told(name: str, error: OSError) -> VolumeFailed:
    return VolumeFailed(f"volume {name}: can't be exposed or withdrawn: {why(error)}")
