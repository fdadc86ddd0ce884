"""Layouts of files in the output of `lfs getstripe` and in the options of `lfs setstripe`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from forebay.model.errors import BadInput
from forebay.model.layout import ANY

_PLAIN, _OVERSTRIPED, ON_MDT = "raid0", "raid0,overstriped", "mdt"
TO_THE_END = "-1"  # a component's end: the end of the file


@dataclass(frozen=True, slots=True, kw_only=True)
class Component:
    """A component of a layout, in the terms of `lfs`: 0 is the default, a negative count a multiple of all OSTs.

    `pattern` is empty if a folder has no layout. `osts` are the OSTs of a file's objects, or the list that was set for
    a folder. `extension` marks the component of a self-extending layout that has no objects.
    """

    count: int
    size: int
    start: int
    pattern: str = _PLAIN
    pool: str = ""
    end: str = ""
    flags: str = ""
    osts: tuple[int, ...] = ()
    extension: bool = False

    def options(self, before: Component) -> tuple[str, ...]:
        """Return the options of `lfs setstripe` that create it after component `before`, from which it inherits."""
        end = ("-E", self.end) if self.end else ()
        if self.pattern == ON_MDT:
            return *end, "-L", "mdt"
        count = "-C" if self.pattern == _OVERSTRIPED else "-c"
        return (
            *end,
            *((count, str(self.count)) if self.count and not self.osts else ()),
            *(("-S", str(self.size)) if self.size else ()),  # lfs refuses 0
            *(("-i", str(self.start)) if self.start != before.start and not self.osts else ()),
            *(("-o", ",".join(map(str, self.osts))) if self.osts else ()),
            *(("-p", self.pool) if self.pool else ()),
        )

    def unsupported_feature(self, before: Component) -> str:
        """Return the feature that these options cannot express after component `before`, or ""."""
        if self.pattern not in ("", _PLAIN, _OVERSTRIPED, ON_MDT):
            return f"a layout of pattern {self.pattern}"
        if self.flags not in ("", "0"):
            return f"a layout with components flagged {self.flags}"
        if not self.end:
            return ""
        if self.start != ANY and self.count > 1 and not self.osts:
            # lfs prints the same for `-E 4M -o 1,4` and `-E 4M -c 2 -i 1`.
            return "a progressive layout that may name its OSTs"
        # A component inherits missing options from the one before it, and lfs rejects 0.
        inherited = before.count and not self.count, before.size and not self.size, before.pool and not self.pool
        if self.pattern != ON_MDT and (any(inherited) or (before.pattern == _OVERSTRIPED != self.pattern)):
            return "a progressive layout with a default after a value"
        return ""


_NOTHING = Component(count=0, size=0, start=ANY, pattern="")


@dataclass(frozen=True, slots=True, kw_only=True)
class StripedLayout:
    """A layout of one component, or of several in sequence (PFL), perhaps in several mirrors."""

    components: tuple[Component, ...]
    mirrors: int = 1
    where: str = ""

    @property
    def is_unset(self) -> bool:
        """Whether a folder has no layout itself (as read with --raw)."""
        return len(self.components) == 1 and replace(self.components[0], pattern="") == _NOTHING

    @property
    def last(self) -> Component:
        """The component that holds most of a large file; `lfs getstripe -c` on a folder prints its count."""
        with_objects = [c for c in self.components if c.pattern != ON_MDT and not c.extension]
        return (with_objects or self.components)[-1]

    def options(self) -> tuple[str, ...]:
        """Return the options of `lfs setstripe` that create this layout (read with --raw) on a folder without one."""
        feature = "a self-extending layout" if any(c.extension for c in self.components) else ""
        if self.mirrors not in (0, 1):
            feature = "a mirrored layout"
        options: tuple[str, ...] = ()
        before = _NOTHING
        for component in self.components:
            feature = feature or component.unsupported_feature(before)
            options += component.options(before)
            before = _NOTHING if component.pattern == ON_MDT else component
        if feature:
            raise BadInput(self.where, f"shows {feature}, which Forebay cannot restore; the folder is unchanged")
        return options


_FIELD = re.compile(r"^\s*(?:\(Default\)\s+|-\s+)?(?:lmm_)?(?P<key>[a-z][\w.]*):(?:\s+(?P<value>.*?))?\s*$")
_OBJECT = re.compile(r"\bl_ost_idx:\s*(?P<index>\d{1,9})\b")
_WHOLE = re.compile(r"-?\d{1,19}")


def parse_stripe(text: str, where: str) -> StripedLayout:
    """Parse the layout that `lfs getstripe -y` prints for a file, or with -d for a folder; `where` names the command.

    It looks like YAML but is read line by line: sites choose the names of pools (007, null), and releases differ in
    whether components are a list or numbered (component0), and whether a folder's fields start with lmm_.
    """
    head: dict[str, str] = {}
    parts: list[dict[str, str]] = []
    osts: list[list[int]] = [[]]
    for line in text.split("\n"):
        if stripe := _OBJECT.search(line):
            osts[-1].append(int(stripe["index"]))
        elif field := _FIELD.match(line):
            if field["key"] == "lcme_id":
                parts.append({})
                osts.append([])
            table = parts[-1] if parts else head
            if field["key"] in table and field["key"] != "l_fid":
                raise BadInput(where, f"printed several values for {field['key']}")
            table[field["key"]] = field["value"] or ""
    if "stripe_count" not in head and "lcm_entry_count" not in head and not parts:
        raise BadInput(where, "has no stripe info" if "has no stripe info" in text else "printed no layout")
    if parts and _integer(head, "lcm_entry_count", where, default=len(parts)) != len(parts):
        raise BadInput(where, f"printed {len(parts)} of {head['lcm_entry_count']} components")
    tables = zip(parts, osts[1:], strict=True) if parts else [(head, osts[0])]
    components = tuple(_parse_component(table, tuple(indices), where) for table, indices in tables)
    mirrors = _integer(head, "lcm_mirror_count", where, default=1) if parts else 1
    return StripedLayout(components=components, mirrors=mirrors, where=where)


def _parse_component(table: Mapping[str, str], osts: tuple[int, ...], where: str) -> Component:
    extension = "extension_size" in table
    count = _integer(table, "stripe_count", where)
    size = 0 if extension else _integer(table, "stripe_size", where)
    on_mdt = "mdt_index" in table and "stripe_offset" not in table
    start = ANY if on_mdt else max(ANY, _integer(table, "stripe_offset", where))
    pattern = table.get("pattern", _PLAIN)
    if pattern == "0":  # older releases write this for none
        pattern = _PLAIN if count or size else ""
    end = table.get("lcme_extent.e_end", "")
    if end == "EOF" or (end and "lcme_id" not in table):
        end = TO_THE_END
    elif "lcme_id" in table:
        end = str(_integer(table, "lcme_extent.e_end", where))
    return Component(
        count=count,
        size=size,
        start=start,
        pattern=pattern,
        pool=table.get("pool", ""),
        end=end,
        flags=table.get("lcme_flags", ""),
        osts=osts,
        extension=extension,
    )


def _integer(table: Mapping[str, str], key: str, where: str, *, default: int | None = None) -> int:
    if key not in table:
        if default is None:
            raise BadInput(where, f"printed no {key}")
        return default
    if not _WHOLE.fullmatch(table[key]):
        raise BadInput(where, f"{key} must be an integer, not {table[key]!r}")
    return int(table[key])


def parse_version(text: str) -> tuple[int, ...]:
    """
    >>> parse_version("lfs 2.17.57_62_gc881f8e_dirty"), parse_version("none")
    ((2, 17, 57), ())
    """
    match = re.search(r"\b(\d{1,4}(?:\.\d{1,4})+)", text)
    return tuple(int(number) for number in match[1].split(".")) if match else ()
