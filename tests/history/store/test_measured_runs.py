"""Runs of the history as a calibration uses them."""

from pathlib import Path
from typing import Any

from forebay.history.store import open_store
from forebay.history.store.measured_runs import list_measured
from forebay.history.store.runs import add_runs
from support.history_rows import request_row, run_row


def test_runs_come_oldest_first_with_reads_and_writes_apart(tmp_path: Path) -> None:
    wrote = request_row("write", total_bytes=1000, requests=5, request_bytes=500, contiguous=4, shared_bytes=600)
    read = request_row("read", total_bytes=80, requests=8, request_bytes=80, contiguous=None)
    shared: dict[str, Any] = {"io_procs": 4, "total_files": 3, "shared_files": 2, "meta_time": 0.5}
    rows = [
        run_row("b", start_time=20.0, filesystem="/lus", write_time=2.0, read_time=3.0, request_rows=[wrote, read],
                **shared),
        run_row("a", start_time=10.0, write_time=1.0, request_rows=[wrote], **shared),
        run_row("partial", start_time=5.0, partial_flag=True, request_rows=[wrote], **shared),
        run_row("idle", start_time=6.0, request_rows=[], **shared),
        run_row("nobody", start_time=7.0, request_rows=[wrote], **(shared | {"io_procs": 0})),
    ]  # fmt: skip
    with open_store(str(tmp_path / "history.db")) as store:
        with store.open_writer() as connection:
            add_runs(connection, rows)
        with store.open_reader() as connection:
            runs = list_measured(connection)
            assert [run["start"] for run in list_measured(connection, filesystem="/lus")] == [20]
            assert not list_measured(connection, since=100).size
    assert runs["start"].tolist() == [10, 20]
    assert runs["bytes"].tolist() == [[0, 1000], [80, 1000]] and runs["seconds"].tolist() == [[0, 1], [3, 2]]
    assert runs["processes"].tolist() == [4, 4] and runs["opens"].tolist() == [9, 9]
    assert runs["shared"].tolist() == [[False, True]] * 2
    # Half of the bytes went through the interface whose requests are known; the order of the reads is unknown.
    assert runs["requests"].tolist() == [[0, 10]] * 2 and runs["contiguous"].tolist() == [[0, 8]] * 2
