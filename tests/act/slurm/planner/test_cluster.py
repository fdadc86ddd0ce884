"""What the planner reads of squeue, sinfo and scontrol: recordings of Slurm 22.05."""

import math

import pytest

from forebay.act.slurm.planner.cluster import Nodes, Pool, parse_buffers, parse_jobs, parse_nodes, parse_request

BREAK = "\x1f"
# JobID … HetJobID, as in `cluster._FIELDS`
WAITING = (
    "8|8|PENDING|BurstBufferStageIn|main|forebay-test|(null)|(null)|1795052521|1795052762|1795052822|1795052521|5000|-5000"
    "|1|1|1:00|#BB_LUA pool=any capacity=30GB|staged-in|N/A|"
)
ARRAY = (
    "10|10_[1-3]|PENDING|Resources|main|forebay-test|(null)|(null)|1795052522|1795052820|1795052880|1795052522|1|0"
    "|1|1|UNLIMITED|(null)|(null)|N/A|"
)
HELD = "13|13|PENDING|JobHeldUser|main|ann|a|high|1795052992|N/A|N/A|N/A|0|0|2|4K|1-00:00:00|#BB_LUA jobdw|pending|13|"
BURST = """Name=lua DefaultPool=(null) Granularity=1 TotalSpace=0 FreeSpace=0 UsedSpace=0
  PoolName[0]=any Granularity=1GB TotalSpace=100GB FreeSpace=10GB UsedSpace=90GB
  PoolName[1]=ost Granularity=1 TotalSpace=16 FreeSpace=18446744073709551615 UsedSpace=17
  Flags=DisablePersistent
  StageInTimeout=300 StageOutTimeout=300 ValidateTimeout=5 OtherTimeout=300
  Allocated Buffers:
    JobID=9 CreateTime=2026-11-19T01:42:02 Pool=any Size=60GB State=allocated UserID=forebay-test(999)
    JobID=8 CreateTime=2026-11-19T01:42:02 Pool=any Size=30GiB State=allocated UserID=forebay-test(999)
  Per User Buffer Use:
    UserID=forebay-test(999) Used=90GB
"""


def lines(*rows: str) -> str:
    return "".join(row.replace("|", BREAK) + "\n" for row in rows)


def test_a_waiting_job_is_read_with_its_burst_buffer() -> None:
    (job,) = parse_jobs(lines(WAITING))
    assert (job.number, job.user, job.account, job.submit, job.priority, job.nice) == (
        "8", "forebay-test", "", 1795052521.0, 5000, -5000,
    )  # fmt: skip
    assert (job.space, job.pool, job.buffer, job.limit, job.is_part) == (30e9, "any", "staged-in", 60.0, False)


def test_a_job_without_limit_gets_a_year_as_in_slurm_and_an_array_keeps_its_name() -> None:
    (job,) = parse_jobs(lines(ARRAY))
    assert (job.name, job.limit, job.space, job.buffer) == ("10_[1-3]", 365 * 86400.0, 0.0, "")


def test_unknown_times_and_sizes_are_nan() -> None:
    (job,) = parse_jobs(lines(HELD))
    assert math.isnan(job.start) and math.isnan(job.space) and job.is_part
    assert (job.priority, job.cpus, job.limit, job.qos) == (0, 4096, 86400.0, "high")


def test_a_line_that_was_cut_off_is_left_out() -> None:
    assert [job.number for job in parse_jobs(lines(WAITING)[:-30] + "\n" + lines(ARRAY))] == ["10"]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("#BB_LUA capacity=20GB stage_in=/a:b", 20e9),
        ("#BB_LUA pool=x capacity=1GiB", 2.0**30),
        ("#BB_LUA pool=x capacity=4G", 4 * 2.0**30),
        ("#BB_LUA capacity=much", math.nan),
        ("", 0.0),
    ],
)
def test_the_size_of_a_burst_buffer_is_read_as_slurm_reads_it(text: str, wanted: float) -> None:
    assert parse_request(text)[0] == pytest.approx(wanted, nan_ok=True)


def test_pools_and_buffers_are_read_and_free_space_that_wrapped_around_is_limited() -> None:
    pools, buffers = parse_buffers(BURST)
    assert pools == {"any": Pool(total=100 * 10**9, free=10 * 10**9), "ost": Pool(total=16, free=16)}
    assert buffers == {"9": 60 * 10**9, "8": 30 * 2**30}


def test_nodes_that_slurm_cannot_use_do_not_count() -> None:
    text = (
        "n0|main|allocated|2/0/0/2|\nn1|main|idle|0/2/0/2|\nn2|main|idle+drain|0/0/2/2|\nn3|main|down*|0/0/2/2|\n"
        "n4|main|mixed|1/1/0/2|\nn5|debug|idle|0/2/0/2|\nn1|debug|idle|0/2/0/2|\nn6|main|idle+planned|0/2/0/2|\n"
    )
    assert parse_nodes(text, ["debug"]) == Nodes(count=4, idle=2, cpus=8, idle_cpus=5)
