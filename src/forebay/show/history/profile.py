"""Prints the profile of an application as sentences and tables."""

import typer

from forebay.history.store.past_runs import MOST_RUNS
from forebay.model.units import format_bandwidth, format_binary, format_duration, format_size, plural
from forebay.profile.access_pattern import Access, Pattern
from forebay.profile.application import Drift, Profile, Spread
from forebay.show.options import UNKNOWN
from forebay.show.output import print_table, printable
from forebay.show.phrases import format_counts, format_share, format_time

_NOTABLE = 0.0005  # smaller shares are not mentioned
_PERF = ("median", "10 %", "90 %", "runs")
_MEASURES = {
    "io_procs": ("processes doing I/O", "{:,.0f}".format),
    "total_bytes": ("volume", format_size),
    "bytes_read": ("read", format_size),
    "bytes_written": ("written", format_size),
    "total_files": ("files", "{:,.0f}".format),
    "common_read_size": ("most common read request", format_size),
    "mean_read_size": ("mean read request", format_size),
    "common_write_size": ("most common write request", format_size),
    "mean_write_size": ("mean write request", format_size),
    "run_time": ("run time", format_duration),
    "time_by_slowest": ("I/O time of slowest process", format_duration),
    "perf_by_slowest": ("performance", format_bandwidth),
}


def print_profile(profile: Profile, wanted: int | None) -> None:
    """`forebay profile`."""
    for line in summarize(profile, wanted):
        typer.echo(line)
    rows = [
        (label, *map(how, (spread.median, spread.p10, spread.p90)))
        for name, (label, how) in _MEASURES.items()
        if (spread := profile.measures.get(name))
    ]
    print_table("Over its runs", ("what", "median", "10 %", "90 %"), rows)
    if profile.points:
        print_table(
            "Bandwidth by OSTs, b(n)", ("OSTs", *_PERF), [(n, *_perf(perf)) for n, perf in profile.points.items()]
        )
    if profile.layouts:
        rows = [(str(n), format_binary(size), *_perf(perf)) for (n, size), perf in profile.layouts.items()]
        print_table("Bandwidth by layout", ("stripes of a file", "stripe size", *_PERF), rows)
    typer.echo(describe_drift(profile.drift))
    typer.echo(describe_forecast(profile))


def summarize(profile: Profile, wanted: int | None) -> list[str]:
    """Sentences on the runs that the profile describes, and on their pattern."""
    lines = [
        f"{printable(profile.app)} with {plural(profile.processes, 'process')}: "
        f"{plural(profile.runs, 'run')} from {format_time(profile.first_start_time)} "
        f"to {format_time(profile.last_start_time)}"
    ]
    if wanted is not None and wanted != profile.processes:
        where = f" on {printable(profile.filesystem)}" if profile.filesystem else ""
        lines.append(f"It never ran with {wanted} processes{where}; {profile.processes} is the nearest.")
    others = [n for n, _ in profile.process_counts if n != profile.processes]
    if others:
        processes = "process" if others == [1] else "processes"
        lines.append(f"It also ran with {format_counts(others)} {processes} (--procs N shows those).")
    if sum(runs for _, runs in profile.process_counts) >= MOST_RUNS:
        lines.append(f"Only its newest {MOST_RUNS:,} runs are used.")
    if profile.filesystem and profile.unplaced_runs:
        lines.append(f"{format_placed(profile)}. Only runs that are known to be there show a drift.")
    if profile.elsewhere:
        there = ", ".join(f"{printable(mount)} ({plural(runs, 'run')})" for mount, runs in profile.elsewhere)
        used = "" if profile.unplaced_runs else f"These runs used {printable(profile.filesystem or UNKNOWN)}. "
        lines.append(f"{used}It also ran on {there}; --filesystem MOUNT shows those.")
    if profile.only_partial:
        lines.append("All these runs have partial logs: volumes are too low, and the profile has no curve.")
    elif profile.partial_runs:
        lines.append(f"Left out: {plural(profile.partial_runs, 'run')} with partial logs.")
    lines.append(f"Pattern: {describe_pattern(profile.pattern)}")
    apart = (("reads", profile.pattern.reads), ("writes", profile.pattern.writes))
    return [*lines, *(f"  {name}: {describe_access(access)}" for name, access in apart if access)]


def format_placed(profile: Profile) -> str:
    """How many of the runs used the file system, and of how many it is unknown."""
    placed, unknown = profile.runs - profile.unplaced_runs, profile.unplaced_runs
    return f"{placed:,} of {plural(profile.runs, 'run')} used {printable(profile.filesystem or UNKNOWN)}; " + (
        f"the file system of the other {f'{unknown:,} is' if unknown > 1 else 'one is'} unknown"
    )


def describe_pattern(pattern: Pattern) -> str:
    """The sharing of files and the order of requests, as a phrase."""
    shared = pattern.shared is not None and pattern.sharing not in ("one process", "no I/O")
    sharing = f"{pattern.sharing} ({format_share(pattern.shared or 0)} of the bytes in shared files)"
    return f"{sharing if shared else pattern.sharing}; {_describe_order(pattern)}"


def describe_access(access: Access) -> str:
    """Volume, sharing, order, sizes and MPI-IO calls of reads or writes, as a phrase."""
    parts = [format_size(access.total_bytes), access.sharing, _describe_order(access)]
    if access.common_size or access.mean_size:
        parts.append(f"requests {_sizes(access.common_size, access.mean_size)}")
    if access.collective is not None:
        kind = f"{format_share(access.collective)} collective" if access.calls == "both" else access.calls
        parts.append(f"MPI-IO calls {kind}, {_sizes(access.common_call_size, access.mean_call_size)}")
    return "; ".join(parts)


def _describe_order(access: Access) -> str:
    names = ("contiguous", "strided", "with_gaps", "random", "backwards")
    shares = {name.replace("_", " "): getattr(access, name) for name in names}
    notable = ", ".join(f"{format_share(share)} {name}" for name, share in shares.items() if (share or 0) >= _NOTABLE)
    order = {"unknown": "order of requests unknown"}.get(access.order, access.order)
    return f"{order} ({notable})" if notable and notable != f"100 % {order}" else order


def _sizes(common: int | None, mean: float | None) -> str:
    """
    >>> _sizes(65536, 65536.0), _sizes(65536, 60000.0), _sizes(None, 60000.0)
    ('of 64 KiB', 'most often of 64 KiB (mean 60.00 kB)', 'of 60.00 kB on average')
    """
    if not common:
        return f"of {format_size(mean or 0)} on average"
    size = format_binary(common)
    return f"of {size}" if common == mean else f"most often of {size} (mean {format_size(mean or 0)})"


def describe_drift(drift: Drift) -> str:
    """One sentence."""
    if drift.ratio is None or drift.p_value is None:
        return f"Drift: too few similar early and late runs to compare ({drift.early_runs} and {drift.late_runs})."
    change = f"late runs reach {drift.ratio:.2f} times the performance of similar early runs"
    test = f"{drift.late_runs} against {drift.early_runs} runs, Mann-Whitney p = {drift.p_value:.2g}"
    verdict = drift.verdict if drift.verdict == "no drift" else f"became {drift.verdict}"
    return f"Drift: {verdict}; {change} ({test})."


def describe_forecast(profile: Profile) -> str:
    """One sentence."""
    forecast = profile.forecast
    if forecast is None:
        return "Forecast: none, because no whole run has timed I/O."
    where = "as before (the OSTs of its runs are unknown)"
    if forecast.count:
        where = f"on {plural(forecast.count, 'OST')}, its best so far"
    moved, lasts = format_size(forecast.total_bytes.median), format_duration(forecast.seconds)
    return f"Forecast: the next run moves {moved} in {lasts} {where}."


def _perf(spread: Spread) -> tuple[str, ...]:
    return (*map(format_bandwidth, (spread.median, spread.p10, spread.p90)), f"{spread.runs:,}")
