"""The results of a run: the measures of Monniot et al. 2023, section 4.4, and StorAlloc's fields."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from forebay.model.kernels import Array
from forebay.simulate.storage.plan import REFUSED
from forebay.simulate.storage.refusals import reasons_of
from forebay.simulate.storage.rules import GB, Feedback
from forebay.simulate.storage.run import Run, can_be_split, sizes_of
from forebay.simulate.storage.usage import ALLOCATED, FAILED

STATES = {ALLOCATED: "allocated", REFUSED: "refused", FAILED: "failed"}
SHORTEST = 10.0  # seconds, as usual for bounded slowdowns
NO_SPLIT_GB = 100_000  # the value in StorAlloc's configurations without splitting


def document(run: Run) -> dict[str, Any]:
    """Return all measures for JSON: bytes, seconds, and shares from 0 to 1."""
    sizes = sizes_of(run)
    states: NDArray[np.int8] = run.verdicts["state"]
    start: NDArray[np.float64] = run.verdicts["start"]
    tried: NDArray[np.int64] = run.verdicts["tried"]
    allocated = int(sizes[states == ALLOCATED].sum()) if not run.rules.letter else int(run.total["put"])
    reasons = reasons_of(run)
    span = span_of(run)
    disks, nodes = _usage_rows(run, span)

    def spread(values: Array) -> dict[str, float]:
        return {"mean": values.mean(), "std": values.std(ddof=1) if values.size > 1 else 0.0, "max": values.max()}

    measures: dict[str, Any] = {
        "mode": run.rules.mode,
        "platform": run.platform.name,
        "policy": run.policy,
        "origin": run.requests.origin,
        "split_bytes": run.rules.split or None,
        "requeue": {"tries": run.rules.tries, "interval": run.rules.interval} if run.rules.tries else None,
        "seed": run.seed,
        "requests": len(run.requests),
        "parts": int(run.parts.size),
        "sum_bytes": int(sizes.sum()),
        "allocated_bytes": allocated,
        "allocated_share": allocated / int(sizes.sum()),
        "allocated": int((states == ALLOCATED).sum()),
        "refused": int((states == REFUSED).sum()),
        "refused_bytes": int(sizes[states == REFUSED].sum()),
        "failed": int((states == FAILED).sum()),
        "failed_bytes": int(sizes[states == FAILED].sum()),
        "delayed": int(((tried > 0) & (states != REFUSED)).sum()),
        "requeued": int((tried > 0).sum()),
        "delay_seconds": float((start - run.requests.start)[states != REFUSED].sum()),
        "split": _count_split(run),
        "reasons": [
            {
                "reason": reason,
                "requests": int((reasons == reason).sum()),
                "bytes": int(sizes[reasons == reason].sum()),
            }
            for reason in sorted(set(reasons.tolist()) - {""})
        ],
        "max_concurrent": int(run.total["most_live"]),
        "seconds": span,
        "fairness": {
            f"{of}_{name}": float(value)
            for name in ("mean_allocations", "max_allocations")
            for of, value in spread(np.array([disk[name] for disk in disks])).items()
        },
        "disks": disks,
        "nodes": nodes,
        "jobs": None if run.feedback is None else jobs_of(run, run.feedback),
    }
    return measures | (storalloc_fields(run) if run.rules.letter else {})


def _count_split(run: Run) -> dict[str, int]:
    """Count the requests that may be split, and their parts and bytes."""
    sizes, split, states = sizes_of(run), can_be_split(run), run.verdicts["state"]
    whole = {"requests": split.sum(), "parts": count_parts(run)[split].sum(), "bytes": sizes[split].sum()}
    numbers = {name: (split & (states == state)).sum() for state, name in STATES.items()}
    volumes = {f"{name}_bytes": sizes[split & (states == state)].sum() for state, name in STATES.items()}
    return {name: int(count) for name, count in (whole | numbers | volumes).items()}


def count_parts(run: Run) -> NDArray[np.int64]:
    """Return the number of parts of each request."""
    first: NDArray[np.int64] = run.verdicts["first"]
    last: NDArray[np.int64] = run.verdicts["last"]
    return last - first


def span_of(run: Run) -> float:
    span = float(run.total["last"]) - float(run.total["first"])
    return span if np.isfinite(span) and span > 0 else 1.0


def slowdowns(run: Run) -> Array:
    """Return each job's time from its request to its end, relative to its duration without I/O (at least 10 s)."""
    return (run.ends - run.requests.start) / np.maximum(run.requests.duration, SHORTEST)


def jobs_of(run: Run, feedback: Feedback) -> dict[str, Any]:
    slow = slowdowns(run)
    state: NDArray[np.int8] = run.verdicts["state"]
    served = state == ALLOCATED
    return {
        "pfs_bandwidth": feedback.pfs,
        "phases": feedback.phases,
        "mean_slowdown": float(slow.mean()),
        "median_slowdown": float(np.median(slow)),
        "max_slowdown": float(slow.max()),
        "mean_slowdown_on_disks": float(slow[served].mean()) if served.any() else np.nan,
        "mean_slowdown_on_pfs": float(slow[~served].mean()) if not served.all() else np.nan,
    }


def _usage_rows(run: Run, span: float) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:

    def describe(used: Array, capacity: int) -> dict[str, object]:
        return {
            "capacity": capacity,
            "max_use": int(used["most_bytes"]) / capacity,
            "mean_use": float(used["use_seconds"]) / span,
            "max_allocations": int(used["most_live"]),
            "mean_allocations": float(used["live_seconds"]) / span,
        }

    where = [(node.name, index, disk.capacity) for node in run.platform.nodes for index, disk in enumerate(node.disks)]
    disks = [
        {"node": node, "disk": index} | describe(used, capacity)
        for (node, index, capacity), used in zip(where, run.disks, strict=True)
    ]
    nodes = [
        {"node": node.name} | describe(used, sum(disk.capacity for disk in node.disks))
        for node, used in zip(run.platform.nodes, run.nodes, strict=True)
    ]
    return disks, nodes


def storalloc_fields(run: Run) -> dict[str, Any]:
    """Return the fields of StorAlloc's output file, computed in the same way."""
    states: NDArray[np.int8] = run.verdicts["state"]
    tried: NDArray[np.int64] = run.verdicts["tried"]
    start: NDArray[np.float64] = run.verdicts["start"]
    pieces = count_parts(run)
    split, granted = pieces > 1, states != REFUSED
    gigabytes = sizes_of(run) // GB
    seconds = run.requests.duration
    waited = (start - run.requests.start)[granted].sum()
    span = span_of(run)
    first, last = run.total["first"], run.total["last"]
    return {
        "alloc_delayed_requests_count": int(((tried > 0) & (states == ALLOCATED)).sum()),
        "alloc_split_requests_count": int((split & (states == ALLOCATED)).sum()),
        # counts from the first part on, even if a later part does not fit
        "alloc_split_requests_duration": float(seconds[split & (run.verdicts["put"] > 0)].sum()),
        "alloc_split_requests_gb": float(run.total["put_split"] // GB),
        "delayed_requests_count": int(((tried > 0) & granted).sum()),
        "failed_requests_count": int((states == FAILED).sum()),
        "failed_split_requests_count": int((split & (states == FAILED)).sum()),
        "max_concurrent_allocations": int(run.total["most_live"]),
        "nodes": list(_storalloc_nodes(run, span)),
        "refused_delayed_requests_count": int(((tried > 0) & ~granted).sum()),
        "refused_requests_count": int(pieces[~granted].sum()),
        "refused_split_requests_count": int((split & ~granted).sum()),
        "refused_split_requests_duration": float(seconds[split & ~granted].sum()),
        "refused_split_requests_gb": float(gigabytes[split & ~granted].sum()),
        "registrations_count": len(run.platform.servers),
        "requests_count": int(run.parts.size),
        "retries_allowed": "yes" if run.rules.tries else "no",
        "sim_duration": int(span),
        "sim_first_ts": int(first) if np.isfinite(first) else 0,
        "sim_last_ts": int(last) if np.isfinite(last) else 0,
        "split_requests_count": int((split & granted).sum()),
        "split_threshold_gb": run.rules.split // GB or NO_SPLIT_GB,
        "tt_allocated_gb": float(run.total["put"] // GB),
        "tt_deallocated_gb": float(run.total["put"] // GB),
        "tt_delay_time_minutes": float(60 * waited),  # seconds times 60, as in the original
    }


def _storalloc_nodes(run: Run, span: float) -> Iterator[dict[str, object]]:
    disks, nodes = iter(run.disks), iter(run.nodes)

    def describe(used: Array, time: str) -> dict[str, object]:
        live = round(float(used["live_seconds"]) / span, 3)
        return {time: int(used["since"]), "max_nb_alloc": int(used["most_live"]), "mean_nb_alloc": live}

    for server in run.platform.servers:
        for index, node in enumerate(server.nodes):
            rows = []
            for at, (disk, used) in enumerate(zip(node.disks, disks, strict=False)):
                fields = {
                    "capacity": disk.capacity // GB,
                    "id": at,
                    "max_cap_utilisation": round(100 * int(used["most_bytes"]) / disk.capacity, 3),
                    "mean_capacity_utilisation": round(100 * float(used["use_seconds"]) / span, 3),
                }
                rows.append(dict(sorted((fields | describe(used, "last_alloc_time")).items())))
            yield {"disks": rows, "id": f"{server.name}:{index}"} | describe(next(nodes), "last_alloc_ts")


def decisions(run: Run) -> Iterator[tuple[Any, ...]]:
    """Yield a row for each part: request, part, state, node, disk, bytes, start, end, reason."""
    where = [(node.name, index) for node in run.platform.nodes for index in range(len(node.disks))]
    reasons = reasons_of(run).tolist()
    times_and_reasons = list(zip(run.verdicts["start"].tolist(), run.ends.tolist(), reasons, strict=True))
    ids, sizes, disks = run.requests.ids.tolist(), run.parts["bytes"].tolist(), run.parts["disk"].tolist()
    for request, (first, last, state) in enumerate(run.verdicts[["first", "last", "state"]].tolist()):
        for part in range(first, last):
            disk = where[disks[part]] if disks[part] >= 0 else ("", "")
            yield (ids[request], part - first, STATES[state], *disk, sizes[part], *times_and_reasons[request])


DECISION = ("request", "part", "state", "node", "disk", "bytes", "start", "end", "reason")
