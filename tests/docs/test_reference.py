"""The generated reference tells all that there is: compared with the code's own listings."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from forebay.act.control.api.description import STREAMED, event_meanings, event_schemas
from forebay.profile.calibration.filesystem_costs import Parameters
from generate.commands import READ, SET, all_commands, commands_page
from generate.configuration import FILES, Key, configuration_page, keys
from generate.http import all_calls, described, http_page, routes
from generate.json_fields import json_page, meanings, printing
from generate.metrics import PARTS, metrics_page
from support.command import Forebay
from support.darshan_logs import wheel_log
from support.doc_options import wrong_options
from support.measured_runs import draw_runs, write_fives

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "forebay"


@pytest.fixture
def forebay(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Forebay:
    return Forebay(capfd, monkeypatch)


def sections(text: str, mark: str = "## ") -> dict[str, str]:
    parts = re.split(rf"^{mark}", text, flags=re.M)[1:]
    return {part.partition("\n")[0]: part for part in parts}


def test_every_command_is_there_with_all_its_options_and_its_example() -> None:
    told = sections(commands_page())
    for path, found in all_commands():
        own = told[f"forebay {path}"]
        missing = [name for one in found.params for name in one.opts if name.startswith("-") and f"`{name}" not in own]
        assert not missing, path
        assert "$ forebay" in own, path
        assert all(one.help for one in found.params), path


def test_examples_name_commands_and_options_that_are_there() -> None:
    assert wrong_options(commands_page()) == []
    assert wrong_options("$ forebay size --no-such-option\n") != []


def test_commands_of_groups_are_found_too() -> None:
    found = [path for path, _ in all_commands()]
    assert {"size", "storage list", "forward ion", "study io-nodes"} <= set(found)
    assert len(found) == len(set(found))


def test_every_variable_of_the_environment_is_there() -> None:
    texts = [path.read_text() for end in ("py", "lua", "sh") for path in SOURCE.rglob(f"*.{end}")]
    assert {name for text in texts for name in re.findall(r"\bFOREBAY_[A-Z_]+\b", text)} == READ.keys() | SET.keys()


def _tables() -> set[tuple[str, str]]:
    """(file, class) of all tables that are read from files."""
    found = set()
    for path in SOURCE.rglob("*.py"):
        if path.parent.name != "api" and path.name != "toml.py":
            for name in re.findall(r"^class (\w+)\((?:toml\.)?(?:Open)?Table\)", path.read_text(), flags=re.M):
                found.add((f"forebay.{'.'.join(path.relative_to(SOURCE).with_suffix('').parts)}", name))
    return found


def _reached(model: Any) -> Iterator[tuple[str, str]]:
    yield model.__module__, model.__name__
    for field in model.model_fields.values():
        for inner in (field.annotation, *getattr(field.annotation, "__args__", ())):
            if hasattr(inner, "model_fields"):
                yield from _reached(inner)


def test_every_table_of_every_file_is_there() -> None:
    assert {one for file in FILES for one in _reached(file.model)} == _tables()


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_every_key_is_there_with_a_meaning(file: Any) -> None:
    own = sections(configuration_page())[file.name]
    for key in keys(file):
        assert key.meaning, f"{file.name}: {key.table} {key.name}: write it under the field"
        assert key.kind, key
        assert _told(key, own), f"{file.name}: {key.table} {key.name}"


def _told(key: Key, own: str) -> bool:
    heading = f"### `{key.table}`"
    table = own.partition(heading)[2].partition("###")[0] if key.table else own
    return f"| `{key.name}` |" in table or bool(key.holds and f"### `{key.holds}`" in own)


def test_a_default_is_shown_with_its_unit_and_a_limit_with_its_number() -> None:
    text = configuration_page()
    assert '| `split` | size | `"200 GB"` |' in text
    assert "| `parallel` | whole number from 1 to 64 | `4` |" in text
    assert "| `socket_mode` | whole number from 0 to 511 | `0o666` |" in text


def test_every_metric_is_there() -> None:
    told = sections(metrics_page())
    for part, found in PARTS.items():
        own = told[f"{part[0].upper()}{part[1:]}"]
        assert [one.full_name for one in found if f"| `{one.full_name}` | {one.kind} |" not in own] == []


def test_every_call_is_there_with_its_parameters_and_who_may() -> None:
    told = sections(http_page())
    calls = list(all_calls(described()))
    assert {(method, path) for method, path, _, _ in calls} == {
        (method, route.path) for route in routes() for method in route.methods - {"HEAD"}
    }
    for method, path, found, _ in calls:
        own = told[f"`{method} {path}`"]
        assert "May: " in own
        assert all(f"| `{one['name']}` |" in own for one in found.get("parameters", ()))
    may = {(method, path): who for method, path, _, who in calls}
    assert may["PUT", "/v1/policy"] == "administrators"
    assert may["GET", "/v1/health"] == "anybody"
    assert may["POST", "/v1/nodes/{node}/reports"] == "the agent of that node"


def test_every_field_of_the_http_api_has_a_meaning_and_every_meaning_a_field() -> None:
    document = described()
    schemas = document["components"]["schemas"]
    named = [one for _, _, call, _ in all_calls(document) for one in call.get("parameters", ())]
    fields = {
        f"{name}.{field}": one for name, own in schemas.items() for field, one in own.get("properties", {}).items()
    }
    fields |= {f"parameter {one['name']}": one for one in named}
    assert [name for name, one in fields.items() if not one.get("description")] == []
    events = [own["properties"] for name, own in event_schemas().items() if "properties" in own and name != STREAMED]
    assert set(event_meanings()) == set().union(*events)


def test_every_command_with_json_is_there_and_every_value_that_one_is() -> None:
    told, text = meanings()["commands"], json_page()
    assert {name.partition(": ")[0] for name in told} == set(printing())
    assert all(f"## forebay {path}\n" in text for path in printing())
    assert {one["_value"].removesuffix("[]") for one in told.values() if "_value" in one} <= set(
        described()["components"]["schemas"]
    )


KINDS = {str: "text", bool: "boolean", int: "whole number", float: "number", type(None): "null"}


@pytest.mark.filterwarnings("ignore:Exception ignored in. <socket.socket:pytest.PytestUnraisableExceptionWarning")
def test_what_commands_print_is_what_is_told(forebay: Forebay, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for case, arguments in _cases(tmp_path):
        ran = forebay(*arguments, "--json")
        document = json.loads(ran.out or "null")
        assert document is not None, (arguments, ran.err)
        _compare(case, _each(document))


def _each(document: Any) -> list[Any]:
    """Of several policies, the documents of all."""
    several = isinstance(document, dict) and set(document) == {"runs"} and "allocate" in document["runs"][0]
    return list(document["runs"]) if several else [document]


_RECORD = """\
{"event": "machine", "at": 0, "mode": "shadow", "policy": "fcfs", "unit": "nodes", "nodes": 4, "pool": "", "space": 0}
{"event": "waits", "at": 1, "job": "7", "submit": 1, "nodes": 4, "walltime": 60, "bytes": 0, "user": "ann"}
{"event": "starts", "at": 9, "job": "7", "start": 9, "as_planned": true}
{"event": "ends", "at": 99, "job": "7", "end": 50, "state": "COMPLETED"}
"""


def _cases(here: Path) -> Iterator[tuple[str, tuple[object, ...]]]:
    examples, db = ROOT / "examples", ("--db", here / "history.db")
    yield "policies", ("policies",)
    yield "compile", ("compile", "--workers", "1")
    yield "allocate", ("allocate", examples / "machine.toml")
    yield "simulate", ("simulate", examples / "machine.toml")
    yield "simulate", ("simulate", examples / "machine.toml", "--allocate", "static,tcpu")
    storage = ("simulate", examples / "burst-buffer.toml", "--requests", "theta-2020:300")
    yield "simulate: a storage scenario", (*storage, "--platform", "8TB/nNnD", "--policy", "worst-fit")
    yield "simulate: a storage scenario, optimal", (*storage, "--policy", "optimal")
    yield "size", ("size", "--requests", "theta-2020:100", "--policy", "worst-fit", "--workers", 1)
    yield "serve: --check", ("serve", "--check", "--socket", here / "s.sock", *db)
    yield "schedule: --check", ("schedule", "--config", examples / "schedule.toml", "--check")
    (here / "record.jsonl").write_text(_RECORD)
    yield "replay: the record of a planner", ("replay", here / "record.jsonl")
    yield "forward up: --check", ("forward", "up", "--check", examples / "forward.toml")
    yield "token make", ("token", "make", "ann", "--uid", 5, "--out", here / "ann.token", *db)
    yield "token list", ("token", "list", *db)
    yield "token remove", ("token", "remove", "ann", *db)
    log = wheel_log("sample-badost.darshan")
    yield "calibrate", ("calibrate", write_fives(here / "jobs.yaml", draw_runs(40, Parameters())), "--dry-run")
    yield "diagnose", ("diagnose", log)
    yield "ingest", ("ingest", log, *db, "--workers", 1)
    yield "diagnose: an application", ("diagnose", "ior", *db)
    yield "history stats", ("history", "stats", *db)
    yield "history apps", ("history", "apps", *db)
    yield "history runs", ("history", "runs", *db)
    yield "history show", ("history", "show", 1, *db)
    yield "history osts", ("history", "osts", *db)
    yield "history export", ("history", "export", here / "out", *db)
    yield "profile", ("profile", "ior", *db)
    system = ("--system", examples / "filesystem.toml", "--procs", 48, "--job", 7)
    yield "advise", ("advise", "--app", "ior", *system, *db)
    yield "history advice", ("history", "advice", *db)
    yield "history advice", ("history", "advice", 1, *db)
    yield "advise: --release", ("advise", "--release", 7, *db)
    (here / "slurm.conf").write_text("ClusterName=test\n")
    yield "slurm install", ("slurm", "install", here)
    yield "slurm check", ("slurm", "check", here, "--service", f"unix:{here}/none")


def _compare(case: str, documents: list[Any]) -> None:
    told = {name: text.partition(": ")[0].split(" or ") for name, text in meanings()["commands"][case].items()}
    told = {name: kinds for name, kinds in told.items() if not name.startswith("_")}
    whole = {name for name, kinds in told.items() if "object" in kinds}
    seen: set[str] = set()
    for path, value in (found for document in documents for found in _leaves(document, "", whole)):
        seen.add(path)
        assert path in told, f"{case}: {path} has no meaning"
        kind = "object" if isinstance(value, dict) else KINDS[type(value)]
        assert kind in told[path] or (kind == "whole number" and "number" in told[path]), f"{case}: {path}: {value!r}"
    sure = {path for path, kinds in told.items() if "absent" not in kinds and "[]" not in path}
    assert sure <= seen, f"{case} does not print these"


def _leaves(value: Any, path: str, whole: set[str]) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping) and path not in whole:
        for key, inner in value.items():
            yield from _leaves(inner, f"{path}.{key}".removeprefix("."), whole)
    elif isinstance(value, list):
        for inner in value:
            yield from _leaves(inner, f"{path}[]", whole)
    else:
        yield path, value
