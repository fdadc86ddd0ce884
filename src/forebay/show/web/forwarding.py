"""What the page shows of the forwarding layer: its I/O nodes now, and what the council saw, decided and learned.

I/O nodes and the council are asked by their Prometheus metrics; what happened over time is in the council's log, and
what it learned in the file that it keeps its memory in.
"""

from __future__ import annotations

import json
import math
import re
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from forebay.act.control.service.settings import ForwardSettings
from forebay.model.errors import why

Document = dict[str, Any]
_PATIENCE = 1.0  # seconds for an answer
_AT_ONCE = 16
_MOST_BYTES = 4 << 20
_TAIL = 1 << 20  # bytes of the log that are read
_POINTS = 600
_NUMBER = re.compile(r"^(?P<name>[a-z_]+?)(_total)?(\{(?P<labels>.*)\})? (?P<value>\S+)$")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
_NONE = (
    "The service is not told of a forwarding layer. Under [service.forward] in its file, set metrics = "
    '["HOST:PORT", ...] as each I/O node and the council have them (--metrics), and log and state as the council has '
    "them (--log, --state)."
)


def forwarding(settings: ForwardSettings) -> Document:
    """`none` says why there is nothing; what can't be read is told in `troubles`."""
    if not (settings.metrics or settings.log or settings.state):
        return {"none": _NONE}
    troubles: list[str] = []
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        answers = list(pool.map(_asked, settings.metrics))
    nodes, council = [], None
    for address, answer in zip(settings.metrics, answers, strict=True):
        if isinstance(answer, str):
            troubles.append(f"{address}: {answer}")
        elif "forebay_council_nodes" in answer:
            council = _council(answer)
        else:
            nodes.append(_node(address, answer))
    past = _told(settings.log, _past, troubles) or []
    learned = _told(settings.state, _learned, troubles)
    return {"nodes": nodes, "council": council, "past": past, "learned": learned, "troubles": troubles}


# Metrics

Numbers = dict[str, list[tuple[dict[str, str], float]]]


def _asked(address: str) -> Numbers | str:
    """All numbers that somebody shows, by name; or in words why not."""
    straight = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with straight.open(f"http://{address}/metrics", timeout=_PATIENCE) as answer:
            return numbers(answer.read(_MOST_BYTES).decode("utf-8", "replace"))
    except OSError as error:
        return f"does not answer: {why(error)}" if error.errno else "does not answer"
    except ValueError:
        return "is no HOST:PORT"


def numbers(text: str) -> Numbers:
    """
    >>> numbers('forebay_ion_queue_depth{server="1"} 3.0')
    {'forebay_ion_queue_depth': [({'server': '1'}, 3.0)]}
    """
    numbers_by_name: Numbers = {}
    for line in text.splitlines():
        number = _NUMBER.match(line)
        if number is not None:
            labels = dict(_LABEL.findall(number["labels"] or ""))
            numbers_by_name.setdefault(number["name"], []).append((labels, float(number["value"])))
    return numbers_by_name


def _one(numbers: Numbers, name: str) -> float:
    value = numbers.get(name, [({}, 0.0)])[0][1]
    return value if math.isfinite(value) else 0.0


_OF_NODES = ("files", "mean", "load", "busy", "clients", "processes", "bytes_read", "bytes_written", "window_seconds")


def _node(address: str, numbers: Numbers) -> Document:
    depths = {labels.get("server", ""): value for labels, value in numbers.get("forebay_ion_queue_depth", [])}
    operation = next((labels.get("operation", "") for labels, _ in numbers.get("forebay_ion_operation", [])), "")
    node: Document = {name: _one(numbers, f"forebay_ion_{name}") for name in _OF_NODES}
    return node | {"address": address, "depths": depths, "operation": operation}


def _council(numbers: Numbers) -> Document:
    decision = next((labels for labels, _ in numbers.get("forebay_council_decision", [])), {})
    return {
        "nodes": _one(numbers, "forebay_council_nodes"),
        "situations": _one(numbers, "forebay_council_situations"),
        "decision": decision,
    }


# Files


def _told(path: Path | None, read: Any, troubles: list[str]) -> Any:
    if path is None:
        return None
    try:
        return read(path)
    except OSError as error:
        troubles.append(f"{path}: {why(error)}")
    except (ValueError, KeyError, TypeError, AttributeError, IndexError):
        troubles.append(f"{path}: is not what a council writes")
    return None


def _past(path: Path) -> list[Document]:
    """What the council saw and decided lately, thinned out to what a picture can show."""
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - _TAIL))
        lines = file.read().splitlines()
    rows = list(_rows(lines if path.stat().st_size <= _TAIL else lines[1:]))
    return rows[:: max(1, math.ceil(len(rows) / _POINTS))]


def _rows(lines: list[bytes]) -> Iterator[Document]:
    for line in lines:
        try:
            row = json.loads(line)
        except ValueError:
            continue  # the last one may be half written
        names = ("time", "parameter", "value", "because", "nodes", "patterns", "operation", "bandwidth")
        yield {name: row.get(name) for name in names}


def _learned(path: Path) -> Document:
    """The best value of each situation so far, and on how many rewards that rests."""
    state = json.loads(path.read_text(encoding="utf-8"))
    values = state["values"]
    rows = [_situation(row, values) for row in state["situations"]]
    rows.sort(key=lambda row: -row["rewards"])
    return {"parameter": state["parameter"], "values": values, "situations": rows}


def _situation(row: Document, values: list[Any]) -> Document:
    counts = [sum(column) for column in zip(*(bandit["counts"] for bandit in row["bandits"]), strict=True)]
    means = [_mean(row["bandits"], arm) for arm in range(len(values))]
    tried = [arm for arm, count in enumerate(counts) if count > 0]
    best = max(tried, key=lambda arm: means[arm], default=None)
    about = {name: row[name] for name in ("operation", "pattern", "servers", "io_nodes", "clients", "processes")}
    arms = [[value, count, mean] for value, count, mean in zip(values, counts, means, strict=True)]
    return about | {"rewards": sum(counts), "best": None if best is None else values[best], "arms": arms}


def _mean(bandits: list[Document], arm: int) -> float:
    """Over all bandits of a situation, by what each rests on."""
    weight = sum(bandit["counts"][arm] for bandit in bandits)
    return sum(bandit["counts"][arm] * bandit["means"][arm] for bandit in bandits) / weight if weight else 0.0
