"""Looks at Slurm's jobs and at the service's grants, and does what makes them agree."""

from __future__ import annotations

import time
from pathlib import Path

from forebay.act.control.client import Document, TurnedAway
from forebay.act.slurm.queue import buffers, jobs
from forebay.act.slurm.reconcile import Mend, Terms, mends
from forebay.act.slurm.service import SlurmClient
from forebay.act.slurm.staging import KEPT


def mend(client: SlurmClient, cluster: str, conf: Path | None, terms: Terms) -> list[dict[str, object]]:
    """What was done, grant by grant. Where Slurm can't be asked, nothing is: it may know jobs that we don't see.

    The service is asked first: a job that was there then is there for Slurm now, or has ended since.
    """
    held = [grant for grant in client.live() if not _is_kept(grant)]
    known, own = jobs(conf), buffers(conf)
    return [_do(client, one) for one in mends(held, known, own, cluster=cluster, terms=terms, now=time.time())]


def _is_kept(grant: Document) -> bool:
    """Whether its stage-out failed; then it stays to its end."""
    return grant["path"] != "" and (Path(grant["path"]) / KEPT).is_file()


def _do(client: SlurmClient, one: Mend) -> dict[str, object]:
    told: dict[str, object] = {"grant": one.grant, "job": one.job, "what": one.what, "because": one.because}
    try:
        if one.what == "release":
            client.let_go(one.grant, one.because)
        else:
            client.keep_until(one.grant, one.until)
    except TurnedAway as error:
        return told | {"what": f"{one.what} failed", "because": f"{one.because}: {error}"}
    return told
