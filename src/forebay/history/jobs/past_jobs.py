"""Jobs of the history: Slurm's accounting, with the bytes that Darshan saw."""

from forebay.history.jobs.job_list import JobList, Row
from forebay.history.store import open_store
from forebay.history.store.jobs import accounted_jobs
from forebay.model.errors import BadInput
from forebay.model.jobs import Jobs


def jobs_of_history(url: str | None) -> Jobs:
    """The jobs of the history at `url` (the default one if None) that have ended.

    A job needs space for what it read or wrote, whichever is more; it stages in what it read, and out what it wrote.
    The history does not know wall times, so they equal the run times.
    """
    with open_store(url, create=False) as store, store.open_reader() as connection:
        accounted = accounted_jobs(connection)
        file = store.where
    if not accounted:
        raise BadInput(file, "has no jobs of Slurm; add them with forebay ingest --sacct FILE")
    jobs = JobList(file)
    for job in accounted:
        if job.submit_time is None or job.job_start_time is None or job.job_end_time is None or not job.nodes:
            jobs.left_out["job", "without nodes or times"] += 1
            continue
        runtime = job.job_end_time - job.job_start_time
        names = {"user": job.user, "application": job.job_name}
        row = Row(
            id=str(job.job_id),
            submit=job.submit_time,
            nodes=job.nodes,
            walltime=runtime,
            runtime=runtime,
            bytes=max(job.read, job.written),
            bytes_in=job.read,
            bytes_out=job.written,
            names={key: name for key, name in names.items() if name},
        )
        if runtime > 0:
            jobs.add(0, row)
        else:
            jobs.left_out["job", "without run time"] += 1
    return jobs.make_jobs()
