"""Who a client is, for the history; the I/O node learns it when the client connects."""

from __future__ import annotations

import os
import socket
import sys
from dataclasses import dataclass
from pathlib import Path

from forebay.act.forward.net.auth import Peer

_LONGEST = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """Names of the application and the job for the history, the job's number of processes, and where it runs."""

    application: str
    job: str = ""
    processes: int = 1
    host: str = ""
    uid: int = 0

    def peer(self, session: int) -> Peer:
        facts = {
            "session": session,
            "application": self.application[:_LONGEST],
            "job": self.job[:_LONGEST],
            "processes": self.processes,
            "host": self.host[:_LONGEST],
            "uid": self.uid,
        }
        return Peer(role="client", name=f"{self.host[:_LONGEST]}:{os.getpid()}", facts=facts)


def identify(application: str = "", job: str = "", processes: int = 0) -> Identity:
    """This process; missing values come from the batch system or the command line."""
    return Identity(
        application=application or Path(sys.argv[0] if sys.argv else "").name or "python",
        job=job or os.environ.get("SLURM_JOB_ID", ""),
        processes=processes or _task_count(os.environ.get("SLURM_NTASKS", "")),
        host=socket.gethostname(),
        uid=os.getuid(),
    )


def _task_count(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and int(text) > 0 else 1
