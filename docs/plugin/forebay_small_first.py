"""A scheduling policy in a package of its own."""

import numpy as np

from forebay.decide.policy import scheduler
from forebay.decide.schedule.backfill import plan_start
from forebay.decide.schedule.profile import fits, project_ends
from forebay.decide.schedule.view import soonest_start
from forebay.model.kernels import kernel


@scheduler("small-first", source="an example")
@kernel
def small_first(view, memory, starts):
    """The first job gets its nodes and bytes; of the others, those with few bytes go first."""
    profile, queue = memory.profile, view.queue
    project_ends(view, profile)
    sizes = view.jobs["bytes"][queue] + 1
    sizes[:1] = 0
    sizes[view.jobs["held"][queue]] = -1
    for place in np.argsort(sizes, kind="mergesort"):
        job = view.jobs[queue[place]]
        soonest = soonest_start(view, job)
        if sizes[place] <= 0 or fits(profile, job, soonest, job.walltime):
            plan_start(profile, starts, queue[place], job, soonest)
