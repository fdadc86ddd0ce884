"""Before a job: what it gets is decided once, and told on each of its nodes."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from forebay.act.slurm.jobs.environment import Told, leave_word, told_before
from forebay.act.slurm.jobs.job import Job
from forebay.act.slurm.jobs.settings import JobsFile
from forebay.history.store import Store
from forebay.history.store.running_jobs import begin_job, forget_job, is_decided, mark_decided
from forebay.model.errors import UserError

_SLACK = 600.0
"""Seconds that targets are kept beyond the job's time limit, for whoever ends it to say so."""
_POLL = 0.1


def prolog(
    store: Store,
    rules: JobsFile,
    job: Job,
    look_up: Callable[[Job], Job],
    *,
    now: float,
    chance: float,
    pause: Callable[[float], None] = time.sleep,
) -> Told:
    """Decide once for a job, however many of its nodes ask; every node leaves word for the tasks there.

    `look_up` tells more of the job, and is asked by the one that decides only. In shadow mode all is decided and
    remembered, and nothing is kept, set or told.
    """
    if rules.mode == "shadow":
        return _decided(store, rules, look_up(job), now, chance)
    with store.writing() as connection:
        first = begin_job(connection, job.job, until=now + rules.lease, now=now)
    found = _first(store, rules, look_up(job), now, chance) if first else _again(store, rules, job, now, pause)
    found = _with_space(found, rules, job)
    leave_word(rules, job, found.environment)
    return found


def _with_space(found: Told, rules: JobsFile, job: Job) -> Told:
    """Where the space of the job is on this node, if there is any."""
    if rules.space is None:
        return found
    from forebay.act.slurm.jobs.exposed_space import attached_for

    try:
        told, troubles = attached_for(rules.space, job)
    except UserError as error:
        told, troubles = {}, (str(error),)
    words = {**found.words, **({"space": told["FOREBAY_PATHS"]} if told else {})}
    environment = {**found.environment, **told}
    return replace(found, environment=environment, words=words, troubles=(*found.troubles, *troubles))


def _first(store: Store, rules: JobsFile, job: Job, now: float, chance: float) -> Told:
    """The others wait until this has come to an end, and a bad one lets them go as well."""
    try:
        return _decided(store, rules, job, now, chance)
    except BaseException:
        with store.writing() as connection:
            forget_job(connection, job.job)
        raise
    finally:
        with store.writing() as connection:
            mark_decided(connection, job.job, until=_until(rules, job, now), now=now)


def _decided(store: Store, rules: JobsFile, job: Job, now: float, chance: float) -> Told:
    # Policies take most of a second to load, and nodes that are only told need none.
    from forebay.act.slurm.jobs.decision import decided

    return decided(store, rules, job, now=now, until=_until(rules, job, now), chance=chance)


def _until(rules: JobsFile, job: Job, now: float) -> float:
    return now + (job.seconds + _SLACK if job.seconds else rules.lease)


def _again(store: Store, rules: JobsFile, job: Job, now: float, pause: Callable[[float], None]) -> Told:
    """What another node had decided, once it has; whoever waits too long for that is ended by the limit."""
    while True:
        with store.reading() as connection:
            if is_decided(connection, job.job, now):
                told = told_before(connection, rules, job, now)
                return Told(app=told.get("FOREBAY_APP", ""), environment=told, words={"decided": "already"})
        pause(_POLL)
