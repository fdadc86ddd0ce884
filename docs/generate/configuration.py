"""docs/reference/configuration.md: every key of every file, from the models that check them."""

from __future__ import annotations

import types
from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from sphinx.pycode import ModuleAnalyzer

from forebay.act.control.agent import settings as agent_settings
from forebay.act.control.service import settings
from forebay.act.filesystems import settings as filesystem
from forebay.act.forward import layer_settings
from forebay.act.slurm.jobs import settings as jobs_file
from forebay.act.slurm.planner import settings as planner_settings
from forebay.decide.grants import grant_limits
from forebay.decide.grants.grant_limits import GrantRules
from forebay.history import platforms, toml
from forebay.history.toml import Table
from forebay.show import workers
from forebay.simulate.applications import scenario
from forebay.simulate.centre import machine, workload
from forebay.simulate.storage import scenario as storage
from forebay.studies.burst_buffer import experiment as burst_buffer
from generate.markdown import code, page, table, words

HEAD = """\
Each file is TOML. An unknown key or a value of the wrong kind is an error that names the file and the key.

| kind | meaning |
|---|---|
| size | bytes as a number, or text with a unit: `"500 GB"` (10⁹), `"1 MiB"` (2²⁰) |
| size with a unit | text only, because a bare number could be in any unit |
| bandwidth | bytes per second as a number, or text: `"2 GB/s"`, `"200 Gbit/s"` |
| duration | seconds as a number, or text: `"1 ms"`, `"10 s"`, `"5 min"`, `"2 h"`, `"30 d"` |
"""

_PLATFORM = {
    "": {
        "name": ("text", "the file's name", "The name of the platform."),
        "node": ("tables", "needed", "A storage node, or several identical ones: one `[[node]]` table for each kind."),
    },
    "node": {
        "name": ("text", "`node-0`, …", "The name; with `count`, the prefix of the names."),
        "network_bandwidth": ("bandwidth with a unit", "needed", 'The bandwidth of its link; `"inf"` for no limit.'),
        "disk": ("tables", "needed", "A disk, or several identical ones: one `[[node.disk]]` table for each kind."),
        "server": ("text", "`S-0`", "The server of the node."),
        "count": ("whole number", "`1`", "The number of them."),
    },
    "node.disk": {
        "capacity": ("size with a unit", "needed", "The capacity of each disk."),
        "write_bandwidth": ("bandwidth with a unit", "needed", 'Write bandwidth; `"inf"` for no limit.'),
        "read_bandwidth": ("bandwidth with a unit", "needed", 'Read bandwidth; `"inf"` for no limit.'),
        "count": ("whole number", "`1`", "The number of them."),
    },
}


@dataclass(frozen=True, slots=True)
class File:
    """A file, what reads it, and the model that checks it."""

    name: str
    said: str
    model: type[Table]


FILES = (
    File(
        "serve.toml",
        "The control service: `forebay serve --config FILE`. Paths are relative to the file. Example: "
        "[examples/serve.toml](../../examples/serve.toml).",
        settings._File,
    ),
    File(
        "agent.toml",
        "The agent of a storage node: `forebay agent FILE`. Paths are relative to the file. Example: "
        "[examples/agent.toml](../../examples/agent.toml).",
        agent_settings._File,
    ),
    File(
        "slurm.toml",
        "What to do before and after jobs: `forebay slurm prolog` and `epilog --config FILE`. Every table is "
        "optional. Example: [examples/slurm.toml](../../examples/slurm.toml).",
        jobs_file.JobSettings,
    ),
    File(
        "schedule.toml",
        "The planner of Slurm's queue: `forebay schedule --config FILE`. Paths are relative to the file. Example: "
        "[examples/schedule.toml](../../examples/schedule.toml).",
        planner_settings.ScheduleSettings,
    ),
    File(
        "filesystem.toml",
        "A parallel file system: `forebay advise --system FILE`, and `filesystem` of slurm.toml. Example: "
        "[examples/filesystem.toml](../../examples/filesystem.toml).",
        filesystem._File,
    ),
    File(
        "forward.toml",
        "A forwarding layer: `forebay forward up FILE`. Example: [examples/forward.toml](../../examples/forward.toml).",
        layer_settings._File,
    ),
    File(
        "forebay.toml",
        "A user's settings: `$FOREBAY_CONFIG`, `forebay.toml` in the current folder, or "
        "`~/.config/forebay/forebay.toml`. Example: "
        "[examples/forebay.toml](../../examples/forebay.toml).",
        workers._Configuration,
    ),
    File(
        "machine.toml",
        "A machine and its applications: `forebay allocate FILE`, `forebay simulate FILE`. Example: "
        "[examples/machine.toml](../../examples/machine.toml).",
        scenario._File,
    ),
    File(
        "burst-buffer.toml",
        "A scenario of storage: `forebay simulate FILE`. Example: "
        "[examples/burst-buffer.toml](../../examples/burst-buffer.toml).",
        storage._File,
    ),
    File(
        "exascale/machine.toml",
        "A whole centre: `forebay study exascale --machine FILE`. Example: "
        "[examples/exascale/machine.toml](../../examples/exascale/machine.toml).",
        machine.Centre,
    ),
    File(
        "exascale/workload.toml",
        "Its jobs: `forebay study exascale --workload FILE`. Example: "
        "[examples/exascale/workload.toml](../../examples/exascale/workload.toml).",
        workload.Workload,
    ),
    File("grid.toml", "The grid of a study: `forebay study burst-buffer --grid FILE`.", burst_buffer._Grid),
)


def configuration_page() -> str:
    return page("Configuration", HEAD, *(_file(file) for file in FILES), _platform())


@dataclass(frozen=True, slots=True)
class Key:
    """One key: in which table, and what the reference says of it."""

    table: str
    name: str
    kind: str
    default: str
    meaning: str
    holds: str = ""  # the table that it holds


def keys(file: File) -> Iterator[Key]:
    """All of them, table by table, as the file's own text has them."""
    yield from _keys(file.model, "")


def _file(file: File) -> str:
    found = list(keys(file))
    said = {key.holds: key.meaning for key in found if key.holds}
    tables: dict[str, list[Key]] = {name: [] for name in ("", *said)}
    for key in found:
        if key.kind not in ("table", "tables"):  # these have a heading of their own
            tables[key.table].append(key)
    sections = [_section(name, said.get(name, ""), rows) for name, rows in tables.items() if rows or name in said]
    return "\n\n".join((f"## {file.name}", file.said, *sections))


def _section(name: str, said: str, rows: list[Key]) -> str:
    cells = [(code(key.name), key.kind, key.default, words(key.meaning)) for key in rows]
    shown = table(("key", "kind", "default", "meaning"), cells) if rows else ""
    return "\n\n".join(part for part in (f"### `{name}`" if name else "", words(said), shown) if part)


def _keys(model: Any, at: str) -> Iterator[Key]:
    if model is GrantRules:
        yield from _rules(at)
        return
    hints, said = get_type_hints(model, include_extras=True), _said(model)
    inner: list[tuple[Any, str]] = []
    for name, field in model.model_fields.items():
        shown = field.alias or name
        found, many = _table_in(hints[name])
        path = ".".join(filter(None, (at.strip("[]"), shown)))
        holds = "" if found is None else f"[[{path}]]" if many else f"[{path}]"
        inner += [(found, holds)] if found is not None else []
        kind = " ".join(filter(None, (_kind(hints[name]), _bounds(field.metadata))))
        yield Key(at, shown, kind, _default(name, field, hints[name]), said.get(name, ""), holds)
    for found, holds in inner:
        yield from _keys(found, holds)


_RULES = {grant_limits.Size: toml.Bytes, grant_limits.Duration: toml.Seconds, grant_limits.Count: int}


def _rules(at: str) -> Iterator[Key]:
    """The rules of grants, which have their kinds and meanings in their types."""
    hints = get_type_hints(GrantRules, include_extras=True)
    for rule in fields(GrantRules):
        if rule.name != "shadow":  # a key of [service]
            read, meaning = hints[rule.name].__metadata__
            hint = next(kind for known, kind in _RULES.items() if get_args(known)[1] is read)
            yield Key(at, rule.name, _kind(hint), code(_with_unit(rule.default, hint)), meaning)


def _said(model: type[Table]) -> dict[str, str]:
    """The words under each field in the source."""
    docs = ModuleAnalyzer.for_module(model.__module__).find_attr_docs()
    return {name: " ".join(lines).strip() for (owner, name), lines in docs.items() if owner == model.__name__}


def _table_in(hint: Any) -> tuple[Any, bool]:
    """The table that a key holds, and whether it is a list of them."""
    for one in (hint, *get_args(hint)):
        if isinstance(one, type) and issubclass(one, Table | GrantRules):
            return one, get_origin(hint) is list
    return None, False


_QUANTITIES = {
    "duration": toml.Seconds,
    "size": toml.Bytes,
    "size with a unit": toml.BytesWithUnit,
    "bandwidth": toml.BytesPerSecond,
}
_PLAIN = {
    str: "text",
    Path: "text",
    int: "whole number",
    float: "number",
    bool: "true or false",
    Any: "anything",
    type(None): "",
}


def _quantity(hint: Any) -> str:
    marks = get_args(hint)[1:] if get_origin(hint) is Annotated else ()
    return next((name for name, known in _QUANTITIES.items() if get_args(known)[1] in marks), "")


def _kind(hint: Any) -> str:
    origin, inside = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return _quantity(hint) or _kind(inside[0])
    if origin in (Union, types.UnionType):
        return " or ".join(filter(None, (_kind(one) for one in inside)))
    if origin is Literal:
        return " or ".join("`false`" if one is False else f'`"{one}"`' for one in inside)
    if origin in (list, dict):
        kind = _kind(inside[-1])
        many = f"{kind}s" if kind.endswith("number") else kind
        return "tables" if _table_in(hint)[0] else f"{'list' if origin is list else 'table'} of {many}"
    return _PLAIN.get(hint) or ("" if hint is type(None) else "table")


def _bounds(limits: list[Any]) -> str:
    low = next((f"from {limit.ge:g}" for limit in limits if hasattr(limit, "ge")), "")
    low = low or next((f"above {limit.gt:g}" for limit in limits if hasattr(limit, "gt")), "")
    high = next((f"to {limit.le:,}" for limit in limits if hasattr(limit, "le")), "")
    return " ".join(filter(None, (low, high)))


def _default(name: str, field: Any, hint: Any) -> str:
    if field.is_required():
        return "needed"
    value = field.get_default(call_default_factory=True)
    if value is None or value in ("", [], {}) or isinstance(value, Table | GrantRules):
        return ""
    if isinstance(value, bool):
        return code(str(value).lower())
    if name.endswith("mode") and isinstance(value, int):
        return code(f"{value:#o}")
    return code(_with_unit(value, hint))


_UNITS = {
    "duration": ((86_400, "d"), (3600, "h"), (60, "min"), (1, "s")),
    "bandwidth": ((10**9, "GB/s"), (10**6, "MB/s")),
    "size": ((2**30, "GiB"), (2**20, "MiB"), (10**9, "GB"), (10**6, "MB")),
}


def _with_unit(value: object, hint: Any) -> str:
    quantity = _quantity(hint).removesuffix(" with a unit")
    for factor, unit in _UNITS.get(quantity, ()):
        if isinstance(value, int | float) and value and (value / factor * 100) % 1 == 0 and value >= factor:
            return f'"{value / factor:g} {unit}"'
    if isinstance(value, float):
        return f"{value:g}"
    return f'"{value}"' if isinstance(value, str | Path) else str(value).replace("'", '"')


def _platform() -> str:
    """The one file that no model checks, as it is also read from YAML: its keys are those that the reader knows."""
    for name, expected in platforms.KEYS.items():
        if set(_PLATFORM[name]) != set(expected):
            raise ValueError(f"platform.toml: [{name}] has the keys {expected}, and the reference tells of others")
    sections = [
        _section(
            f"[[{name}]]" if name else "",
            "",
            [Key(name, key, *row) for key, row in rows.items()],
        )
        for name, rows in _PLATFORM.items()
    ]
    said = (
        "The disks of a burst buffer: `platform` of burst-buffer.toml, `forebay size --platform FILE`; StorAlloc's "
        "`system.yml` is read, too. Keys of your own in a node or disk are kept, and policies see them. Example: "
        "[examples/platform.toml](../../examples/platform.toml)."
    )
    return "\n\n".join(("## platform.toml", said, *sections))
