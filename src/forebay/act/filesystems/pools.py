"""The pools among which Forebay may choose: those that the settings name, with their bandwidths stated or measured."""

from collections.abc import Mapping
from pathlib import Path
from statistics import median

from forebay.act.filesystems.filesystem import FileSystem
from forebay.decide.stripe.pool import Pool
from forebay.history.store import Store
from forebay.history.store.totals import target_rates
from forebay.model.units import plural

MEASURED = 0.0
"""In the settings: the bandwidth is what the history shows."""
_LEAST_RUNS = 5  # of a target, before its measured rate counts


def read_pools(
    files: FileSystem, configured: Mapping[str, float], folder: Path | None, store: Store, filesystem: str | None
) -> tuple[Pool, ...]:
    """Return the configured pools whose bandwidth is known. Raise BadInput if one does not exist."""
    members = {name: files.pool_targets(name, folder) for name in configured}
    rates = {}
    if MEASURED in configured.values():
        with store.open_reader() as connection:
            rates = target_rates(connection, filesystem, _LEAST_RUNS)
    pools = []
    for name, bandwidth in configured.items():
        shown = [rates[target] for target in sorted(members[name]) if target in rates]
        if bandwidth != MEASURED:
            pools.append(Pool(name=name, targets=members[name], bandwidth=bandwidth, source="the settings"))
        elif 2 * len(shown) > len(members[name]):
            source = f"the runs on {plural(len(shown), 'target')}"
            pools.append(Pool(name=name, targets=members[name], bandwidth=median(shown), source=source))
    return tuple(pools)
