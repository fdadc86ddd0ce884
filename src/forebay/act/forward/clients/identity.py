"""Who a client is, for the history: told to the I/O node when it connects."""

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
    """`application` and `job` as the history should call them, how many `processes` the job has, where it runs."""

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


def identity(application: str = "", job: str = "", processes: int = 0) -> Identity:
    """This process; what is not given comes from the batch system, or from the command line."""
    return Identity(
        application=application or Path(sys.argv[0] if sys.argv else "").name or "python",
        job=job or os.environ.get("SLURM_JOB_ID", ""),
        processes=processes or _tasks(os.environ.get("SLURM_NTASKS", "")),
        host=socket.gethostname(),
        uid=os.getuid(),
    )


def _tasks(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and int(text) > 0 else 1
