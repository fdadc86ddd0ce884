"""docs/reference/metrics.md: every number that a part shows to Prometheus, as the part itself declares it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from forebay.act.control.service.metrics import METRICS as SERVICE
from forebay.act.forward.metrics import COUNCIL, NODE, SERVER
from forebay.act.metrics import Metric
from forebay.show.history.watch import METRICS as WATCH
from generate.markdown import code, page, table, words

HEAD = """\
The service answers `GET /metrics` on its socket and, with TLS, to identified callers at `listen`. The other parts
serve theirs over plain HTTP at `--metrics HOST:PORT`. A histogram NAME is shown as `NAME_bucket`, `NAME_sum` and
`NAME_count`. `forebay history watch --metrics FILE` writes its own into a file.
[Metrics](../metrics.md) says how to collect and watch them.
"""
_SHARED = {
    True: "from the journal: the same from all instances, and right after a restart",
    False: "of this process: starts at 0 with it",
}


PARTS: Mapping[str, tuple[Metric, ...]] = {
    "service": SERVICE,
    "I/O node": tuple(NODE.values()),
    "council": tuple(COUNCIL.values()),
    "data server": tuple(SERVER.values()),
    "history watch": tuple(WATCH.values()),
}


def metrics_page() -> str:
    return page("Metrics", HEAD, *(_part(name, found) for name, found in PARTS.items()))


def _part(name: str, found: tuple[Any, ...]) -> str:
    if name != "service":
        return f"## {name[0].upper()}{name[1:]}\n\n{_table(found)}"
    sections = []
    for shared, said in _SHARED.items():
        rows = tuple(one for one in found if one.shared is shared)
        sections += [f"{said[0].upper()}{said[1:]}.", _table(rows)] if rows else []
    return "\n\n".join(("## Service", *sections))


def _table(found: tuple[Any, ...]) -> str:
    rows = [
        (code(one.full_name), one.kind, ", ".join(code(name) for name in one.labels), words(one.help)) for one in found
    ]
    return table(("metric", "kind", "labels", "is"), rows)
