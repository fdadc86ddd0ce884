"""The rules about OSTs: how many a file has, how evenly they are used, and whether one of them is slow."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from forebay.model.arrays import Bools
from forebay.model.units import format_size, plural
from forebay.profile.findings.evidence import Evidence, Files
from forebay.profile.findings.finding import Code, Finding, Relief
from forebay.profile.ost_health import is_comparable, was_slow

_LEAST_GAIN = 1.2
_OBSERVED = np.dtype([("run", "i8"), ("ost", "i8"), ("files", "i8"), ("slowness", "f8")])


def find_crowded_targets(evidence: Evidence) -> Iterator[Finding]:
    """Find OSTs that limit the run, because a shared file has few stripes or because files lie on few OSTs."""
    used = evidence.targets
    if used is None:
        return
    processes = evidence.nprocs
    possible = max(used.known_osts, int(used.osts.size))
    count = min(possible, processes)
    files: Files = evidence.posix["id"]
    shared = np.isin(used.file_ids, np.unique(files[evidence.is_shared]))
    largest = int(np.argmax(used.file_bytes))
    in_shared = float(used.file_bytes[shared].sum())
    numbers: dict[str, float | int | str] = {"osts_used": int(used.osts.size), "osts_known": possible}
    is_shared = 2 * in_shared > float(used.file_bytes.sum())
    stripes = int(used.stripes[largest])
    limits = evidence.limits
    lock = evidence.find_lock_limit(count=max(count, stripes)) if is_shared else limits.lock
    gain = evidence.compare(replace(limits, ost=min(limits.ost, evidence.find_ost_limit(count=count)), lock=lock))
    if processes == 1 or gain < _LEAST_GAIN:
        return
    if _predict_in_order(evidence, count, stripes if is_shared else None) < _LEAST_GAIN:
        return
    if is_shared:
        yield Finding(
            code=Code.STRIPE_COUNT,
            seen=f"{processes} processes share files of {plural(stripes, 'stripe')} "
            f"({format_size(float(used.file_bytes[largest]))} in the largest)",
            because=f"the bytes of a file flow through its OSTs, and {plural(stripes, 'OST')} can't serve "
            f"{processes} processes at once",
            remedy=f"Before the run: lfs setstripe -c {count} -S {max(int(used.stripe_size[largest]) >> 20, 1)}M DIR "
            "(existing files keep their layout: copy them). forebay advise --apply DIR also weighs small files.",
            share=evidence.measure_share(np.isin(evidence.posix["id"], used.file_ids[shared])),
            predicted_gain=gain,
            relief=Relief(count=count),
            numbers=numbers | {"stripes": stripes, "processes": processes},
            files=evidence.name_files(evidence.posix["bytes"].sum(axis=1)),
        )
        return
    users = np.unique(evidence.posix["rank"][evidence.posix["bytes"].any(axis=1)])
    if users.size < 2:
        return  # a process on its own is slower than an OST
    top = int(np.argmax(used.bytes))
    share = float(used.bytes[top] / used.bytes.sum())
    yield Finding(
        code=Code.FEW_OSTS,
        seen=f"OST {int(used.osts[top])} has {100 * share:.0f} % of the bytes; {plural(int(used.osts.size), 'OST')} of "
        f"{possible} or more are used",
        because="files of different processes on the same OST share its bandwidth, while others are idle",
        remedy="Let Lustre choose the OSTs (lfs setstripe -c 1 -i -1 DIR) instead of a fixed first one, or let "
        "Forebay choose them (forebay advise --apply DIR).",
        share=evidence.measure_share(np.isin(evidence.posix["id"], used.file_ids)),
        predicted_gain=gain,
        relief=Relief(count=count),
        numbers=numbers | {"ost": int(used.osts[top]), "bytes": int(used.bytes[top])},
    )


def _predict_in_order(evidence: Evidence, count: int, stripes: int | None) -> float:
    """The gain of `count` OSTs if all requests were large and in order: more stripes are no remedy for small ones."""
    undone: Bools = np.ones((evidence.posix.size, 2), dtype=bool)
    limits = evidence.find_limits(float((evidence.data_seconds - evidence.ideal_seconds).sum()), undone)
    lock = limits.lock if stripes is None else evidence.find_lock_limit(undone, max(count, stripes))
    changed = replace(limits, ost=min(limits.ost, evidence.find_ost_limit(undone, count)), lock=lock)
    return limits.longest / changed.longest


def find_slow_targets(evidence: Evidence) -> Iterator[Finding]:
    """Find OSTs that are slower than the others of the run; see `profile.ost_health`."""
    used = evidence.targets
    if used is None:
        return
    observed = np.zeros(used.osts.size, dtype=_OBSERVED)
    observed["ost"], observed["files"], observed["slowness"] = used.osts, used.files, used.slowness
    compared = observed[is_comparable(observed)]
    slow = compared[was_slow(compared)]
    if not slow.size:
        return
    worst = slow[np.argmax(slow["slowness"])]
    there = _is_on(evidence, set(slow["ost"].tolist()))
    late, usual = _slowest_processes(evidence, there)
    gain = late / usual if usual > 0 else float(worst["slowness"])
    names = ", ".join(str(int(ost)) for ost in slow["ost"])
    yield Finding(
        code=Code.SLOW_OST,
        seen=f"OST {names}: {worst['slowness']:.1f} times the seconds per byte of the run's other OSTs",
        because="every process with a file there waits for it",
        remedy="Tell the administrator (forebay history osts shows whether other runs saw it too), and avoid it: "
        "lfs setstripe -o LIST DIR, or forebay advise --apply DIR.",
        share=evidence.measure_share(there),
        predicted_gain=gain,
        confidence="measured",
        numbers={"ost": names, "slowness": float(worst["slowness"])},
    )


def _is_on(evidence: Evidence, osts: set[int]) -> Bools:
    """Which records are of files with a stripe on these OSTs."""
    files = [layout.file for layout in evidence.records.layouts if osts.intersection(layout.osts)]
    return np.isin(evidence.posix["id"], np.array(files, dtype=np.uint64))


def _slowest_processes(evidence: Evidence, there: Bools) -> tuple[float, float]:
    """The most seconds of I/O of one process, with and without the records that are there."""
    of_one = evidence.posix["rank"] >= 0
    if not of_one.any():
        return 0.0, 0.0
    uses = evidence.posix[of_one]
    seconds = uses["seconds"].sum(axis=1)
    totals = [np.bincount(uses["rank"], weights=weights) for weights in (seconds, seconds * ~there[of_one])]
    return float(totals[0].max()), float(totals[1].max())
