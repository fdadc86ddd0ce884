"""The jobs whose processes are connected to an I/O node: which processes belong to a job, and when it has ended."""

import hashlib
from collections import Counter
from itertools import count

from forebay.act.forward.net.auth import Peer
from forebay.act.forward.net.council_payloads import JobPart
from forebay.act.forward.node.job_accounting import Job, JobProcess


class Jobs:
    """The processes of jobs that are connected here, and summaries of those that left.

    A process may have several connections. Processes of one program that don't name their job count as one job, from
    the first that connects to the last that disconnects.
    """

    def __init__(self, node: str, flows: int = 1) -> None:
        """`node` must be unique to each start of an I/O node. Jobs that find no free flow share flow 0."""
        self._node = node
        self._flows: dict[Job, int] = {}
        self._free_flows = list(range(flows - 1, 0, -1))
        self._serials = count(1)
        self._unnamed: dict[tuple[str, int], int] = {}
        self._processes: dict[Job, dict[str, JobProcess]] = {}
        self._connections: Counter[JobProcess] = Counter()
        self._parts: dict[Job, list[JobPart]] = {}

    def enter(self, peer: Peer, now: int) -> JobProcess:
        """Register a process that connects."""
        part = identify_process(peer, now)
        if not part.job:
            number = job_number(f"{self._node}/{next(self._serials)}")
            part.job = self._unnamed.setdefault((part.app, part.uid), number)
        job = part.app, part.uid, part.job
        if job not in self._flows:
            self._flows[job] = self._free_flows.pop() if self._free_flows else 0
        processes = self._processes.setdefault(job, {})
        if part.process not in processes:
            part.token = f"{self._node}/{next(self._serials)}"
            processes[part.process] = JobProcess(part, self._flows[job])
        process = processes[part.process]
        self._connections[process] += 1
        return process

    def leave(self, process: JobProcess) -> list[JobPart]:
        """Unregister a process that disconnects; return what its job did here, if it was the job's last process."""
        self._connections[process] -= 1
        if self._connections[process]:
            return []
        del self._connections[process]
        job = process.job
        processes, parts = self._processes[job], self._parts.setdefault(job, [])
        del processes[process.part.process]
        part = process.summary()
        if part is not None:
            parts.append(part)
        if processes:
            return []
        del self._processes[job]
        if flow := self._flows.pop(job):
            self._free_flows.append(flow)
        if self._unnamed.get(job[:2]) == job[2]:
            del self._unnamed[job[:2]]
        return self._parts.pop(job)


def identify_process(peer: Peer, now: int) -> JobPart:
    """Identify a client, with defaults for invalid facts; `job` is 0 if the client does not name its job."""
    facts = peer.facts
    app = _text(facts.get("application")) or "unknown"
    return JobPart(
        app=app,
        exe=_text(facts.get("exe")) or app,
        user=_text(facts.get("user")) or None,
        uid=_natural(facts.get("uid")),
        job=job_number(facts.get("job")),
        process=_text(facts.get("process")) or peer.name,
        processes=max(_natural(facts.get("processes")), 1),
        token="",
        begin=now / 1e9,
        end=now / 1e9,
        read_sizes=[],
        write_sizes=[],
        files=[],
    )


def job_number(job: object) -> int:
    """The number itself if a batch system assigned one; for any other name, a number derived from it.

    >>> job_number("4711"), job_number(12), job_number("nightly") == job_number("nightly")
    (4711, 12, True)
    """
    if isinstance(job, int) and 0 <= job < 1 << 62:
        return job
    text = _text(job)
    if text.isascii() and text.isdigit() and len(text) <= 18:
        return int(text)
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest()) >> 2 if text else 0


def _text(value: object) -> str:
    return "".join(c if c.isprintable() else " " for c in value)[:400].strip() if isinstance(value, str) else ""


def _natural(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 53 else 0
