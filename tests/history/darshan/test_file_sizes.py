"""The sizes of a run's files, counted from records of which several can be of one file."""

from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest

from forebay.history.darshan import file_sizes
from forebay.history.darshan.file_sizes import FileSizeCount
from forebay.history.darshan.summary import read_log
from forebay.history.store import Store
from forebay.history.store.listing import read_run
from forebay.history.store.past_runs import list_past_runs
from forebay.model.file_sizes import SizeClass, format_sizes, parse_sizes
from support.darshan_runs import STDOUT, Handle, record, write_log
from support.history_rows import request_row
from support.made_up_runs import a_run, fill

KIB, MIB = 1 << 10, 1 << 20


def test_files_of_single_processes_and_shared_ones_are_counted_apart(tmp_path: Path) -> None:
    files: dict[tuple[int, int], Handle] = defaultdict(Handle)
    for rank in range(4):
        files[100 + rank, rank].write(0, 10 * KIB)
        files[200, rank].write(rank * MIB, MIB)  # each process a quarter of one file
    printed = record("STDIO", STDOUT, 0, {"WRITES": 1, "BYTES_WRITTEN": 100, "MAX_BYTE_WRITTEN": 99})
    row = read_log(write_log(tmp_path / "a.darshan", 4, files, (), [printed])).row
    (written,) = (part for part in row["request_rows"] if part["operation"] == "write")
    assert parse_sizes(written["file_sizes"]) == (
        SizeClass(below=16 * KIB, shared=False, files=4, bytes=40 * KIB),
        SizeClass(below=8 * MIB, shared=True, files=1, bytes=4 * MIB),
    )
    (read,) = (part for part in row["request_rows"] if part["operation"] == "read")
    assert read["file_sizes"] == ""


@pytest.mark.parametrize("at_once", [1, 7, 1 << 19])
def test_records_of_a_file_are_one_file_however_many_are_kept(monkeypatch: pytest.MonkeyPatch, at_once: int) -> None:
    monkeypatch.setattr(file_sizes, "_AT_ONCE", at_once)
    rng = np.random.default_rng(5)
    ids, sizes = rng.integers(0, 40, 200), rng.integers(1, 1 << 30, 200)
    count = FileSizeCount()
    for first in range(0, 200, 10):
        part = slice(first, first + 10)
        count.add(ids[part], np.zeros(10, dtype=bool), sizes[part])
    largest = {file: sizes[ids == file].max() for file in np.unique(ids).tolist()}
    classes = count.classes(())
    assert sum(c.files for c in classes) == len(largest)
    assert sum(c.bytes for c in classes) == sum(largest.values())
    assert all(c.below // 2 * c.files <= c.bytes < c.below * c.files for c in classes)
    assert sum(c.files for c in classes if not c.shared) == sum((ids == file).sum() == 1 for file in largest)


def test_the_history_keeps_them_with_reads_only_where_nothing_was_written(store: Store) -> None:
    written = SizeClass(below=MIB, shared=True, files=2, bytes=MIB)
    read = SizeClass(below=KIB, shared=False, files=1, bytes=600)
    parts = [request_row("write") | {"file_sizes": format_sizes([written])}]
    parts += [request_row("read") | {"file_sizes": format_sizes([read])}]
    only_read = [request_row("write") | {"file_sizes": ""}, parts[1]]
    fill(store, [a_run(0) | {"request_rows": parts}, a_run(1) | {"request_rows": only_read}, a_run(2)])
    with store.open_reader() as connection:
        assert [run.file_sizes for run in list_past_runs(connection, "vpic")] == [(written,), (read,), ()]
        shown = read_run(connection, 1)["requests"]
    assert [part["file_sizes"] for part in shown] == [
        [{"below": KIB, "shared": False, "files": 1, "bytes": 600}],
        [{"below": MIB, "shared": True, "files": 2, "bytes": MIB}],
    ]
