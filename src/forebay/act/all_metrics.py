"""All metrics of Forebay by process, for the documentation."""

from __future__ import annotations

from collections.abc import Mapping

from forebay.act.control.service.metrics import METRICS as SERVICE
from forebay.act.forward.metrics import COUNCIL, NODE, SERVER
from forebay.act.metrics import Metric

PARTS: Mapping[str, tuple[Metric, ...]] = {
    "service": SERVICE,
    "I/O node": NODE,
    "council": COUNCIL,
    "data server": SERVER,
}
