"""The rule about metadata: too many files, or too many opens, lookups and syncs of them."""

from collections.abc import Iterator

import numpy as np

from forebay.history.darshan.file_records import Uses
from forebay.model.units import format_duration, format_size, plural
from forebay.profile.findings.evidence import Counts, Evidence
from forebay.profile.findings.finding import Code, Finding, Relief
from forebay.profile.findings.thresholds import LEAST_CALLS, LEAST_GAIN, LEAST_SECONDS, MOST_GAIN, MOSTLY, NOTICEABLE

_LEAST_METADATA = 0.2  # of the time
_SMALL_FILE = 64 << 10  # what a metadata server of Lustre may keep itself
_METADATA_CALLS = {"opens": "open", "stats": "lookup", "syncs": "sync"}


def find_metadata_bound(evidence: Evidence) -> Iterator[Finding]:
    uses = evidence.posix
    opens: Counts = uses["opens"]
    stats: Counts = uses["stats"]
    syncs: Counts = uses["syncs"]
    calls = opens.astype(np.int64) + stats + syncs
    names = float(evidence.name_seconds.sum())
    needed = min(int(calls.sum()), 4 * evidence.nprocs)
    saved = names - needed * evidence.fs.name
    gain = evidence.predict_gain(saved)
    meta = float(evidence.records.posix["meta_seconds"].sum())
    many = calls.sum() >= LEAST_CALLS * evidence.nprocs and names >= _LEAST_METADATA * evidence.seconds
    measured = _measured_metadata(evidence)
    if not measured and (not many or gain < LEAST_GAIN):
        return
    files = evidence.count_files(np.ones(uses.size, dtype=bool))
    size = evidence.bytes_moved / max(files, 1)
    took = f", {format_duration(measured)} in all" if measured else ""
    yield Finding(
        code=Code.METADATA_BOUND,
        seen=f"{_count_metadata(uses)} on {plural(files, 'file')} with {format_size(size)} each on average{took}",
        because="opening, creating or looking up a file costs a metadata server a millisecond or so, "
        "however small the file is"
        if many
        else "Darshan measured more time in opening and closing files and looking them up than in moving data",
        remedy=_advise_on_metadata(evidence, many),
        share=(meta + _time_in_small_files(uses) * many) / evidence.measured_seconds
        if evidence.measured_seconds > 0
        else None,
        predicted_gain=gain if many else MOST_GAIN,
        confidence="modelled" if many else "measured",
        numbers={"opens": int(uses["opens"].sum()), "stats": int(uses["stats"].sum()), "file_count": files},
        files=evidence.name_files(calls),
        relief=Relief(saved=saved) if many else None,
    )


def _time_in_small_files(uses: Uses) -> float:
    """Darshan's seconds for the data of files that are so small that only their number counts."""
    return float(uses["seconds"][uses["bytes"].sum(axis=1) < _SMALL_FILE].sum())


def _count_metadata(uses: Uses) -> str:
    counts = ((int(uses[name].sum()), what) for name, what in _METADATA_CALLS.items())
    return " and ".join(plural(count, what) for count, what in counts if count)


def _advise_on_metadata(evidence: Evidence, many: bool) -> str:
    advice = ["Keep many small pieces in one file (HDF5, ADIOS, tar, a container image, SQLite)"] if many else []
    advice.append("open files once and keep them open")
    if evidence.nprocs > 1:
        advice.append("let one process look up what the others need")
    if evidence.nprocs > 1 and {"H5F", "H5D"} & evidence.records.modules.keys():
        advice.append(
            "make HDF5's metadata calls collective (H5Pset_all_coll_metadata_ops, H5Pset_coll_metadata_write)"
        )
    text = ", and ".join(filter(None, (", ".join(advice[:-1]), advice[-1])))
    on_mdt = (
        " forebay advise --apply DIR keeps small files on the metadata servers alone, where Lustre has room for them."
        if many and evidence.records.layouts
        else ""
    )
    return f"{text[0].upper()}{text[1:]}.{on_mdt}"


def _measured_metadata(evidence: Evidence) -> float:
    """Darshan's seconds of metadata calls, if they are most of the I/O time; 0.0 otherwise. A sync counts as one, but
    it waits for data."""
    records = evidence.records.posix
    syncs: Counts = records["syncs"]
    seconds = float(records["meta_seconds"][syncs == 0].sum())
    each = seconds / evidence.nprocs
    noticed = each >= max(NOTICEABLE * evidence.records.job.run_time, LEAST_SECONDS)
    return seconds if seconds > MOSTLY * evidence.measured_seconds and noticed else 0.0
