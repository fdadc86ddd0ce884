"""Current rates per OST and job, from a Prometheus server that collects a Lustre exporter."""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import Iterator
from http.client import HTTPException
from urllib.error import HTTPError, URLError
from urllib.parse import urlencode
from urllib.request import urlopen

from forebay.act.filesystems.lustre.job_stats import check_single_filesystem
from forebay.model.errors import BadInput, UserError, why

METRICS = ("lustre_job_write_bytes_total", "lustre_job_read_bytes_total")
MOST_BYTES = 32 << 20
"""The largest answer that is read: some 200,000 pairs of target and job."""
_PIECE = 64 << 10
_TARGET = re.compile(r"(?P<name>.+)-OST(?P<index>[0-9a-fA-F]{4,8})(?:_UUID)?")


class MetricsUnavailable(UserError):
    """A metrics server that is unreachable, slow or answers with an error; the message is one line."""


def query_job_rates(url: str, name: str, window: float, timeout: float) -> Iterator[tuple[int, str, float]]:
    """(OST index, job id, bytes/s) over the last `window` seconds, one item for reads and one for writes.

    `name` limits the answer to one file system; "" is for a server with one only.
    """
    systems: set[str] = set()
    for metric in METRICS:
        for row in _query(url, rate_query(metric, name, window), timeout):
            for system, index, job, rate in _parse_row(row, name, url):
                systems.add(system)
                check_single_filesystem(url, systems)
                yield index, job, rate


def rate_query(metric: str, name: str, window: float) -> str:
    """
    >>> rate_query("lustre_job_write_bytes_total", "scratch", 60)
    'sum by (target, jobid) (rate(lustre_job_write_bytes_total{target=~"scratch-OST.*"}[60s]))'
    """
    literal = name.replace(".", "[.]")
    only = f'{{target=~"{literal}-OST.*"}}' if name else ""
    return f"sum by (target, jobid) (rate({metric}{only}[{max(1, round(window))}s]))"


def _parse_row(row: object, name: str, url: str) -> Iterator[tuple[str, int, str, float]]:
    try:
        labels, rate = row["metric"], float(row["value"][1])  # type: ignore[index]
        target, job = _TARGET.fullmatch(labels.get("target", "")), str(labels.get("jobid", ""))
    except (KeyError, IndexError, TypeError, ValueError, AttributeError):
        raise BadInput(url, "the answer has a row that is not a sample") from None
    if target and name in ("", target["name"]) and math.isfinite(rate) and rate >= 0:
        yield target["name"], int(target["index"], 16), job, rate


def _query(url: str, query: str, timeout: float) -> list[object]:
    text = _get(f"{url.rstrip('/')}/api/v1/query?{urlencode({'query': query})}", url, timeout)
    try:
        answer = json.loads(text)
        result = answer["data"]["result"]
    except (ValueError, RecursionError, KeyError, TypeError):
        raise BadInput(url, "the answer is not one of Prometheus; check the address") from None
    if not isinstance(result, list) or answer["data"].get("resultType") != "vector":
        raise BadInput(url, "the answer is not a vector")
    return result


def _get(address: str, url: str, timeout: float) -> bytes:
    """The body, within `timeout` seconds in all, however slowly the server sends it."""
    deadline = time.monotonic() + timeout
    body = bytearray()
    try:
        with urlopen(address, timeout=timeout) as response:
            while piece := response.read1(_PIECE):
                body += piece
                if len(body) > MOST_BYTES:
                    raise MetricsUnavailable(f"{url}: the answer is larger than {MOST_BYTES >> 20} MiB")
                if time.monotonic() > deadline:
                    raise TimeoutError
    except HTTPError as error:
        raise MetricsUnavailable(f"{url}: {_describe(error)}") from None
    except TimeoutError:
        raise MetricsUnavailable(f"{url}: no answer within {timeout:g} s") from None
    except URLError as error:
        reason = why(error.reason) if isinstance(error.reason, OSError) else str(error.reason)
        slow = isinstance(error.reason, TimeoutError)
        raise MetricsUnavailable(f"{url}: {f'no answer within {timeout:g} s' if slow else reason}") from None
    except (OSError, HTTPException) as error:
        raise MetricsUnavailable(
            f"{url}: {why(error) if isinstance(error, OSError) else 'the answer ended early'}"
        ) from None
    return bytes(body)


def _describe(error: HTTPError) -> str:
    """The status with the reason, which Prometheus gives in the body."""
    with error:
        try:
            reason = json.loads(error.read(_PIECE))["error"]
        except (OSError, HTTPException, ValueError, RecursionError, KeyError, TypeError):
            reason = error.reason
    return " ".join(f"HTTP {error.code}: {reason}".split())[:300]
