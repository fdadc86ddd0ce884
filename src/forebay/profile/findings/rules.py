"""The rules: what must be seen in a run for each finding.

A rule compares the model's time of the run's I/O with the time after one change, and reports the change if the I/O
would be at least `LEAST_GAIN` times as fast.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from forebay.history.darshan.file_records import Uses, count_strided
from forebay.model.arrays import Bools, Floats, Ints
from forebay.model.units import format_binary, format_size, plural
from forebay.profile.findings.evidence import Counts, Evidence, Files
from forebay.profile.findings.finding import Code, Finding, Relief
from forebay.profile.findings.metadata_rules import find_metadata_bound
from forebay.profile.findings.process_rules import find_uneven_processes
from forebay.profile.findings.target_rules import find_crowded_targets, find_slow_targets
from forebay.profile.findings.thresholds import LEAST_CALLS, LEAST_GAIN, MOSTLY

Rule = Callable[[Evidence], Iterator[Finding]]
_LEAST_REPEATS = 1.8
_WAITED_FOR = {Code.IMBALANCE, Code.SINGLE_WRITER, Code.SLOW_OST}
"""Few processes have the time of these, and all others wait for them."""
_BURST_BUFFER = 4.0  # how many times as fast as the parallel file system it is assumed to be
_BECOME_COLLECTIVE = (
    "Use collective MPI-IO (MPI_File_write_at_all, H5FD_MPIO_COLLECTIVE) with collective buffering "
    "(hints romio_cb_write=enable, romio_cb_read=enable), or collect the data in fewer, larger requests."
)
_ALREADY_COLLECTIVE = (
    "The calls are collective, but MPI-IO passes small pieces on: set the hints romio_cb_write=enable, "
    "romio_cb_read=enable and a larger cb_buffer_size, and romio_ds_write=disable if it reads what the program writes."
)


def find_problems(evidence: Evidence) -> list[Finding]:
    """Find all problems of a run, the most costly first."""
    rules: tuple[Rule, ...] = (find_partial_log, find_incomplete_log)
    if evidence.seconds > 0 and (evidence.matters or evidence.records.partial):
        rules = RULES if evidence.matters else PATTERNS
    findings = [_bound_gain(finding) for rule in rules for finding in rule(evidence)]
    findings = [f for f in findings if f.predicted_gain is None or f.predicted_gain >= LEAST_GAIN]
    return sorted(findings, key=lambda f: (-(f.predicted_gain or 1.0), -(f.share or 0.0), f.code))


def _bound_gain(finding: Finding) -> Finding:
    """Whatever the model says, saving a tenth of the I/O time makes the I/O at most 1.11 times as fast."""
    if finding.code in _WAITED_FOR or finding.predicted_gain is None or finding.share is None:
        return finding
    return replace(finding, predicted_gain=min(finding.predicted_gain, 1 / max(1 - finding.share, 1e-9)))


def _describe_operation(weights: Floats) -> str:
    """`weights` are those of reads and of writes."""
    if min(weights) > 0.2 * max(weights):
        return "reads and writes"
    return "reads" if weights[0] > weights[1] else "writes"


def _describe_sizes(requests: Ints, moved: Ints) -> str:
    """Such as "400 reads of 1.2 kB and 20 writes of 64 kB", without those that hardly count."""
    counts, sizes = requests.sum(axis=0).tolist(), moved.sum(axis=0).tolist()
    return " and ".join(
        f"{count:,} {kind} of {format_size(size / count)}"
        for kind, count, size in zip(("reads", "writes"), counts, sizes, strict=True)
        if 100 * count > sum(counts) and size
    )


def find_small_requests(evidence: Evidence) -> Iterator[Finding]:
    uses = evidence.posix
    requests, moved = uses["requests"], uses["bytes"]
    alone = _find_lone_requests(evidence)
    is_small = (uses["small"] > MOSTLY * requests) & ((requests > 1) | alone)
    for shared in (False, True):
        chosen = is_small & (evidence.is_shared == shared)[:, None]
        saved = (evidence.data_seconds - evidence.ideal_seconds) * chosen
        saved += (chosen & alone) * (np.array(evidence.fs.call) + evidence.fs.latency)
        gain = evidence.predict_gain(float(saved.sum()), chosen)
        count, total = int(requests[chosen].sum()), int(moved[chosen].sum())
        if gain < LEAST_GAIN or count < LEAST_CALLS * evidence.nprocs:
            continue
        files = evidence.count_files(chosen.any(axis=1))
        if shared:
            where = f"{plural(files, 'file')} that several processes share"
            remedy = _ALREADY_COLLECTIVE if evidence.calls_collectively else _BECOME_COLLECTIVE
        else:
            where = plural(files, "file") + (" of single processes" if evidence.nprocs > 1 else "")
            remedy = (
                "Collect data in a buffer and move at least 4 MiB at a time (setvbuf, an HDF5 chunk cache, a larger "
                "record in the program's own buffer)."
            )
        yield Finding(
            code=Code.SMALL_REQUESTS_SHARED if shared else Code.SMALL_REQUESTS,
            seen=f"{_describe_sizes(requests * chosen, moved * chosen)} on average, in {where}",
            because="each request costs a call, and a round trip to a server unless it continues the previous one"
            + ("; processes that write to the same file also wait for each other's locks" if shared else "")
            + ("; a sync after most writes sends each on its own" if _is_synced(uses, chosen) else ""),
            remedy=remedy,
            share=evidence.measure_share(chosen.any(axis=1)),
            predicted_gain=gain,
            numbers={"requests": count, "mean_bytes": total // count, "file_count": files},
            files=evidence.name_files(saved.sum(axis=1)),
            relief=Relief(saved=float(saved.sum()), undone=chosen),
        )


def _is_synced(uses: Uses, chosen: Bools) -> bool:
    """Whether the program syncs after most of these writes."""
    syncs: Counts = uses["syncs"]
    return bool(syncs[chosen[:, 1]].sum() > MOSTLY * uses["requests"][chosen[:, 1], 1].sum())


def _find_lone_requests(evidence: Evidence) -> Bools:
    """Which records have one read or write, in files of single processes that are many: the data of all could be moved
    together. In a few files, one small request is no problem."""
    alone: Bools = (evidence.posix["requests"] == 1) & ~evidence.is_shared[:, None]
    alone &= alone.sum(axis=0) >= LEAST_CALLS * evidence.nprocs
    return alone


def find_misaligned(evidence: Evidence) -> Iterator[Finding]:
    uses = evidence.posix
    saved = evidence.compute_by_blocks(lambda block: _find_misaligned_seconds(evidence, block), ())
    chosen = np.asarray(saved > 0)
    undone = np.column_stack((chosen, chosen))
    gain = evidence.predict_gain(float(saved.sum()), undone)
    if gain < LEAST_GAIN:
        return
    unaligned: Ints = uses["unaligned"]
    requests: Ints = uses["requests"]
    count, total = int(unaligned[chosen].sum()), int(requests[chosen].sum())
    block, common = (int(uses[name][np.argmax(saved)]) for name in ("alignment", "common_size"))
    yield Finding(
        code=Code.MISALIGNED,
        seen=f"{count:,} of {total:,} requests don't begin at a multiple of {format_binary(block)} "
        f"(the commonest has {common:,} bytes)",
        because="such a request touches one more block or stripe than its size needs, and two processes can need the "
        "lock of the same one",
        remedy=f"Make records and their offsets multiples of {format_binary(block)}; with HDF5, "
        f"H5Pset_alignment(fapl, 0, {block})"
        + ("; with MPI-IO, hints striping_unit and romio_cb_write=enable." if evidence.nprocs > 1 else "."),
        share=evidence.measure_share(chosen),
        predicted_gain=gain,
        numbers={"requests": count, "of": total, "alignment": block, "common_size": common},
        files=evidence.name_files(saved),
        relief=Relief(saved=float(saved.sum()), undone=undone),
    )


def _find_misaligned_seconds(evidence: Evidence, block: slice) -> Floats:
    """What each record of a part of `posix` would save if its requests began at blocks."""
    uses, shared = evidence.posix[block], evidence.is_shared[block]
    requests: Ints = uses["requests"].sum(axis=1)
    alignment: Counts = uses["alignment"]
    common_size: Ints = uses["common_size"]
    unaligned: Ints = uses["unaligned"]
    unit, size = np.maximum(alignment, 1), np.maximum(common_size, 1)
    crosses = (size % unit != 0) & (unit % size != 0)  # else a request ends where a block ends
    cached = ~shared & (uses["bytes"].sum(axis=1) < (1 << 20) * requests)  # the client's cache combines them
    chosen = (unaligned > MOSTLY * requests) & crosses & ~cached & (requests > 1)
    latency = uses["requests"] @ np.array(evidence.fs.latency) / np.maximum(requests, 1)
    extra = latency + shared * evidence.fs.lock
    return np.asarray(np.minimum(unaligned * extra, evidence.data_seconds[block].sum(axis=1) / 2) * chosen)


def find_random_access(evidence: Evidence) -> Iterator[Finding]:
    uses = evidence.posix
    requests: Ints = uses["requests"]
    jumps: Ints = uses["jumps"]
    chosen: Bools = (jumps > MOSTLY * requests) & (jumps > LEAST_CALLS)
    chosen &= uses["extent"] > evidence.fs.rpc  # what one request can hold is not read here and there
    random: Bools = np.asarray(chosen.any(axis=1))
    saved = evidence.compute_by_blocks(lambda block: _find_random_seconds(evidence, block) * chosen[block])
    gain = evidence.predict_gain(float(saved.sum()), chosen)
    if gain < LEAST_GAIN:
        return
    count, total = int(jumps[chosen].sum()), int(requests[chosen].sum())
    kind = _describe_operation(saved.sum(axis=0))
    yield Finding(
        code=Code.RANDOM_ACCESS,
        seen=f"{count:,} of {total:,} {kind} jump to an offset that neither continues the last one nor "
        "repeats a stride",
        because="nothing can be read ahead or written together, so each such request waits for a server",
        remedy="Sort the requests by offset, or read whole blocks and select in memory. Put input that is read in "
        "random order (training) on the burst buffer, or into larger records.",
        share=evidence.measure_share(np.asarray(random)),
        predicted_gain=gain,
        numbers={"requests": count, "of": total},
        files=evidence.name_files(saved.sum(axis=1)),
        relief=Relief(saved=float(saved.sum()), undone=chosen),
    )


def _find_random_seconds(evidence: Evidence, block: slice) -> Floats:
    """What the reads and the writes of each record of a part of `posix` would save if they were in order."""
    uses = evidence.posix[block]
    jumps: Ints = uses["jumps"]
    moved: Ints = uses["bytes"]
    requests: Ints = uses["requests"]
    in_order = moved / evidence.fs.rpc * jumps / np.maximum(requests, 1)
    return np.asarray(np.maximum(jumps - in_order, 0) * evidence.fs.latency)


def find_no_collective(evidence: Evidence) -> Iterator[Finding]:
    """Processes that take turns in a file, piece by piece, with calls that each makes on its own. Collective calls
    would put the pieces of all together; they can't do so with blocks of one process, or with places that are
    random."""
    if not evidence.is_shared.any():
        return
    calls, uses = evidence.records.calls, evidence.posix
    independent: Ints = calls["independent"].sum(axis=1)
    collective: Ints = calls["collective"].sum(axis=1)
    called: Files = calls["id"]
    used: Files = uses["id"]
    alone = np.isin(used, called[(independent > 1) & (independent > collective)]) | ~np.isin(used, called)
    turns = count_strided(uses, evidence.nprocs) > MOSTLY * uses["requests"]
    turns &= (alone & evidence.is_shared)[:, None]
    chosen: Bools = np.asarray(turns.any(axis=1))
    if not chosen.any():
        return
    saved = np.where(turns, evidence.data_seconds - evidence.ideal_seconds, 0.0)
    requests: Ints = uses["requests"]
    ids = np.unique(used[chosen])
    count = int(independent[np.isin(called, ids)].sum())
    gain = evidence.predict_gain(float(saved.sum()) - requests[turns].sum() * evidence.fs.exchange, turns)
    if gain < LEAST_GAIN:
        return
    mean = int(uses["bytes"][turns].sum() / requests[turns].sum())
    kind = "independent MPI-IO calls" if count else "requests of POSIX, none of MPI-IO,"
    yield Finding(
        code=Code.NO_COLLECTIVE,
        seen=f"{count or int(requests[turns].sum()):,} {kind} on {plural(ids.size, 'shared file')}, "
        f"{format_size(mean)} each on average, in which the processes take turns",
        because="with collective calls, MPI-IO first exchanges data among processes and then moves large contiguous "
        "pieces",
        remedy="Call MPI_File_write_at_all and MPI_File_read_at_all (HDF5: H5Pset_dxpl_mpio(H5FD_MPIO_COLLECTIVE); "
        "PnetCDF and netCDF: collective access).",
        share=evidence.measure_share(chosen),
        predicted_gain=gain,
        numbers={"independent_calls": count, "mean_bytes": mean, "file_count": ids.size},
        files=evidence.name_files(saved.sum(axis=1)),
        relief=Relief(saved=float(saved.sum()) - requests[turns].sum() * evidence.fs.exchange, undone=turns),
    )


def _may_repeat_reads(uses: Uses, shared: Bools) -> Bools:
    """Which records may belong to files that are read repeatedly; few of millions do."""
    moved: Ints = uses["bytes"]
    extent: Ints = uses["extent"][:, 0]
    rank: Counts = uses["rank"]
    read, written = moved.T
    again: Bools = (read > 0) & (read >= _LEAST_REPEATS * np.maximum(extent, written))
    return again | (shared & (rank >= 0))  # a merged record has all reads of its file


def find_repeated_reads(evidence: Evidence) -> Iterator[Finding]:
    candidates = _may_repeat_reads(evidence.posix, evidence.is_shared)
    uses = evidence.posix[candidates]
    file: Files = uses["id"]
    ids, of = np.unique(file, return_inverse=True)
    read = np.bincount(of.ravel(), weights=uses["bytes"][:, 0], minlength=ids.size)
    extent = np.zeros(ids.size)
    np.maximum.at(extent, of.ravel(), uses["extent"][:, 0])
    written = np.bincount(of.ravel(), weights=uses["bytes"][:, 1], minlength=ids.size)
    repeats = read / np.maximum(np.maximum(extent, written), 1)  # what is written again may be read again
    again: Bools = repeats >= _LEAST_REPEATS
    part = np.zeros(evidence.posix.size)
    part[candidates] = np.where(again, 1 - 1 / np.maximum(repeats, 1), 0.0)[of.ravel()]
    saved = part * evidence.data_seconds[:, 0]
    gain = evidence.predict_gain(float(saved.sum()))
    if gain < LEAST_GAIN:
        return
    times = float(read[again].sum() / extent[again].sum())
    yield Finding(
        code=Code.REPEATED_READS,
        seen=f"{format_size(read[again].sum())} read from {plural(int(again.sum()), 'file')} of which "
        f"{format_size(extent[again].sum())} were used: {times:.1f} times each byte",
        because="the same bytes travel from the servers again",
        remedy=(
            "Let one process read and broadcast to the others (MPI_Bcast, or a collective read), keep"
            if evidence.nprocs > 1
            else "Keep"
        )
        + " the data in memory between phases, or stage the files into the burst buffer or the node's memory.",
        share=evidence.measure_share(part),
        predicted_gain=gain,
        numbers={"bytes_read": int(read[again].sum()), "extent": int(extent[again].sum())},
        files=evidence.name_files(saved),
        relief=Relief(saved=float(saved.sum())),
    )


def find_burst_buffer(evidence: Evidence) -> Iterator[Finding]:
    """Files that the run writes and reads again and again."""
    uses = evidence.posix
    volume: Ints = uses["bytes"]
    largest: Ints = uses["extent"].max(axis=1)
    read, written = volume.T
    first_read, first_write = uses["begin"].T
    extent = np.maximum(largest, 1)
    again = (first_write < first_read) & (np.minimum(read, written) >= _LEAST_REPEATS * extent)
    saved = float(evidence.data_seconds[again].sum()) * (1 - 1 / _BURST_BUFFER)
    gain = evidence.predict_gain(saved)
    if gain < LEAST_GAIN:
        return
    moved = int(read[again].sum() + written[again].sum())
    files = evidence.count_files(again)
    yield Finding(
        code=Code.BURST_BUFFER,
        seen=f"{plural(files, 'file')} written and read back several times in this run: {format_size(moved)} moved, "
        f"{100 * moved / evidence.bytes_moved:.0f} % of all bytes",
        because="data that only this run needs travels to the parallel file system and back",
        remedy="Put these files on the burst buffer (#BB_LUA capacity=..., forebay storage request) or the node's own "
        "disk, and keep only the last version.",
        share=evidence.measure_share(again),
        predicted_gain=gain,
        numbers={"bytes": moved, "file_count": files},
        files=evidence.name_files(again * (read + written)),
        relief=Relief(saved=saved),
    )


def find_stdio_bulk(evidence: Evidence) -> Iterator[Finding]:
    uses = evidence.records.stdio
    moved = int(uses["bytes"].sum())
    saved = float((evidence.stdio_seconds - (uses["bytes"] / evidence.fs.bandwidth).sum(axis=1)).sum())
    gain = evidence.predict_gain(saved)
    if gain < LEAST_GAIN or moved < (1 << 20):
        return
    seconds = float(uses["seconds"].sum() + uses["meta_seconds"].sum())
    yield Finding(
        code=Code.STDIO_BULK,
        seen=f"{format_size(moved)} through the C library's streams (fread, fwrite, fprintf), "
        f"{100 * moved / max(evidence.bytes_moved, 1):.0f} % of all bytes",
        because="a stream moves 4 KiB at a time through a buffer of its own, and processes can't share it",
        remedy="Use read and write, MPI-IO or HDF5 for data; keep streams for text. setvbuf with 4 MiB helps at once.",
        share=seconds / evidence.measured_seconds if evidence.measured_seconds > 0 else None,
        predicted_gain=gain,
        relief=Relief(saved=saved),
        numbers={"bytes": moved},
        files=evidence.name_files(uses["bytes"].sum(axis=1), uses),
    )


def find_partial_log(evidence: Evidence) -> Iterator[Finding]:
    if not evidence.records.partial:
        return
    yield Finding(
        code=Code.PARTIAL_LOG,
        seen="Darshan ran out of memory and left files out",
        because="what the log leaves out may be the largest part: shares and gains are those of the rest",
        remedy="Give Darshan more memory (DARSHAN_MODMEM=64, in MiB), or leave files out by name "
        "(DARSHAN_EXCLUDE_DIRS). If the run needs so many files, their number may be what it waits for.",
        confidence="unknown",
    )


def find_incomplete_log(evidence: Evidence) -> Iterator[Finding]:
    if not evidence.records.unreadable:
        return
    yield Finding(
        code=Code.INCOMPLETE_LOG,
        seen="; ".join(f"the log {reason}" for reason in evidence.records.unreadable),
        because="shares and gains are those of the rest",
        remedy="If a newer Darshan wrote the log, update Forebay and the package darshan. If the log is damaged, "
        "darshan-parser shows how far it is readable.",
        confidence="unknown",
    )


RULES: tuple[Rule, ...] = (
    find_small_requests, find_misaligned, find_random_access, find_no_collective, find_metadata_bound,
    find_uneven_processes, find_repeated_reads, find_burst_buffer, find_stdio_bulk, find_crowded_targets,
    find_slow_targets, find_partial_log, find_incomplete_log,
)  # fmt: skip
PATTERNS: tuple[Rule, ...] = (
    find_small_requests, find_misaligned, find_random_access, find_partial_log, find_incomplete_log,
)  # fmt: skip
"""What can be said of a log that lacks the records of most I/O time: how the requests are that it has."""
