"""The page's view of the forwarding layer: its I/O nodes, and what the council measured, decided and learned.

The current values come from the Prometheus metrics of I/O nodes and council, the past from the council's log, and what
it learned from its state file.
"""

import json
import math
import re
import urllib.request
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

from forebay.act.control.service.settings import ForwardSettings
from forebay.model.errors import why
from forebay.show.output import Document

Numbers = dict[str, list[tuple[dict[str, str], float]]]
_PATIENCE = 1.0  # seconds for an answer
_AT_ONCE = 16
_MOST_BYTES = 4 << 20
_TAIL = 1 << 20  # bytes of the log that are read
_POINTS = 600
_NUMBER = re.compile(r"^(?P<name>[a-z_]+?)(_total)?(\{(?P<labels>.*)\})? (?P<value>\S+)$")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
_OF_NODES = ("files", "mean", "load", "busy", "clients", "processes", "bytes_read", "bytes_written", "window_seconds")
_OF_PAST = ("time", "parameter", "value", "because", "nodes", "patterns", "operation", "bandwidth")
_NONE = (
    "No forwarding layer is configured. Under [service.forward] in the service's file, set metrics = "
    '["HOST:PORT", ...] to the --metrics of each I/O node and of the council, and log and state to the council\'s '
    "(--log, --state)."
)


def forwarding(settings: ForwardSettings) -> Document:
    """The view; `none` says why it is empty, `troubles` name sources that cannot be read."""
    if not (settings.metrics or settings.log or settings.state):
        return {"none": _NONE}
    troubles: list[str] = []
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        answers = list(pool.map(_fetch_metrics, settings.metrics))
    nodes, council = [], None
    for address, answer in zip(settings.metrics, answers, strict=True):
        if isinstance(answer, str):
            troubles.append(f"{address}: {answer}")
        elif "forebay_council_nodes" in answer:
            decision = next((labels for labels, _ in answer.get("forebay_council_decision", [])), {})
            counts = {name: _value(answer, f"forebay_council_{name}") for name in ("nodes", "situations")}
            council = counts | {"decision": decision}
        else:
            depths = {labels.get("server", ""): value for labels, value in answer.get("forebay_ion_queue_depth", [])}
            operations = (labels.get("operation", "") for labels, _ in answer.get("forebay_ion_operation", []))
            node: Document = {name: _value(answer, f"forebay_ion_{name}") for name in _OF_NODES}
            nodes.append(node | {"address": address, "depths": depths, "operation": next(operations, "")})
    past = _read(settings.log, _read_past, troubles) or []
    learned = _read(settings.state, _read_learned, troubles)
    return {"nodes": nodes, "council": council, "past": past, "learned": learned, "troubles": troubles}


def _fetch_metrics(address: str) -> Numbers | str:
    """Fetch the metrics of an I/O node or of the council, by name; returns the reason if that fails."""
    straight = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with straight.open(f"http://{address}/metrics", timeout=_PATIENCE) as answer:
            return parse_metrics(answer.read(_MOST_BYTES).decode("utf-8", "replace"))
    except OSError as error:
        return f"does not answer: {why(error)}" if error.errno else "does not answer"
    except ValueError:
        return "must be HOST:PORT"


def parse_metrics(text: str) -> Numbers:
    """
    >>> parse_metrics('forebay_ion_queue_depth{server="1"} 3.0')
    {'forebay_ion_queue_depth': [({'server': '1'}, 3.0)]}
    """
    numbers: Numbers = {}
    for number in filter(None, map(_NUMBER.match, text.splitlines())):
        labels = dict(_LABEL.findall(number["labels"] or ""))
        numbers.setdefault(number["name"], []).append((labels, float(number["value"])))
    return numbers


def _value(numbers: Numbers, name: str) -> float:
    value = numbers.get(name, [({}, 0.0)])[0][1]
    return value if math.isfinite(value) else 0.0


def _read(path: Path | None, read: Callable[[Path], Any], troubles: list[str]) -> Any:
    if path is None:
        return None
    try:
        return read(path)
    except OSError as error:
        troubles.append(f"{path}: {why(error)}")
    except (ValueError, KeyError, TypeError, AttributeError, IndexError):
        troubles.append(f"{path}: is not a file of the council; check [service.forward]")
    return None


def _read_past(path: Path) -> list[Document]:
    """The council's recent measurements and decisions, thinned out for a chart."""
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - _TAIL))
        lines = file.read().splitlines()
    rows = []
    for line in lines if path.stat().st_size <= _TAIL else lines[1:]:
        with suppress(ValueError):  # the last line may be incomplete
            row = json.loads(line)
            rows.append({name: row.get(name) for name in _OF_PAST})
    return rows[:: max(1, math.ceil(len(rows) / _POINTS))]


def _read_learned(path: Path) -> Document:
    """The best value of each situation so far, and the number of rewards behind it."""
    state = json.loads(path.read_text(encoding="utf-8"))
    rows = [_situation(row, state["values"]) for row in state["situations"]]
    rows.sort(key=lambda row: -row["rewards"])
    return {"parameter": state["parameter"], "values": state["values"], "situations": rows}


def _situation(row: Document, values: list[Any]) -> Document:
    """One situation with its arms. An arm's mean is over all bandits, weighted by their counts."""
    bandits = row["bandits"]
    counts = [sum(column) for column in zip(*(bandit["counts"] for bandit in bandits), strict=True)]
    sums = [sum(bandit["counts"][arm] * bandit["means"][arm] for bandit in bandits) for arm in range(len(values))]
    means = [total / count if count else 0.0 for total, count in zip(sums, counts, strict=True)]
    best = max((arm for arm, count in enumerate(counts) if count > 0), key=lambda arm: means[arm], default=None)
    about = {name: row[name] for name in ("operation", "pattern", "servers", "io_nodes", "clients", "processes")}
    arms = [[value, count, mean] for value, count, mean in zip(values, counts, means, strict=True)]
    return about | {"rewards": sum(counts), "best": None if best is None else values[best], "arms": arms}
