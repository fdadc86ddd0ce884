"""The findings of a run on its page: titles for users, and commands to copy."""

import re
from collections.abc import Sequence

from markupsafe import Markup

from forebay.profile.findings.diagnosis import Diagnosis
from forebay.profile.findings.finding import Code, Finding
from forebay.profile.overview.run import RunOverview
from forebay.show.findings import describe_nothing
from forebay.show.phrases import format_share
from forebay.show.run.page import ShownFinding, format_roughly

TITLES = {
    Code.SMALL_REQUESTS: "It moves its data in small pieces",
    Code.SMALL_REQUESTS_SHARED: "Its processes move small pieces of shared files",
    Code.MISALIGNED: "Its requests do not line up with the blocks of the file system",
    Code.RANDOM_ACCESS: "It jumps from place to place in its files",
    Code.NO_COLLECTIVE: "Its processes use a shared file each on its own, without collective calls",
    Code.METADATA_BOUND: "It spends much of its I/O time on opening and looking up files",
    Code.STRIPE_COUNT: "Its shared files are on too few storage targets (OSTs)",
    Code.FEW_OSTS: "Its files crowd on few storage targets (OSTs)",
    Code.SLOW_OST: "A storage target (OST) was slow",
    Code.IMBALANCE: "Some processes move much more data than others, and the others wait",
    Code.REPEATED_READS: "It reads the same data several times",
    Code.BURST_BUFFER: "It writes files and reads them back, again and again",
    Code.STDIO_BULK: "It moves much data through the C library's streams",
    Code.SINGLE_WRITER: "One process does almost all of the I/O",
    Code.PARTIAL_LOG: "The log lacks files, as Darshan ran out of memory",
    Code.INCOMPLETE_LOG: "A part of the log cannot be read",
}
"""What each finding means, in a sentence about the program without its full stop."""
_CONFIDENCE = {"measured": "measured in this run", "modelled": "predicted by a model", "unknown": ""}
_SHELL = re.compile(
    r"lfs (?:set|get)stripe(?: -\S+(?: [\w.]+)?)*(?: [A-Z]{3,})?|forebay (?:advise|history osts|storage request)"
    r"(?: --?[a-z]+)*(?: [A-Z]{3,})?"
)
_CODE = re.compile(rf"{_SHELL.pattern}|\b(?:MPI|H5P|H5FD|DARSHAN)_?\w+(?:=\w+)?|\b(?:romio|cb|striping)_\w+(?:=\w+)?")
_MOST = 10.0


def show_finding(finding: Finding) -> ShownFinding:
    """A finding in words for a user."""
    badges = [f"{format_share(finding.share)} of the I/O time"] if finding.share is not None else []
    if finding.predicted_gain:
        badges.append(f"{format_gain(finding.predicted_gain)} as fast without it")
    if certainty := _CONFIDENCE.get(finding.confidence, finding.confidence):
        badges.append(certainty)
    return ShownFinding(
        title=TITLES.get(finding.code, str(finding.code)),
        code=str(finding.code),
        severity=finding.severity,
        badges=badges,
        seen=finding.seen,
        because=finding.because,
        remedy=_mark_code(finding.remedy),
        commands=list(dict.fromkeys(_SHELL.findall(finding.remedy))),
        files=finding.files,
    )


def format_gain(gain: float) -> str:
    """
    >>> format_gain(1.34), format_gain(47.5)
    ('1.3 times', 'more than 10 times')
    """
    return f"more than {_MOST:.0f} times" if gain > _MOST else f"{gain:.1f} times"


def _mark_code(text: str) -> Markup:
    marked, at = Markup(), 0
    for match in _CODE.finditer(text):
        marked += Markup("{}<code>{}</code>").format(text[at : match.start()], match[0])
        at = match.end()
    return marked + text[at:]


def describe_verdict(overview: RunOverview, diagnosis: Diagnosis) -> list[str]:
    """Two or three sentences that a user understands: how much I/O there is, and what matters most."""
    job, share = overview.evidence.records.job, sum(overview.shares)
    if not any(overview.moved) and not share:
        return ["The log records no I/O of files."]
    each = format_roughly(share * job.run_time)
    who = "The process" if job.nprocs == 1 else "A process"
    mean = "" if job.nprocs == 1 else " on average"
    sentences = [
        f"{who} spent {format_share(share)} of the run on I/O{mean}: {each} of {format_roughly(job.run_time)}."
    ]
    if 2 * share * job.run_time < overview.io_seconds <= job.run_time:
        sentences.append(f"The busiest process spent up to {format_roughly(overview.io_seconds)}.")
    if not diagnosis.findings:
        return [*sentences, describe_nothing(diagnosis)]
    return sentences + describe_first(diagnosis.findings)


def describe_first(findings: Sequence[Finding]) -> list[str]:
    """What matters most, in a sentence."""
    first = findings[0]
    title = TITLES.get(first.code, str(first.code))
    gain = first.predicted_gain
    if not gain:
        return [f"{title}."]
    sure = "" if first.confidence == "measured" else "by a rough model, "
    more = f" {len(findings) - 1} more below." if len(findings) > 1 else ""
    return [f"{title}: without that, {sure}the I/O would be {format_gain(gain)} as fast.{more}"]
