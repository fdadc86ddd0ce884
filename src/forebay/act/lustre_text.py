"""What `lfs` prints, as values."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from forebay.history.yaml_events import load
from forebay.model.errors import BadInput
from forebay.model.layout import ANY, Target

KIB = 1 << 10
# lfs-df(1); a letter in lower case (f: flash) is not an issue with the target.
_STATES = {
    "D": "degraded",
    "N": "takes no new objects (no-precreate)",
    "R": "read-only",
    "S": "out of space",
    "I": "out of inodes",
}
_USED = re.compile(
    r"^(?P<uuid>\S+)\s+\d+\s+\d+\s+(?P<free>\d{1,18})\s+\S+\s+.*\[OST:(?P<shown>\d+)\](?:\s+(?P<flags>\S+))?$"
)
_AWAY = re.compile(r"^(?:\S+-)?OST(?P<index>[0-9a-fA-F]{4,8})(?:_UUID)?\s*:\s*(?P<because>\S.*)$")
_UUID = re.compile(r"-OST([0-9a-fA-F]{4,8})(?:_UUID)?$")
_BEGINS = re.compile(r"^[ ]*(?:lmm_\w+|lcm_\w+|component\d+):", re.MULTILINE)
_PLAIN, _OVERSTRIPED = "raid0", "raid0,overstriped"


def parse_df(text: str) -> tuple[Target, ...]:
    """The OSTs of `lfs df -v`, ascending; one that is flagged or away is not usable, and says why."""
    found = {t.index: t for line in text.splitlines() if (t := _target(line.strip()))}
    return tuple(found[index] for index in sorted(found))


def _target(line: str) -> Target | None:
    if used := _USED.match(line):
        # The name has the index that setstripe takes; the number in brackets counts the lines in some releases.
        named = _UUID.search(used["uuid"])
        issues = _issues(used["flags"] or "")
        return Target(
            index=int(named[1], 16) if named else int(used["shown"]),
            free_bytes=int(used["free"]) * KIB,
            usable=not issues,
            because=", ".join(issues),
        )
    if away := _AWAY.match(line):
        return Target(index=int(away["index"], 16), usable=False, because=away["because"].lower())
    return None


def _issues(flags: str) -> list[str]:
    return [_STATES.get(flag, f"flagged {flag}") for flag in flags if not flag.islower()]


@dataclass(frozen=True, slots=True, kw_only=True)
class Component:
    """One part of a layout as `lfs` has it: 0 is the file system's default, a negative count a multiple of all OSTs."""

    count: int
    size: int
    start: int
    pattern: str = _PLAIN
    pool: str = ""
    end: str = ""

    def options(self) -> tuple[str, ...]:
        end = ("-E", self.end) if self.end else ()
        pool = ("-p", self.pool) if self.pool else ()
        if self.pattern == "mdt":
            return *end, "-L", "mdt"
        count = "-C" if self.pattern == _OVERSTRIPED else "-c"
        return *end, count, str(self.count), "-S", str(self.size), "-i", str(self.start), *pool


@dataclass(frozen=True, slots=True, kw_only=True)
class Striped:
    """The layout of a folder: one component, or several one after the other (PFL)."""

    components: tuple[Component, ...]
    cannot_be_put_back: str = ""
    where: str = ""

    @property
    def last(self) -> Component:
        """What most of a large file gets; as `lfs getstripe -c` on a folder answers."""
        return self.components[-1]

    def options(self) -> tuple[str, ...]:
        """The options of `lfs setstripe` that make this layout (as read with --raw)."""
        if self.cannot_be_put_back:
            raise BadInput(self.where, f"{self.cannot_be_put_back} could not be put back; the folder is not touched")
        if self.components == (Component(count=0, size=0, start=ANY),):
            return ("-d",)  # it has none of its own
        return tuple(option for component in self.components for option in component.options())


def parse_stripe(text: str, where: str) -> Striped:
    """The layout that `lfs getstripe -d -y` prints; `where` names that command in errors."""
    begins = _BEGINS.search(text)  # some releases put the folder's name above it
    document = load(Path(where), text[begins.start() if begins else 0 :].encode())
    if not isinstance(document, Mapping):
        raise BadInput(where, "says nothing of a layout")
    names = sorted((k for k in document if re.fullmatch(r"component\d+", str(k))), key=lambda k: int(str(k)[9:]))
    parts = [_table(document[name], f"{where}: {name}") for name in names] or [{"sub_layout": document}]
    components = tuple(_component(part, where) for part in parts)
    return Striped(components=components, cannot_be_put_back=_too_special(document, parts, components), where=where)


def _component(part: Mapping[str, Any], where: str) -> Component:
    own = _table(part.get("sub_layout"), f"{where}: sub_layout")
    end = part.get("lcme_extent.e_end", "")
    return Component(
        count=_whole(own, "lmm_stripe_count", where),
        size=_whole(own, "lmm_stripe_size", where) if "lmm_extension_size" not in own else 0,
        start=max(ANY, _whole(own, "lmm_stripe_offset", where)),
        pattern=str(own.get("lmm_pattern") or _PLAIN),  # 0 where none is set
        pool=_text(own.get("lmm_pool", ""), where),
        end=str(end).lower(),
    )


def _too_special(document: Mapping[Any, Any], parts: list[dict[str, Any]], components: tuple[Component, ...]) -> str:
    """What of this layout the options of `setstripe` used here can't say, if anything."""
    if document.get("lcm_mirror_count", 1) not in (0, 1):
        return "a mirrored layout"
    if any("lmm_extension_size" in (p.get("sub_layout") or {}) for p in parts):
        return "a self-extending layout"
    odd = [c.pattern for c in components if c.pattern not in (_PLAIN, _OVERSTRIPED, "mdt")]
    return f"a layout of pattern {odd[0]}" if odd else ""


def _table(value: object, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise BadInput(where, "says nothing of a layout")
    return value


def _whole(table: Mapping[str, Any], key: str, where: str) -> int:
    value = table.get(key)
    if isinstance(value, bool) or not isinstance(value, int):
        raise BadInput(where, f"{key} must be a whole number, not {value!r}" if key in table else f"has no {key}")
    return value


def _text(value: object, where: str) -> str:
    if not isinstance(value, str):
        raise BadInput(where, f"the pool name {value!r} can't be read")
    return value
