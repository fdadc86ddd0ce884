"""Work beyond one machine: a real Dask cluster, whose workers die, go missing, or are of another version."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from forebay.history.darshan.ingest import Report, ingest
from forebay.history.store import open_store
from forebay.history.store.schema import runs
from forebay.model.errors import BadInput
from forebay.show.workers import hire_workers
from forebay.studies.finished_pieces import Interrupted, run_all
from forebay.studies.finished_pieces import Store as Pieces
from forebay.work import Died, Gone, run_pieces
from forebay.work import dask as door
from support import work
from support.calls import record_calls
from support.command import Forebay
from support.darshan_logs import wheel_logs
from support.dask_cluster import address, hire_dask_workers, local_cluster, odd_worker, processes
from support.processes import wait_until

STUDY = ("study", "io-nodes", "--sets", 3, "--loads", "0.4:0.8:0.4", "--applications", 20, "--targets", 8)
POLICIES = ("--allocate", "tcpu,random", "--place", "random,greedy-non-clairvoyant")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    with local_cluster(2) as made:
        yield made


@pytest.fixture
def forebay(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Forebay:
    monkeypatch.chdir(tmp_path)
    return Forebay(capfd, monkeypatch)


def test_a_study_gives_the_same_bytes_as_with_one_process(cluster: Any, forebay: Forebay) -> None:
    said = []
    for name, workers in (("one", "1"), ("dask", address(cluster))):
        ran = forebay(*STUDY, *POLICIES, "--out", name, "--workers", workers, "--json")
        assert (ran.code, ran.err) == (0, "")
        said.append(ran.out)
    assert said[0] == said[1]
    one, dask = (_files(Path(name)) for name in ("one", "dask"))
    assert len(one) > 9 and list(one) == list(dask)
    assert [name for name in one if one[name] != dask[name]] == []


def _files(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def test_a_worker_killed_half_way_costs_nothing_but_time(cluster: Any, tmp_path: Path) -> None:
    with (
        hire_workers(address(cluster)) as workers,
        closing(run_pieces(workers, work.first_alone(tmp_path), range(9))) as results,
    ):
        found = [next(results)]
        wait_until(lambda: bool(work.at_work(tmp_path)), "no worker began")
        number, process = next(iter(work.at_work(tmp_path).items()))
        assert process in processes(cluster)
        os.kill(process, signal.SIGKILL)
        wait_until(lambda: process not in processes(cluster), "it is not missed")
        (tmp_path / "go").touch()  # not before: the other worker may have begun with a piece that waits for it
        found += results
    assert _others(tmp_path, number, process)  # did it again
    assert sorted(found) == [(n, 2 * n) for n in range(9)]


def _others(folder: Path, number: int, process: int) -> bool:
    return any(path.name.startswith(f"{number}.") and path.name != f"{number}.{process}" for path in folder.iterdir())


def test_only_the_piece_that_nobody_survives_has_died(cluster: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster.scheduler, "allowed_failures", 0)  # so that fewer have to die
    with hire_workers(address(cluster)) as workers:
        found = dict(run_pieces(workers, work.deadly, [n for n in range(120) if n % 5 or n == 80], ahead=3))
    assert isinstance(found.pop(80), Died)  # though it was sent in a bundle with others
    assert found == {n: 2 * n for n in range(120) if n % 5}


def test_short_pieces_come_back_in_order_too_and_in_few_messages(cluster: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with hire_dask_workers(address(cluster)) as workers:
        sent = record_calls(monkeypatch, workers.client, "submit")
        found = list(run_pieces(workers, work.doubled, range(1000), in_order=True))
    assert found == [(n, 2 * n) for n in range(1000)]
    assert len(sent) < 300


def test_an_error_of_a_piece_is_told_and_nothing_is_left_behind(cluster: Any) -> None:
    with hire_workers(address(cluster)) as workers, pytest.raises(ValueError, match="no threes"):
        list(run_pieces(workers, work.refuse, range(20)))
    wait_until(lambda: not cluster.scheduler.tasks, "pieces are left")
    assert not [name for name in cluster.scheduler.worker_plugins if name.startswith("forebay")]


def test_interrupted_it_keeps_what_is_done_takes_the_rest_back_and_goes_on(cluster: Any, tmp_path: Path) -> None:
    keys = [f"a/{n}" for n in range(40)]
    store = Pieces(tmp_path / "pieces", {})
    store.open()

    def stop(done: int) -> None:
        if done == 5:
            raise KeyboardInterrupt

    with hire_workers(address(cluster)) as workers:
        with pytest.raises(Interrupted, match="5 of 40 pieces are saved") as told:
            run_all(keys, work.square, store, workers=workers, progress=stop)
        assert told.value.by_user
        wait_until(lambda: not cluster.scheduler.tasks, "pieces are left")
        again: list[int] = []
        run_all(keys, work.square, store, workers=workers, progress=again.append)
    assert again == list(range(5, 41))
    assert [int(store.get(key)[0]) for key in keys] == [n * n for n in range(40)]


def test_the_overhead_of_a_piece_is_not_the_size_of_the_work(cluster: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The work goes to each worker once: a piece is some bytes, whatever the work carries."""
    with hire_dask_workers(address(cluster)) as workers:
        sent = record_calls(monkeypatch, workers.client, "submit")
        found = dict(run_pieces(workers, work.carrying(b"x" * 1_000_000), range(4)))
    assert found == dict.fromkeys(range(4), 1_000_000)
    assert max(len(str(arguments)) for arguments in sent) < 500


def test_logs_read_by_a_cluster_make_the_same_history(cluster: Any, tmp_path: Path) -> None:
    folders = sorted({path.parent for path in wheel_logs()})
    found: list[tuple[Report, list[tuple[object, ...]]]] = []
    for name in ("1", address(cluster)):
        with open_store(str(tmp_path / f"{len(found)}.db")) as store:
            with hire_workers(name) as workers:
                report = ingest(store, folders, workers=workers)
            with store.open_reader() as connection:
                found.append((report, [tuple(row) for row in connection.execute(runs.select())]))
    assert found[0] == found[1] and found[0][0].read > 3


def test_a_scheduler_that_is_away_is_said(forebay: Forebay) -> None:
    pytest.importorskip("distributed")
    with socket.socket() as closed:  # bound, so that nobody else takes it, but nobody listens
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
        ran = forebay(*STUDY, "--workers", f"dask://127.0.0.1:{port}")
    assert (ran.code, ran.out) == (2, "")
    way_out = f"start one with: dask scheduler --port {port}"
    assert ran.err == f"forebay: dask://127.0.0.1:{port}: no Dask scheduler answers there; {way_out}\n"


@pytest.mark.parametrize("greeting", [b"", b"SSH-2.0-OpenSSH_9.2p1 Debian", b"\0" * 4])
def test_something_else_at_that_port_is_no_scheduler(greeting: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("distributed")
    monkeypatch.setattr(door, "CONNECT", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as other, ThreadPoolExecutor(1) as pool:
        taken = pool.submit(_greet, other, greeting)
        where = f"dask://127.0.0.1:{other.getsockname()[1]}"
        with pytest.raises(BadInput, match="no Dask scheduler answers"), hire_workers(where):
            pytest.fail("connected")
        taken.result(60).close()


def _greet(server: socket.socket, greeting: bytes) -> socket.socket:
    server.settimeout(60)
    caller, _ = server.accept()
    caller.sendall(greeting)
    return caller


@pytest.fixture(scope="module")
def empty() -> Iterator[Any]:
    with local_cluster(0) as made:
        yield made


def test_a_cluster_without_workers_is_waited_for_and_then_said(
    empty: Any, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(door, "LOOK", 0.1)
    where = address(empty)
    with pytest.raises(Gone, match="no workers after 1 s; start some with: dask worker "):
        door_opened(where, wait=1)
    assert capfd.readouterr().err == ""
    told: list[str] = []
    with pytest.raises(Gone):
        door_opened(where, wait=1, told=told)
    assert told == [f"{where}: no workers yet; waiting up to 1 s for the first"]


def door_opened(where: str, *, wait: float, told: list[str] | None = None) -> None:
    say = [] if told is None else told
    with door.connect_workers(where.removeprefix("dask://"), say.append, wait=wait):
        pytest.fail("there is a worker")


@pytest.mark.parametrize(
    ("version", "words"),
    [
        ("0.0.1", "has forebay 0.0.1, this machine has "),
        (None, "lacks the package forebay; install it with the worker's Python: pip"),
    ],
)
def test_workers_of_another_version_or_without_the_package_are_said(
    empty: Any, tmp_path: Path, version: str | None, words: str
) -> None:
    with odd_worker(empty, tmp_path, version):
        wait_until(lambda: bool(empty.scheduler.workers), "the worker does not come")
        with pytest.raises(BadInput) as refused, hire_workers(address(empty)):
            pytest.fail("taken")
    assert words in str(refused.value) and "\n" not in str(refused.value)
    wait_until(lambda: not empty.scheduler.workers, "the worker does not go")
