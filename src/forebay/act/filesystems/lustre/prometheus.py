"""The rates that a Prometheus server with a Lustre exporter has, per OST and job."""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import Iterator
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlencode
from urllib.request import urlopen

from forebay.act.filesystems.lustre.job_stats import check_one
from forebay.model.errors import BadInput, UserError, why

METRICS = ("lustre_job_write_bytes_total", "lustre_job_read_bytes_total")
MOST_BYTES = 32 << 20
"""An answer larger than this is not read: some 200,000 pairs of target and job."""
_PIECE = 64 << 10
_TARGET = re.compile(r"(?P<name>.+)-OST(?P<index>[0-9a-fA-F]{4,8})(?:_UUID)?")


class NoMetrics(UserError):
    """A metrics server that is away, slow or does not answer as one; the message is one line."""


def busy_jobs(url: str, name: str, window: float, timeout: float) -> Iterator[tuple[int, str, float]]:
    """(OST index, job id, bytes/s) over the last `window` seconds, read and written apart.

    `name` limits the answer to one file system; "" is for a server that knows only one.
    """
    seen: set[str] = set()
    for metric in METRICS:
        for row in _result(url, question(metric, name, window), timeout):
            for system, index, job, rate in _rate(row, name, url):
                seen.add(system)
                check_one(url, seen)
                yield index, job, rate


def question(metric: str, name: str, window: float) -> str:
    """
    >>> question("lustre_job_write_bytes_total", "scratch", 60)
    'sum by (target, jobid) (rate(lustre_job_write_bytes_total{target=~"scratch-OST.*"}[60s]))'
    """
    literal = name.replace(".", "[.]")
    only = f'{{target=~"{literal}-OST.*"}}' if name else ""
    return f"sum by (target, jobid) (rate({metric}{only}[{max(1, round(window))}s]))"


def _rate(row: Any, name: str, url: str) -> Iterator[tuple[str, int, str, float]]:
    try:
        labels, rate = row["metric"], float(row["value"][1])
        target, job = _TARGET.fullmatch(labels.get("target", "")), str(labels.get("jobid", ""))
    except (KeyError, IndexError, TypeError, ValueError, AttributeError):
        raise BadInput(url, "the answer has a row that is no sample of a vector") from None
    if target and name in ("", target["name"]) and math.isfinite(rate) and rate >= 0:
        yield target["name"], int(target["index"], 16), job, rate


def _result(url: str, query: str, timeout: float) -> list[Any]:
    text = _get(f"{url.rstrip('/')}/api/v1/query?{urlencode({'query': query})}", url, timeout)
    try:
        answer = json.loads(text)
        result = answer["data"]["result"]
    except (ValueError, RecursionError, KeyError, TypeError):
        raise BadInput(url, "the answer is not one of Prometheus") from None
    if not isinstance(result, list) or answer["data"].get("resultType") != "vector":
        raise BadInput(url, "the answer is not a vector")
    return result


def _get(address: str, url: str, timeout: float) -> bytes:
    """The body, within `timeout` seconds altogether: a server that sends a byte now and then is away, too."""
    ends = time.monotonic() + timeout
    body = bytearray()
    try:
        with urlopen(address, timeout=timeout) as response:
            while piece := response.read1(_PIECE):
                body += piece
                if len(body) > MOST_BYTES:
                    raise NoMetrics(f"{url}: the answer is larger than {MOST_BYTES >> 20} MiB")
                if time.monotonic() > ends:
                    raise TimeoutError
    except HTTPError as error:
        raise NoMetrics(f"{url}: {_said(error)}") from None
    except TimeoutError:
        raise NoMetrics(f"{url}: no answer within {timeout:g} s") from None
    except URLError as error:
        reason = why(error.reason) if isinstance(error.reason, OSError) else str(error.reason)
        slow = isinstance(error.reason, TimeoutError)
        raise NoMetrics(f"{url}: {f'no answer within {timeout:g} s' if slow else reason}") from None
    except (OSError, HTTPException) as error:
        raise NoMetrics(f"{url}: {why(error) if isinstance(error, OSError) else 'the answer broke off'}") from None
    return bytes(body)


def _said(error: HTTPError) -> str:
    """Prometheus explains a refusal in the body; others have no more than a number."""
    with error:
        try:
            words = json.loads(error.read(_PIECE))["error"]
        except (OSError, HTTPException, ValueError, RecursionError, KeyError, TypeError):
            words = error.reason
    return " ".join(f"HTTP {error.code}: {words}".split())[:300]
