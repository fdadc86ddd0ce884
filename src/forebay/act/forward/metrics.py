"""The Prometheus metrics of data servers, I/O nodes and councils, as metrics.toml lists them."""

import tomllib
from pathlib import Path

from forebay.act.metrics import Metric

SERVER, NODE, COUNCIL = (
    {
        name: Metric(f"forebay_{process}_{name}", row["help"], tuple(row.get("labels", ())), row.get("kind", "gauge"))
        for name, row in table.items()
    }
    for process, table in tomllib.loads(Path(__file__).with_name("metrics.toml").read_text(encoding="utf-8")).items()
)
ADMISSION = ("crowded", "denied", "gone", "malformed", "slow")
"""Why peers are rejected."""
