"""The rules about processes: one that does all I/O, one that does more than others, one that takes longer."""

from collections.abc import Iterator
from dataclasses import replace

from forebay.model.units import format_duration, format_size
from forebay.profile.findings.evidence import Evidence
from forebay.profile.findings.finding import Code, Finding, Relief
from forebay.profile.findings.target_rules import find_slow_targets
from forebay.profile.findings.thresholds import LEAST_SECONDS, MOST_GAIN, NOTICEABLE

_LEAST_IMBALANCE = 1.5
_LEAST_BYTES = 1 << 20
_MOST_GAIN = 16.0  # of a single writer; more would need more nodes or OSTs than most files get
_LEAST_LATENESS = 2.5  # times as long as the others take
_LEAST_WAIT = 0.05  # of the run


def find_uneven_processes(evidence: Evidence) -> Iterator[Finding]:
    """One process that does all I/O, or processes with much more than others."""
    if evidence.nprocs == 1 or not evidence.bytes_moved:
        return
    busy, most = _find_busiest(evidence)
    mean = evidence.bytes_moved / evidence.nprocs
    alone = most > 0.9 * evidence.bytes_moved
    if most < max(_LEAST_IMBALANCE * mean, _LEAST_BYTES):
        yield from _find_straggler(evidence)
        return
    if evidence.calls_collectively and not alone:
        return  # with collective calls, a few processes move the data of all
    count = _count_level_osts(evidence, alone)
    gain = _predict_level(evidence, alone, count)
    if evidence.measured_seconds > 0:
        seconds, usual = float(evidence.seconds_by_process[busy]), evidence.measured_seconds / evidence.nprocs
        if seconds - usual < NOTICEABLE * evidence.records.job.run_time:
            return  # it has more bytes, but they took no longer
        gain = min(gain, seconds / max(usual, 1e-9))
    because, remedy = _explain_uneven(alone, evidence.calls_collectively, bool(evidence.records.layouts))
    yield Finding(
        code=Code.SINGLE_WRITER if alone else Code.IMBALANCE,
        seen=f"process {busy} moved {100 * min(most / evidence.bytes_moved, 1):.0f} % of all bytes "
        f"({format_size(most)}; the mean of {evidence.nprocs} processes is {format_size(mean)})",
        because=because,
        remedy=remedy,
        share=_share_of(evidence, busy),
        predicted_gain=gain,
        numbers={"process": busy, "bytes": int(most), "mean_bytes": int(mean)},
        relief=Relief(levels=True, count=count),
    )


def _count_level_osts(evidence: Evidence, alone: bool) -> int | None:
    """Over how many OSTs the bytes spread if all processes move the same: a single writer has not chosen yet."""
    used = evidence.targets
    if used is None:
        return None
    return min(max(used.known_osts, int(used.osts.size)), evidence.nprocs) if alone else int(used.osts.size)


def _predict_level(evidence: Evidence, alone: bool, count: int | None) -> float:
    """The gain if all processes move the same."""
    if count is None:
        return min(evidence.skew, _MOST_GAIN) if alone else evidence.skew
    limits, even = evidence.limits, evidence.find_ost_limit(count=count)
    return evidence.compare(replace(limits, process=limits.process / evidence.skew, ost=min(limits.ost, even)))


def _find_straggler(evidence: Evidence) -> Iterator[Finding]:
    """A process that moves no more than others, but takes much longer."""
    process, seconds = evidence.slowest_process
    others = (evidence.measured_seconds - seconds) / max(evidence.nprocs - 1, 1)
    wait = max(_LEAST_WAIT * evidence.records.job.run_time, LEAST_SECONDS)
    late = seconds >= _LEAST_LATENESS * others and seconds - others >= wait
    if not late or evidence.calls_collectively or any(find_slow_targets(evidence)):
        return
    yield Finding(
        code=Code.IMBALANCE,
        seen=f"process {process} spent {format_duration(seconds)} in I/O, the others "
        f"{format_duration(others)} on average, although no process moved much more than the others",
        because="the run waits for its slowest process",
        remedy="Compare with other runs of the program (forebay diagnose APP): always the same process does more or "
        "smaller calls than the others; another one each time is a slow node or a busy server.",
        share=seconds / evidence.measured_seconds,
        predicted_gain=min(seconds / max(others, 1e-9), MOST_GAIN),
        confidence="measured",
        numbers={"process": process, "seconds": seconds, "others_seconds": others},
    )


def _explain_uneven(alone: bool, collective: bool, lustre: bool) -> tuple[str, str]:
    """Why the run is slow, and what to do."""
    if not alone:
        return "the run waits for its slowest process", (
            "Divide the data evenly, or give the I/O of the busiest processes to several (collective "
            "buffering does so)."
        )
    because = "the others wait, and one process reaches neither the bandwidth of its node's network nor that of several"
    if not collective:
        return f"{because} servers", (
            "Let every process, or one on each node, write its part: MPI-IO with collective buffering, or parallel "
            "HDF5."
        )
    stripes = "Give the file more stripes (lfs setstripe -c N DIR before the run), or set" if lustre else "Set"
    return f"{because} servers; MPI-IO's collective calls handed it the data of all", (
        f"{stripes} the hint cb_nodes to the number of nodes, so that several processes write the data of all."
    )


def _find_busiest(evidence: Evidence) -> tuple[int, float]:
    """The process that moved most bytes, and how many (at least: merged records name only two processes)."""
    by_process = evidence.bytes_by_process
    return int(by_process.argmax()), float(by_process.max())


def _share_of(evidence: Evidence, process: int) -> float | None:
    """The part of the I/O seconds of all processes that this one has; None if merged records hide it."""
    if evidence.measured_seconds <= 0 or (evidence.posix["rank"] < 0).any():
        return None
    return min(float(evidence.seconds_by_process[process]) / evidence.measured_seconds, 1.0)
