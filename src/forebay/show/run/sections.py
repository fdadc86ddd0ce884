"""The sections of a run's page on requests, files, storage targets and processes."""

from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from forebay.history.darshan.file_records import CALL_KINDS
from forebay.history.run_fields import SIZE_BINS
from forebay.model.units import format_binary, format_size, plural
from forebay.profile.overview.files import SHOWN, File, FileGroup
from forebay.profile.overview.run import RunOverview
from forebay.profile.overview.targets import Target
from forebay.show.phrases import cut_middle, format_share
from forebay.show.report import Table
from forebay.show.run import drawings
from forebay.show.run.page import Facts, Picture, Section, format_roughly

_MOST_TARGETS = 12
_MOST_COLUMNS = 120
_MOST_COMMON = 6
_REQUESTS = {"POSIX": "Requests to the file system", "DFS": "Requests to DAOS", "MPI-IO": "MPI-IO calls"}


def show_requests(overview: RunOverview) -> Section | None:
    """The sizes and the order of requests, and the calls of each interface; None without any."""
    if not overview.totals:
        return None
    tables = []
    for name, title in _REQUESTS.items():
        if name in overview.totals and overview.totals[name].sizes.any():
            tables.append(draw_sizes(title, overview.totals[name].sizes))
            if len(tables) == 1:
                tables.append(_list_common_sizes(overview.totals[name].common))
    known = bool(tables)
    notes = [] if known else ["The log has no request sizes: Darshan does not record those of the C library's streams."]
    tables.append(_describe_interfaces(overview))
    legend = drawings.OPERATIONS[:2] if known else ()
    return Section(title="Requests", notes=notes, facts=_describe_order(overview), tables=tables, legend=legend)


def _describe_order(overview: RunOverview) -> Facts:
    facts: list[tuple[str, object]] = []
    if order := overview.order:
        if order.contiguous or order.ahead or order.jumps:
            facts += [
                ("Begin where the last one ended", format_share(order.contiguous)),
                ("Go ahead by a stride that recurs", format_share(order.ahead)),
                ("Jump ahead or back", format_share(order.jumps)),
            ]
        facts.append(("Not at a block of the file system", format_share(order.unaligned)))
    if calls := overview.collective + overview.independent:
        facts.append(("Collective MPI-IO calls", f"{overview.collective:,} of {calls:,}"))
    return facts


def _list_common_sizes(common: Counter[int]) -> Table:
    rows = [(format_binary(size), f"{count:,}") for size, count in common.most_common(_MOST_COMMON)]
    return Table("The most common sizes", ("size", "requests"), rows)


def draw_sizes(title: str, sizes: NDArray[np.int64]) -> Table:
    """A histogram of requests by operation and size."""
    most = max(int(sizes.max()), 1)
    used = np.flatnonzero(sizes.sum(axis=0))
    rows = []
    for place in range(int(used[0]), int(used[-1]) + 1):
        reads, writes = (int(count) for count in sizes[:, place])
        bars = drawings.draw_bar(reads / most, drawings.READ), drawings.draw_bar(writes / most, drawings.WRITE)
        rows.append((_name_size(SIZE_BINS[place]), bars[0], f"{reads:,}", bars[1], f"{writes:,}"))
    return Table(title, ("size", "", "reads", "", "writes"), rows)


def _name_size(size: str) -> str:
    """
    >>> _name_size("0-100"), _name_size("100-1K"), _name_size("1G+")
    ('to 100 B', 'to 1 KiB', 'over 1 GiB')
    """
    bound = size.rstrip("+").rpartition("-")[2]
    number, unit = bound.rstrip("KMG"), bound.lstrip("0123456789")
    return f"{'over' if size.endswith('+') else 'to'} {number} {unit}{'i' * bool(unit)}B"


def _describe_interfaces(overview: RunOverview) -> Table:
    kinds = [kind for kind in CALL_KINDS if any(totals.calls[kind] for totals in overview.totals.values())]
    rows = [
        (name, *map(format_size, totals.moved), *(f"{seconds:,.2f} s" for seconds in totals.seconds),
         *(f"{totals.calls[kind]:,}" for kind in kinds))
        for name, totals in overview.totals.items()
    ]  # fmt: skip
    heads = ("interface", "read", "written", "reading", "writing", "metadata", *kinds)
    note = "Seconds are those of all processes."
    if "MPI-IO" in overview.totals:
        note += " MPI-IO calls reach the file system as POSIX requests: the same bytes appear in both."
    return Table("Calls by interface", heads, rows, note)


# Files


def show_files(overview: RunOverview) -> Section | None:
    """The first files in several orders, and all files by use and by file system; None if there are none."""
    files = overview.files
    if not files.count:
        return None
    choices = [_list_files(order, chosen) for order, chosen in files.orders.items() if chosen]
    shown = plural(files.count, "file") + (f", {SHOWN} of them below" if files.count > SHOWN else "")
    shown += ". Seconds are those of all processes."
    groups = [_list_groups("What they were used for", files.uses)]
    if len(files.mounts) > 1:
        groups.append(_list_groups("Where they are", files.mounts))
    return Section(title="Files", notes=[shown], choices=choices, tables=groups)


def _list_files(order: str, files: Sequence[File]) -> Table:
    rows = [
        (cut_middle(file.name), format_size(file.moved[0]), format_size(file.moved[1]), f"{sum(file.requests):,}",
         f"{sum(file.seconds) + file.meta_seconds:,.2f} s", f"{file.opens:,}", file.processes, file.stripes or "-")
        for file in files
    ]  # fmt: skip
    heads = ("file", "read", "written", "requests", "I/O", "opens", "processes", "stripes")
    return Table(order.capitalize(), heads, rows)


def _list_groups(title: str, groups: Sequence[FileGroup]) -> Table:
    rows = [
        (
            group.name,
            f"{group.count:,}",
            format_size(group.moved[0]),
            format_size(group.moved[1]),
            format_size(group.largest) if group.largest else "-",
        )
        for group in groups
    ]
    return Table(title, ("", "files", "read", "written", "largest"), rows)


# Storage targets


def show_targets(overview: RunOverview) -> Section | None:
    """The OSTs of a run; None if they are unknown."""
    return list_targets(overview.targets) if overview.targets else None


def list_targets(targets: Sequence[Target]) -> Section:
    """The OSTs of a run, the slow ones first, then those with most bytes."""
    slow = [target for target in targets if target.slow]
    notes = [f"The files of this run were on {plural(len(targets), 'OST')}."]
    if slow:
        which = ", ".join(str(target.ost) for target in slow[:8])
        notes.append(f"OST {which} took much longer for each byte than the others.")
    used = [target for target in targets if target.moved or target.seconds] or targets
    first = sorted(used, key=lambda target: (not target.slow, -target.moved, target.ost))[:_MOST_TARGETS]
    most = max(target.moved for target in targets) or 1
    several = len({target.filesystem for target in targets}) > 1
    rows = [
        (
            f"{target.filesystem} OST {target.ost}" if several else f"OST {target.ost}",
            drawings.draw_bar(target.moved / most, _kind_of(target)),
            format_size(target.moved),
            f"{target.seconds:,.2f} s",
            f"{target.files:,}",
            "-" if target.slowness is None else f"{target.slowness:.1f}",
        )
        for target in first
    ]
    every = len(first) == len(used)
    title = "Those that moved bytes" if every else f"{len(first)} of them: slow ones, then those with most bytes"
    note = "Slowness is the time for each byte, by that of the median OST of the run."
    table = Table(title, ("", "", "moved", "I/O", "files", "slowness"), rows, note)
    return Section(title="Storage targets", notes=notes, pictures=_draw_targets(targets), tables=[table])


def _kind_of(target: Target) -> str:
    return "slow" if target.slow else drawings.WRITE


def _draw_targets(targets: Sequence[Target]) -> list[Picture]:
    if len(targets) < 2 or not any(target.seconds for target in targets):
        return []
    drawn, caption = targets, "Seconds of all processes on each OST"
    if len(targets) > _MOST_COLUMNS:  # the largest of each group
        groups = np.array_split(np.arange(len(targets)), _MOST_COLUMNS)
        drawn = [max((targets[place] for place in group), key=lambda target: target.seconds) for group in groups]
        each = -(-len(targets) // _MOST_COLUMNS)
        caption = f"Seconds of all processes, on the busiest of up to {each} OSTs in each column"
    kinds = [_kind_of(target) for target in drawn]
    labels = [f"OST {target.ost}: {target.seconds:,.1f} s" for target in drawn]
    caption += "; slow ones are red." if "slow" in kinds else "."
    drawing = drawings.draw_columns([target.seconds for target in drawn], kinds, caption, labels)
    return [Picture(drawing=drawing, caption=caption, axis=[f"OST {targets[0].ost}", f"OST {targets[-1].ost}"])]


# Processes


def show_processes(overview: RunOverview) -> Section | None:
    """How many bytes each process moved; None if there is only one."""
    nprocs, by_process = overview.evidence.nprocs, overview.by_process
    if nprocs == 1 or not any(overview.moved):
        return None
    if by_process is None:
        hidden = "The log has a single record for all processes, and no heat map: it hides who moved what."
        return Section(title="Processes", notes=[hidden, *_describe_extremes(overview)])
    moved = by_process.sum(axis=0)
    low, middle, high = (float(value) for value in (moved.min(), np.median(moved), moved.max()))
    idle = int((moved == 0).sum())
    facts: list[tuple[str, object]] = [
        ("Least", format_size(low)),
        ("Median", format_size(middle)),
        ("Most", f"{format_size(high)} (process {int(moved.argmax())})"),
        ("Mean", format_size(float(moved.mean()))),
    ]
    if idle:
        facts.append(("Without I/O", plural(idle, "process")))
    columns = min(nprocs, _MOST_COLUMNS)
    groups = np.array_split(moved, columns)
    most = [float(group.max()) for group in groups]
    caption = "Bytes of each process."
    if columns < nprocs:
        caption = f"The most bytes of a process, among up to {-(-nprocs // columns)} in each column."
    drawing = drawings.draw_columns(most, [drawings.WRITE] * columns, caption)
    picture = Picture(drawing=drawing, caption=caption, axis=["process 0", f"process {nprocs - 1:,}"])
    return Section(title="Processes", facts=facts, pictures=[picture])


def _describe_extremes(overview: RunOverview) -> list[str]:
    """What is known about the file for which a process took longest."""
    if (slowest := overview.slowest_file) is None:
        return []
    (fast, slow), (fast_bytes, slow_bytes) = slowest.ranks, slowest.rank_bytes
    return [
        f"In {cut_middle(slowest.name)}, process {slow} took longest: {format_roughly(slowest.seconds)} for "
        f"{format_size(slow_bytes)}. The fastest, process {fast}, moved {format_size(fast_bytes)}."
    ]
