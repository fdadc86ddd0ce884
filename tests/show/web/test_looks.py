"""What the page shows besides: the history, and the forwarding layer."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from forebay.act.control.service.settings import ForwardSettings, read_service
from forebay.act.forward.net.address import Address
from forebay.act.metrics import Endpoint, Metric
from forebay.history.store import open_store
from forebay.history.store.decisions import record_decision
from forebay.history.store.running_jobs import TARGETS
from forebay.model.errors import BadInput
from forebay.show.web import pages
from forebay.show.web.forwarding import forwarding
from forebay.show.web.history import application, application_runs, history, make_run_sheet
from forebay.show.web.schedule import read_plan
from support.html_pages import Page
from support.made_up_runs import MIB, a_run, fill


@pytest.fixture
def db(tmp_path: Path) -> str:
    """Runs of two applications, and an advice for one."""
    path = tmp_path / "history.db"
    with open_store(str(path)) as store:
        runs = [a_run(n, count=1 + n % 3, perf_by_slowest=(50.0 + 50 * (n % 3)) * MIB) for n in range(9)]
        fill(store, [*runs, a_run(20, "other", total_bytes=10**12)])
        with store.open_writer() as connection:
            for time, count in ((1.0, 2), (2.0, 4)):
                row = {"time": time, "app": "vpic", "nprocs": 64, "policy": "forebay", "phase": "known"}
                layout = {"stripe_count": count, "stripe_size": MIB, "stripe_offset": 0}
                record_decision(connection, row | layout | {"because": "it was fastest", "outcome": "advised"})
    return str(path)


def test_without_a_history_the_way_to_one_is_told(tmp_path: Path) -> None:
    assert "history = " in history("")["none"] and "forebay ingest" in history("")["none"]
    open_store(str(tmp_path / "empty.db")).close()
    assert "The history is empty" in history(str(tmp_path / "empty.db"))["none"]
    assert "cannot be read" in history(str(tmp_path / "nowhere" / "h.db"))["none"]


def test_applications_come_by_bytes_with_stripes_and_osts(db: str) -> None:
    found = history(db)
    assert [app["app"] for app in found["apps"]] == ["other", "vpic"] and found["left_out"] == 0
    assert (found["usage"]["runs"], found["usage"]["apps"]) == (10, 2)
    assert [row["app"] for row in found["usage"]["most_run"]] == ["vpic", "other"]
    assert json.loads(json.dumps(found))["usage"]["stripe_count"]


def test_an_application_has_its_curve_and_the_last_advice(db: str) -> None:
    found = application(db, "vpic")
    assert [point["n"] for point in found["points"]] == [1, 2, 3]
    assert (found["advice"]["stripe_count"], found["advice"]["because"]) == (4, "it was fastest")
    assert any("Forecast" in words for words in found["words"])
    assert application(db, "other")["advice"] is None
    with open_store(db) as store:
        fill(store, [a_run(30 + n, filesystem=mount) for n, mount in enumerate(["/home", "/scratch"])])
        with store.open_writer() as connection:  # a number of I/O nodes is not a layout
            row = {
                "time": 3.0,
                "app": "vpic",
                "nprocs": 64,
                "policy": "forebay",
                "phase": TARGETS,
                "outcome": "applied",
            }
            layout = {"stripe_count": 7, "stripe_size": 0, "stripe_offset": -1, "because": "", "outcome": "applied"}
            record_decision(connection, row | layout)
    now = application(db, "vpic")
    assert (now["filesystem"], now["elsewhere"]) == ("/scratch", [{"filesystem": "/home", "runs": 1}])
    assert now["advice"] == found["advice"]
    assert "no application 'nobody'" in application(db, "nobody")["none"]
    json.dumps(found)


def test_the_runs_of_an_application_come_newest_first_with_their_findings(tmp_path: Path) -> None:
    db = str(tmp_path / "history.db")
    finding = {
        "code": "slow-ost", "share": 0.5, "predicted_gain": 3.0, "confidence": "measured", "seen": "a", "because": "b",
        "remedy": "c", "numbers": "{}", "files": "[]",
    }  # fmt: skip
    with open_store(db) as store:
        found_slow, not_examined = {"diagnosis": {"findings": [finding]}}, {"diagnosis": {"remark": "too large"}}
        fill(store, [a_run(1), a_run(2) | found_slow, a_run(3) | not_examined])
    found = application_runs(db, "vpic")
    assert [run["findings"] for run in found["runs"]] == [None, ["slow-ost"], None]
    assert (found["app"], found["limited"], found["runs"][0]["nprocs"]) == ("vpic", False, 64)
    assert (
        "no application" in application_runs(db, "nobody")["none"] and "history = " in application_runs("", "x")["none"]
    )
    json.dumps(found)


def test_the_page_of_a_run_is_made_by_another_process(tmp_path: Path) -> None:
    db = str(tmp_path / "history.db")
    with open_store(db) as store:
        fill(store, [a_run(1, slowness=[1.0, 1.0, 30.0, 1.1, 0.9])])
    page = Page(make_run_sheet(db, 1).decode())
    assert "OST 2 took much longer for each byte than the others." in page.text
    with pytest.raises(BadInput, match=r"^run 7: no run 7 in the history"):
        make_run_sheet(db, 7)
    with pytest.raises(BadInput, match="is not set"):
        make_run_sheet("", 1)


# Forwarding


def test_without_a_layer_the_way_to_one_is_told() -> None:
    assert "[service.forward]" in forwarding(ForwardSettings())["none"]


@pytest.fixture
def node() -> Iterator[str]:
    """An I/O node's metrics."""
    numbers = [
        Metric("forebay_ion_bytes_read", "", kind="counter").number(5e9),
        Metric("forebay_ion_load", "").number(3.5),
        Metric("forebay_ion_queue_depth", "", ("server",)).number(2, "0"),
        Metric("forebay_ion_queue_depth", "", ("server",)).number(7, "1"),
        Metric("forebay_ion_operation", "", ("operation",)).number(1, "read"),
        Metric("forebay_ion_window_seconds", "").number(0.001),
    ]
    endpoint = Endpoint(Address(host="127.0.0.1", port=0), lambda: numbers)
    yield str(endpoint.address)
    endpoint.close()


@pytest.fixture
def council() -> Iterator[str]:
    decision = Metric("forebay_council_decision", "", ("parameter", "value"))
    numbers = [Metric("forebay_council_nodes", "").number(2), decision.number(1, "window", "500000")]
    endpoint = Endpoint(Address(host="127.0.0.1", port=0), lambda: numbers)
    yield str(endpoint.address)
    endpoint.close()


def test_nodes_tell_their_queues_and_bandwidth_and_who_does_not_answer_is_named(node: str, council: str) -> None:
    found = forwarding(ForwardSettings(metrics=[node, council, "127.0.0.1:1"]))
    (seen,) = found["nodes"]
    assert (seen["address"], seen["bytes_read"], seen["load"], seen["operation"]) == (node, 5e9, 3.5, "read")
    assert seen["depths"] == {"0": 2.0, "1": 7.0} and seen["window_seconds"] == 0.001
    assert found["council"]["nodes"] == 2 and found["council"]["decision"]["value"] == "500000"
    (trouble,) = found["troubles"]
    assert trouble.startswith("127.0.0.1:1: does not answer")


def bandit(counts: list[float], means: list[float]) -> dict[str, Any]:
    return {"steps": sum(counts), "crowd": 1.0, "counts": counts, "means": means, "squares": [], "expected": []}


def test_what_the_council_saw_and_learned_is_read_from_its_files(tmp_path: Path) -> None:
    rows = [
        {"time": float(n), "parameter": "window", "value": 1000 * n, "because": "tried", "nodes": 2,
         "patterns": ["shared-strided"], "operation": "write", "bandwidth": 1e9} for n in range(2000)
    ]  # fmt: skip
    log, state = tmp_path / "council.log", tmp_path / "council.json"
    log.write_text("".join(json.dumps(row) + "\n" for row in rows) + '{"time": 20')
    about = {
        "operation": "write",
        "pattern": "shared-strided",
        "servers": 4,
        "io_nodes": 2,
        "clients": 8,
        "processes": 8,
    }
    few = about | {"operation": "read", "bandits": [bandit([0.0, 0.0, 0.0], [0.0, 0.0, 0.0])]}
    much = about | {"bandits": [bandit([1.0, 3.0, 0.0], [0.9, 0.5, 0.0]), bandit([1.0, 1.0, 0.0], [0.1, 0.9, 0.0])]}
    told = {"version": 1, "parameter": "window", "values": [1, 2, 3], "situations": [few, much]}
    state.write_text(json.dumps(told))
    found = forwarding(ForwardSettings(log=log, state=state))
    assert found["troubles"] == [] and len(found["past"]) <= 600 and found["past"][0]["value"] == 0
    first, second = found["learned"]["situations"]
    # Means over both: 0.5 of the first value, (3 * 0.5 + 0.9) / 4 = 0.6 of the second; the third was never tried.
    assert (first["operation"], first["best"], first["rewards"]) == ("write", 2, 6.0)
    assert first["arms"][1] == [2, 4.0, pytest.approx(0.6)] and second["best"] is None


@pytest.mark.parametrize("content", ["no JSON", "[]", '{"values": [1], "parameter": "window", "situations": [{}]}'])
def test_a_file_that_is_no_councils_is_told_and_the_rest_is_shown(tmp_path: Path, content: str) -> None:
    (tmp_path / "state").write_text(content)
    found = forwarding(ForwardSettings(state=tmp_path / "state", log=tmp_path / "nowhere"))
    assert found["learned"] is None and found["past"] == [] and len(found["troubles"]) == 2
    assert "is not a file of the council" in found["troubles"][1]


def test_the_services_file_says_where_all_are(tmp_path: Path) -> None:
    text = '[service]\nhistory = "h.db"\nschedule = "plan.json"\n'
    text += '[service.forward]\nmetrics = ["a:1"]\nlog = "council.log"\n'
    (tmp_path / "serve.toml").write_text(text)
    settings = read_service(tmp_path / "serve.toml", {})
    assert settings.history == str(tmp_path / "h.db")
    assert settings.forward == ForwardSettings(metrics=["a:1"], log=tmp_path / "council.log")
    looks = pages(settings).looks
    assert set(looks) == {"history", "application", "runs", "forwarding", "schedule"}
    assert "none" in looks["application"]({"of": "x"}) and "plan.json" in str(looks["schedule"]({})["none"])
    assert "index.html" in pages(settings).files and pages().looks == {}


@pytest.mark.parametrize(
    ("text", "wanted"), [("{}", "is not a plan"), ("[1", "is not a plan"), (None, "not exist yet")]
)
def test_a_plan_that_cannot_be_read_is_said(text: str | None, wanted: str, tmp_path: Path) -> None:
    if text is not None:
        (tmp_path / "plan.json").write_text(text)
    assert wanted in str(read_plan(tmp_path / "plan.json")["none"])


def test_an_old_plan_is_shown_with_a_warning(tmp_path: Path) -> None:
    plan = {"at": time.time() - 7200, "interval": 10, "running": [], "planned": [{}] * 600, "others": []}
    plan |= {"counts": {"running": 0, "planned": 600, "others": 0, "deep": 0}}
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    view = read_plan(tmp_path / "plan.json")
    assert "Slurm decides alone" in view["trouble"]
    assert (len(view["planned"]), view["counts"]["planned"]) == (500, 600)
