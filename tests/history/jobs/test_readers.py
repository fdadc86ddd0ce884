"""Jobs from every format: what is read, which rows are rejected, and which files are refused."""

import gzip
import json
from pathlib import Path

import numpy as np
import pytest

from forebay.history.jobs import ReadOptions, find_format, read_jobs
from forebay.history.store import Store
from forebay.history.store.jobs import add_jobs
from forebay.history.store.runs import add_runs
from forebay.model.errors import BadInput
from forebay.model.jobs import Jobs
from support.history_rows import run_row

KTH = Path(__file__).parents[3].parent / "shared/data/kth"
HEAD = "job,submit,nodes,walltime,runtime,bytes_per_node,user"
GOOD = "15,1,4,53940,3477.0,1000,12"
SACCT = "JobIDRaw|User|Account|JobName|Submit|Start|End|NNodes|Timelimit|ReqTRES|State"
SWF = "1 100 5 60 4 -1 2000 8 3600 -1 1 7 3 -1 -1 -1 -1 -1"


def read(folder: Path, *lines: str, name: str = "jobs.csv", options: ReadOptions | None = None) -> Jobs:
    path = folder / name
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return read_jobs(str(path), options)


def reasons(jobs: Jobs) -> list[str]:
    return [f"{row.line}: {row.reason}" if row.line else row.reason for row in jobs.rejected]


def refusal(folder: Path, *lines: str) -> str:
    with pytest.raises(BadInput) as raised:
        read(folder, *lines)
    assert "\n" not in str(raised.value)
    return str(raised.value).replace(f"{folder}/", "")


# CSV


def test_jobs_are_in_order_of_submission_with_bytes_of_all_nodes(tmp_path: Path) -> None:
    jobs = read(tmp_path, HEAD, "b,20,4,600,60,1000,ann", "a,10,2,600,60.5,7,bob", "c,20,1,60,60,0,")
    assert jobs.ids == ("a", "b", "c")
    assert jobs.rows["bytes"].tolist() == [14, 4000, 0]
    assert jobs.rows["bytes_in"].tolist() == jobs.rows["bytes_out"].tolist() == [14, 4000, 0]
    assert [jobs.users[u] if u >= 0 else None for u in jobs.rows["user"]] == ["bob", "ann", None]
    assert jobs.lines is not None
    assert jobs.lines.tolist() == [3, 2, 4]
    assert (jobs.name, jobs.rejected) == ("jobs", ())


def test_columns_go_by_name_and_sizes_may_have_units(tmp_path: Path) -> None:
    head = "Runtime; bytes_out; space; job; nodes; walltime; submit; tier; project; application"
    jobs = read(tmp_path, head, "60; 1 GB; 2 GiB; x; 3; 600; 0; fast; p; lammps")
    row = jobs.rows[0]
    assert (int(row["bytes"]), int(row["bytes_in"]), int(row["bytes_out"])) == (2 << 30, 2 << 30, 10**9)
    assert (jobs.tiers, jobs.projects, jobs.applications, int(row["user"])) == (("fast",), ("p",), ("lammps",), -1)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("x,-5,4,600,60,1,u", "submit must not be negative, not -5"),
        ("x,1,4,-600,60,1,u", "walltime must not be negative, not -600"),
        ("x,1,4,600,-60,1,u", "runtime must not be negative, not -60"),
        ("x,,4,600,60,1,u", "submit is missing"),
        ("x,1,4,,60,1,u", "walltime is missing"),
        ("x,1,4,0,60,1,u", "walltime must be more than 0"),
        ("x,1,4,600,soon,1,u", "runtime must be a number of seconds, not 'soon'"),
        ("x,1,4,600,nan,1,u", "runtime must be a number of seconds, not 'nan'"),
        ("x,1,4,600,1e99,1,u", "runtime must be from 0 to 68,719,476,736, not 1e+99"),
        ("x,1,0,600,60,1,u", "nodes must be from 1 to 10,000,000, not 0"),
        ("x,1,-4,600,60,1,u", "nodes must not be negative, not -4"),
        ("x,1,1.5,600,60,1,u", "nodes must be a whole number, not '1.5'"),
        ("x,1,4,600,60,-1,u", "bytes must not be negative, not -4"),
        ("x,1,4,600,60,much,u", "bytes_per_node: 'much' is not a number with a unit, like '4 MiB' or '1.5 h'"),
        (",1,4,600,60,1,u", "job is missing"),
        ("15,1,4,600,60,1,u", "job '15' appears twice, on line 2; job ids must be unique"),
        ("x,1,4,600", "has 4 values for 7 columns"),
    ],
)
def test_a_bad_row_is_rejected_with_line_and_reason(tmp_path: Path, line: str, reason: str) -> None:
    jobs = read(tmp_path, HEAD, GOOD, line)
    assert (jobs.ids, reasons(jobs)) == (("15",), [f"3: {reason}"])
    assert jobs.rejected[0].file == str(tmp_path / "jobs.csv")


def test_space_needs_a_unit(tmp_path: Path) -> None:
    head = "job,submit,nodes,walltime,runtime,space_per_node"
    jobs = read(tmp_path, head, "a,1,2,60,60,5 GB", "b,1,2,60,60,5")
    assert jobs.rows["bytes"].tolist() == [10**10]
    assert reasons(jobs) == ["3: space_per_node: needs a unit, like '200 GB', not '5'"]


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        ([HEAD.replace("nodes", "node"), GOOD], "jobs.csv:1: unknown column 'node'; did you mean 'nodes'?"),
        ([HEAD + ",nodes", GOOD + ",4"], "jobs.csv:1: has the column 'nodes' twice; remove one"),
        (["job,submit,nodes,walltime,bytes", "1,1,1,1,1"], "jobs.csv:1: needs the column 'runtime'; the header must"),
        (["job,submit,nodes,walltime,runtime", "1,1,1,1,1"], "jobs.csv:1: needs one column for the burst buffer"),
        ([HEAD + ",space", GOOD + ",4 GB"], "jobs.csv:1: needs one column for the burst buffer"),
        ([""], "jobs.csv: is empty"),
        ([HEAD], "jobs.csv: has no valid job (it is empty)"),
        ([HEAD, "x,-5,4,600,60,1,u", ",,,,,,"], "jobs.csv: has no valid job (2 rows rejected; first: line 2: submit"),
    ],
)
def test_a_file_without_jobs_or_with_a_wrong_header_is_refused(tmp_path: Path, lines: list[str], reason: str) -> None:
    assert refusal(tmp_path, *lines).startswith(reason)


def test_missing_and_truncated_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"no\.csv: no such file"):
        read_jobs(str(tmp_path / "no.csv"))
    cut = tmp_path / "cut.csv.gz"
    cut.write_bytes(gzip.compress(f"{HEAD}\n{GOOD}\n".encode())[:-9])
    with pytest.raises(BadInput, match="is a truncated gzip file"):
        read_jobs(str(cut))


# Batsim


def batsim(folder: Path, *jobs: object, **profiles: object) -> Jobs:
    return read(folder, json.dumps({"nb_res": 8, "jobs": jobs, "profiles": profiles}), name="workload.json")


def job(number: int, profile: str = "p", **changes: object) -> dict[str, object]:
    return {"id": number, "subtime": 10 * number, "walltime": 100, "res": 2, "profile": profile} | changes


def test_batsim_has_bytes_and_operations_per_node_in_profiles(tmp_path: Path) -> None:
    jobs = batsim(
        tmp_path,
        job(1, user="ann"),
        job(2, "slow"),
        job(3, "total"),
        p={"type": "parallel_homogeneous", "cpu": 5e9, "com": 1e6, "bb": 7},
        slow={"type": "delay", "delay": 20.2},
        total={"type": "parallel_homogeneous_total", "cpu": 8e9, "com": 0, "bb": 1},
    )
    assert jobs.rows["runtime"].tolist() == [5.0, 20.2, 4.0]
    assert jobs.rows["bytes"].tolist() == [14, 0, 2]
    assert jobs.rows["submit"].tolist() == [10, 20, 30]
    assert (jobs.ids, jobs.users) == (("1", "2", "3"), ("ann",))


def test_batsims_bad_jobs_are_rejected(tmp_path: Path) -> None:
    good = {"type": "delay", "delay": 1}
    jobs = batsim(
        tmp_path,
        job(1),
        job(1),
        job(2, "q"),
        job(3, "smpi"),
        job(4, walltime=None),
        job(5, subtime=-1),
        job(6, res="4"),
        "x",
        p=good,
        smpi={"type": "smpi"},
    )
    assert jobs.ids == ("1",)
    assert reasons(jobs) == [
        "job '1' appears twice; job ids must be unique",
        "jobs[2]: has no profile 'q'",
        "jobs[3]: profile 'smpi': type 'smpi' has no run time of its own; "
        "use delay, parallel, parallel_homogeneous, parallel_homogeneous_total or composed",
        "jobs[4]: walltime is missing",
        "submit must not be negative, not -1",
        "jobs[6]: res must be a number, not '4'",
        "jobs[7]: must be a table of keys and values",
    ]


def test_batsim_5_names_its_profiles_anew_and_sequences_add_up(tmp_path: Path) -> None:
    jobs = batsim(
        tmp_path,
        *(job(number, name) for number, name in enumerate(("delay", "each", "spread", "twice", "nested"))),
        delay={"type": "DelayProfile", "delay": 3},
        each={"type": "ParallelTaskProfile", "cpu": [5e9, 0], "com": [0, 0, 0, 0]},
        spread={"type": "ParallelTaskHomogeneousProfile", "cpu": 8e9, "com": 0,
                "generation_strategy": "DefinedAmountsSpreadUniformly"},
        twice={"type": "SequentialCompositionProfile", "repeat": 2, "seq": ["delay", "each", "delay"]},
        nested={"type": "composed", "seq": ["twice", "twice"]},
    )  # fmt: skip
    assert jobs.rows["runtime"].tolist() == [3, 5, 4, 22, 44]


def test_batsims_strange_values_are_rejected(tmp_path: Path) -> None:
    good = {"type": "delay", "delay": 1}
    endless = {"type": "composed", "seq": ["endless"]}
    wrong = (job(2, "endless"), job(3, res=1.5), job(4, walltime=10**400), job(5, walltime=float("nan")))
    jobs = batsim(tmp_path, job(1), *wrong, p=good, endless=endless)
    assert jobs.ids == ("1",)
    assert [reason[:30] for reason in reasons(jobs)] == [
        "jobs[1]: profile 'endless': is", "jobs[2]: res must be a whole n", "jobs[3]: walltime must be a nu",
        "jobs[4]: walltime must be a nu",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "text", ['{"a": ' + "[" * 100_000, '{"jobs": [', '{"jobs": []}', '{"jobs": 1, "profiles": {}}']
)
def test_json_that_is_no_workload_is_refused(tmp_path: Path, text: str) -> None:
    assert "is not" in refusal(tmp_path, text)


# SWF


def test_swf_counts_what_was_requested_and_draws_bytes_by_seed(tmp_path: Path) -> None:
    lines = [
        "; MaxNodes: 8",
        SWF,
        SWF.replace("1 100", "2 90", 1).replace(" 8 3600", " -1 -1"),
        SWF.replace("1", "3", 1),
    ]
    first, again, other = (
        read(tmp_path, *lines, name="log.swf", options=ReadOptions(cores=2, seed=s)) for s in (1, 1, 2)
    )
    assert first.ids == ("2", "1", "3")
    assert first.rows["nodes"].tolist() == [2, 4, 4]
    assert first.rows["walltime"].tolist() == [60, 3600, 3600]
    assert (first.users, first.projects) == (("7",), ("3",))
    assert first.rows["bytes"].tolist() == again.rows["bytes"].tolist() != other.rows["bytes"].tolist()
    assert (first.rows["bytes"] // first.rows["nodes"])[0] == 10**7  # a job of a minute is a test


def test_swf_sizes_can_be_stated_and_never_exceed_the_machine(tmp_path: Path) -> None:
    stated = read(tmp_path, SWF, name="a.swf", options=ReadOptions(volume="2 GB"))
    memory = read(tmp_path, SWF, name="a.swf", options=ReadOptions(volume="memory"))
    small = read(tmp_path, SWF, name="a.swf", options=ReadOptions(space=800))
    assert [int(jobs.rows["bytes"][0]) for jobs in (stated, memory, small)] == [8 * 10**9, 4 * 2000 * 1024, 800]


def test_swf_rejects_bad_rows_and_counts_jobs_that_never_ran(tmp_path: Path) -> None:
    none, partial = SWF.replace("5 60", "5 -1"), SWF.replace(" -1 1 7", " -1 2 7")
    late, twice = SWF.replace("1 100", "2 -100"), SWF.replace("100", "400")
    jobs = read(tmp_path, ";", SWF, none, partial, late, twice, name="log.swf")
    assert (jobs.ids, jobs.left_out) == (("1",), "1 line about a part of a job, 1 job without run time")
    assert reasons(jobs) == [
        "5: submit time must be from 0 to 68,719,476,736, not -100",
        "6: job 1 appears twice; job ids must be unique",
    ]


def test_swf_rejects_lines_that_are_not_numbers_and_reads_the_rest(tmp_path: Path) -> None:
    lines = (SWF, "2 100 5", SWF.replace("1 100", "3 soon", 1), SWF.replace("1", "4", 1))
    jobs = read(tmp_path, ";", *lines, name="log.swf")
    assert jobs.ids == ("1", "4")
    assert jobs.lines is not None and jobs.lines.tolist() == [2, 5]
    assert reasons(jobs) == ["3: has 3 values for 18 columns", "4: submit time must be a number, not 'soon'"]


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        (" 8 3600", " 8 inf", "requested time must be from 0 to 68,719,476,736, not inf"),
        ("1 100", "1.5 100", "job number must be a whole number from 0 to 100,000,000,000,000, not 1.5"),
        (" 2000 8", " 1e400 8", "used memory must be a whole number from -100,000,000,000,000 to "),
        (" 1 7 3", " 1 nan 3", "user must be a whole number from"),
    ],
)
def test_swf_rejects_numbers_that_cannot_be(tmp_path: Path, old: str, new: str, reason: str) -> None:
    wrong = SWF.replace(old, new, 1)
    assert wrong != SWF
    jobs = read(tmp_path, SWF.replace("1", "2", 1), wrong, name="a.swf", options=ReadOptions(volume="memory"))
    assert (jobs.ids, len(jobs.rejected)) == (("2",), 1)
    assert reason in str(jobs.rejected[0])


# Slurm


def test_accounting_has_limits_and_burst_buffers(tmp_path: Path) -> None:
    jobs = read(
        tmp_path,
        SACCT,
        "7|ann|p|lammps|2026-01-01T00:00:10+00:00|2026-01-01T00:01:00+00:00|2026-01-01T00:02:00+00:00|2|1-00:00:00|"
        "bb/lua=100G,node=2|COMPLETED",
        "7.batch|||batch|||||||COMPLETED",
        "8|bob|p|x|2026-01-01T00:00:00+00:00|2026-01-01T00:01:00+00:00|2026-01-01T00:01:30+00:00|1|UNLIMITED||FAILED",
        "9|bob|p|x|2026-01-01T00:00:00+00:00|Unknown|Unknown|1|01:00:00||PENDING",
        "10|bob|p|x|2026-01-01T00:00:00+00:00|2026-01-01T00:01:00+00:00|2026-01-01T00:01:30+00:00|1|soon||FAILED",
    )
    assert jobs.ids == ("8", "7")
    assert jobs.rows["bytes"].tolist() == [0, 100 << 30]
    assert jobs.rows["walltime"].tolist() == [365 * 86400, 86400]
    assert jobs.rows["runtime"].tolist() == [30, 60]
    assert (jobs.users, jobs.left_out) == (("ann", "bob"), "1 job that has not run")
    assert reasons(jobs) == ["6: 'soon' is not a time limit like 1-12:00:00"]


def test_accounting_counts_nodes_in_thousands_and_may_be_compressed(tmp_path: Path) -> None:
    times = "2026-01-01T00:00:00+00:00|2026-01-01T00:01:00+00:00|2026-01-01T00:01:30+00:00"
    rows = [f"{number}|ann|p|x|{times}|{nodes}|1:0:0||FAILED" for number, nodes in enumerate(("2K", "7", "many"))]
    path = tmp_path / "sacct.txt.gz"
    path.write_bytes(gzip.compress("\n".join(("\ufeff" + SACCT, *rows)).encode()))
    jobs = read_jobs(str(path))
    assert jobs.rows["nodes"].tolist() == [2048, 7]
    assert reasons(jobs) == ["4: 'many' is not a number of nodes"]


def test_accounting_rejects_numbers_of_many_digits(tmp_path: Path) -> None:
    times = "2026-01-01T00:00:00+00:00|2026-01-01T00:01:00+00:00|2026-01-01T00:01:30+00:00"
    many = "9" * 400
    good, *wrong = (
        f"{number}|ann|p|x|{times}|{nodes}|{limit}|bb/lua={size}|FAILED"
        for number, (nodes, limit, size) in enumerate(
            [("1", "1:0:0", "1G"), (many, "1:0:0", "1G"), ("1", f"{many}-1:0:0", "1G"), ("1", "1:0:0", many)]
        )
    )
    jobs = read(tmp_path, SACCT, good, *wrong)
    assert (jobs.ids, len(jobs.rejected)) == (("0",), 3)
    assert max(len(row.reason) for row in jobs.rejected) < 120


def test_accounting_without_time_limits_is_refused(tmp_path: Path) -> None:
    head = SACCT.replace("|Timelimit", "")
    assert "has no column Timelimit or TimelimitRaw" in refusal(tmp_path, head, "7|a|p|x|1|2|3|1||COMPLETED")


# The history


def test_the_history_joins_accounting_with_the_bytes_of_runs(store: Store, database: str) -> None:
    slurm = {"job_name": "lammps", "user": "ann", "state": "COMPLETED", "submit_time": 5.0}
    times = {"job_start_time": 10.0, "job_end_time": 40.0}
    with store.open_writer() as connection:
        moved = [(3, 10), (4, 0)]
        add_runs(connection, [run_row(f"r{r}", job_id=1, bytes_read=r, bytes_written=w) for r, w in moved])
        ran, idle = {"job_id": 1, "nodes": 2}, {"job_id": 2, "nodes": 1}
        waiting = {"job_id": 3, "nodes": 1, "job_start_time": None, "job_end_time": None}
        add_jobs(connection, [slurm | times | ran, slurm | times | idle, slurm | waiting])
    jobs = read_jobs(f"history:{database}")
    assert (list(jobs.ids), jobs.left_out) == (["1", "2"], "1 job without nodes or times")
    assert [jobs.rows[name].tolist() for name in ("bytes", "bytes_in", "bytes_out")] == [[10, 0], [7, 0], [10, 0]]
    assert jobs.rows["runtime"].tolist() == jobs.rows["walltime"].tolist() == [30, 30]


# The format


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("job,submit,nodes\n1,2,3", "csv"),
        ("\ufeffjob,submit", "csv"),
        (' \n{"jobs": []}', "batsim"),
        ("; Version: 2\n1 2 3", "swf"),
        ("1 2 3 4 -1", "swf"),
        ("JobID|User", "sacct"),
        ("", "csv"),
    ],
)
def test_the_content_decides_the_format(tmp_path: Path, text: str, expected: str) -> None:
    path = tmp_path / "x.txt.gz"
    path.write_bytes(gzip.compress(text.encode()))
    assert find_format(path) == expected


@pytest.mark.skipif(not KTH.is_dir(), reason="the workloads of KTH are not on this machine")
def test_all_parts_of_kth_are_read_whole() -> None:
    jobs = [read_jobs(str(path)) for path in sorted(KTH.glob("alloc-only-*.csv.gz"))]
    assert sum(len(part) for part in jobs) == 13_647
    assert not any(part.rejected for part in jobs)
    assert all((np.diff(part.rows["submit"]) >= 0).all() for part in jobs)
    assert jobs[0].name == "alloc-only-00"
