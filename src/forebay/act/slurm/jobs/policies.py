"""The policies that a file names for jobs, and whether they can do without what a job can't wait for."""

from __future__ import annotations

from forebay.act.slurm.jobs.settings import JobsFile
from forebay.decide.registry import find, known
from forebay.model.errors import BadInput


def check_policies(rules: JobsFile) -> None:
    """There must be such policies, and none that simulates."""
    if rules.scratch is not None:
        known("scratch.policy", "stripe", rules.scratch.policy)
    if rules.targets is not None:
        spec = known("targets.allocate", "allocate", rules.targets.allocate)
        if find("allocate", spec).simulates:
            raise BadInput("targets.allocate", f"{spec!r} simulates, and no job can wait for that; choose another")
