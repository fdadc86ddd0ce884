"""Tables of the striping study: rows for files, and cells for the report."""

from __future__ import annotations

from dataclasses import asdict, fields
from typing import Any

import numpy as np

from forebay.model.layout import MIB
from forebay.simulate.striping.machine import CORI, LOCAL, Machine
from forebay.studies.burst_buffer.tables import Group, records
from forebay.studies.striping.results import (
    APART,
    ASSUMED,
    DCA,
    NOISE,
    RUN,
    TAPP,
    Gain,
    StripingResults,
    gains,
    select,
)

_PANEL = ("figure", "machine", "application", "processes", "nodes", "fio", "policy", "run")
_LEVEL = ("noise", "history", "policy")


def run_records(results: StripingResults) -> list[dict[str, Any]]:
    return records(results.runs, tuple(RUN.names or ()))


def noise_records(results: StripingResults) -> list[dict[str, Any]]:
    return records(results.noise, tuple(NOISE.names or ()))


def gain_records(results: StripingResults) -> list[dict[str, Any]]:
    return [asdict(gain) for gain in gains(results)]


def mean_records(results: StripingResults) -> list[dict[str, Any]]:
    """Over the repetitions: mean and standard deviation of the throughput, and the layout that was used most."""
    found = []
    for key, own in _by(results.runs, _PANEL):
        count, size = _most_used(own)
        found.append(
            key
            | {
                "repetitions": int(own.size),
                "throughput": float(own["throughput"].mean()),
                "deviation": float(own["throughput"].std()),
                "expected": float(own["expected"].mean()),
                "stripe_count": count,
                "stripe_size": size,
            }
        )
    return found


def level_records(results: StripingResults) -> list[dict[str, Any]]:
    """For each level of noise, history and policy, over all cases and seeds."""
    last = int(str(results.settings.get("noise runs", 20)))
    return [
        key
        | {
            "sequences": int(own.size),
            "first_near_best": float(first_near(own, last).mean()),
            "never_near_best": float((own["reached"] == 0).mean()),
            "later_runs_near_best": float(own["settled"].mean()),
            "mean_worst_run": float(own["worst"].mean()),
            "worst_run": float(own["worst"].min()),
            "throughput": float(own["total"].mean()),
        }
        for key, own in _by(results.noise, _LEVEL)
    ]


def assumed_records(results: StripingResults) -> list[dict[str, Any]]:
    return records(results.assumed, tuple(ASSUMED.names or ()))


def first_near(rows: Any, last: int) -> Any:
    """The first run within 5 % of the best layout; one more than there are where none is."""
    return np.where(rows["reached"] > 0, rows["reached"], last + 1)


def gains_table(results: StripingResults) -> Group:
    """The paper's improvements beside ours, and those of `forebay`."""
    found = list(gains(results))
    others = {(g.figure, g.application, g.against): g for g in found if g.policy != DCA}
    rows: list[tuple[str, ...]] = []
    for gain in (g for g in found if g.policy == DCA):
        other = others.get((gain.figure, gain.application, gain.against))
        rows.append(
            (
                str(gain.figure),
                gain.application,
                called(gain.against),
                f"{gain.paper:.0f} %",
                f"{gain.percent:.0f} %",
                where(gain),
                f"{other.percent:.0f} %" if other else "–",
            )
        )
    heads = ("figure", "application", "against", "paper", "ours", "where", "forebay")
    return Group("By how many percent dca-io is faster, at most", heads, rows)


def called(policy: str) -> str:
    """A policy in the words of the paper."""
    return "itself without Procedure 3" if policy == APART else policy


def where(gain: Gain) -> str:
    """With how many processes, or beside how much of FIO, the gain is largest."""
    if gain.fio:
        return f"FIO on {gain.fio} of 4"
    return f"{gain.processes:,} process{'' if gain.processes == 1 else 'es'}"


def noise_table(results: StripingResults) -> Group:
    """A line for each level of noise, history and policy."""
    heads = (
        "noise",
        "history",
        "policy",
        "first run near best",
        "never",
        "later runs near best",
        "mean worst run",
        "worst run",
        "throughput",
    )
    rows = [
        (
            f"{100 * r['noise']:.0f} %",
            r["history"],
            r["policy"],
            f"{r['first_near_best']:.1f}",
            *(f"{100 * r[name]:.1f} %" for name in list(r)[-5:]),
        )
        for r in level_records(results)
    ]
    return Group("What noise does to each policy", heads, rows)


def model_table() -> Group:
    """Every number of both machines, and where it comes from."""
    rows: list[tuple[str, ...]] = [
        (SOURCES[field.name][0], _number(field.name, LOCAL), _number(field.name, CORI), SOURCES[field.name][1])
        for field in fields(Machine)
        if field.name in SOURCES
    ]
    return Group("The model's numbers", ("", "local", "Cori", "from"), rows)


def assumed_table(results: StripingResults) -> Group:
    """A line for each number of the model, a column for each figure: halved, as it is, and doubled."""
    rows = results.assumed
    columns = list(dict.fromkeys(rows[["figure", "against"]].tolist()))
    columns = [(figure, against) for figure, against in columns if figure < 12 or against == TAPP]
    found: list[tuple[str, ...]] = []
    for number in dict.fromkeys(rows["number"].tolist()):
        own = select(rows, number=number)
        cells = [select(own, figure=f, against=a)["percent"] for f, a in columns]
        label = SOURCES[number][0].partition(",")[0] if number in SOURCES else number
        found.append((label, *(" / ".join(f"{p:.0f}" for p in cell) for cell in cells)))
    heads = ("number: half / as it is / twice", *(f"Fig. {figure}, {against}" for figure, against in columns))
    return Group("By how many percent the best layout is faster, at most, if a number is off", heads, found)


def all_tables(results: StripingResults) -> list[Group]:
    """In the order of the report."""
    return [gains_table(results), noise_table(results), model_table(), assumed_table(results)]


SOURCES = {
    "targets": ("targets", "the paper"),
    "target_bandwidth": (
        "bandwidth of a target, MB/s",
        "Samsung 850 Pro, sequential writes; Cori: 700 GB/s over 248 OSTs after the cost of RPCs",
    ),
    "random_share": ("random writes, share of sequential", "850 Pro: 90,000 writes of 4 KiB over 520 MB/s"),
    "process_bandwidth": (
        "bandwidth of a process through the client, MB/s",
        "one Lustre client with IOR (Dell white paper)",
    ),
    "node_bandwidth": ("bandwidth of a client node, MB/s", "two 10 GbE ports; Cori: assumed"),
    "processes_per_node": ("processes on a node", "the paper"),
    "aggregator_per_target": (
        "an aggregator for each stripe, else for each node",
        "defaults: ROMIO; on Cori, Cray MPI",
    ),
    "pack_bandwidth": (
        "bandwidth of packing in collective I/O, MB/s a process",
        "assumed: copies through shared memory",
    ),
    "rpc_bytes": ("largest RPC, MiB", "default of Lustre"),
    "rpc_seconds": ("an RPC at the target, ms", "assumed"),
    "client_seconds": ("an RPC at the client, ms", "assumed"),
    "lock_seconds": (
        "a lock from another node, ms",
        "Cori's acceptance: 361 GB/s into one file, 8 MiB stripes",
    ),
    "round_seconds": ("a round of collective I/O, ms for each doubling of processes", "assumed"),
    "call_seconds": ("a call of the I/O library, ms", "assumed"),
    "dirty_bytes": ("a client's cache for a target, MiB", "default of Lustre, max_dirty_mb"),
    "noise": ("variation of equal runs", "assumed"),
    "background": ("targets in use by others", "the paper: less than 5 % of the bandwidth"),
}


def _number(name: str, machine: Machine) -> str:
    value = getattr(machine, name)
    if isinstance(value, bool):
        return "yes" if value else "no"
    scale = {"bandwidth": 1e6, "bytes": MIB, "seconds": 1e-3}.get(name.rpartition("_")[2], 1)
    return f"{value / scale:g}"


def _by(table: Any, columns: tuple[str, ...]) -> list[tuple[dict[str, Any], Any]]:
    """The rows that agree in these columns, in the order in which they come."""
    values = list(zip(*(table[name].tolist() for name in columns), strict=True))
    rows: dict[tuple[Any, ...], list[int]] = {}
    for index, value in enumerate(values):
        rows.setdefault(value, []).append(index)
    return [(dict(zip(columns, value, strict=True)), table[own]) for value, own in rows.items()]


def _most_used(runs: Any) -> tuple[int, int]:
    layouts, used = np.unique(runs[["stripe_count", "stripe_size"]], return_counts=True)
    count, size = layouts[np.argmax(used)].tolist()
    return count, size
