"""The one door to structlog: one line a happening, as JSON for machines or as words for people."""

from __future__ import annotations

import sys
from typing import Any, Literal, TextIO

import structlog

Format = Literal["json", "text"]


class Log:
    """Lines with a time, a level, what happened, and values by name. Secrets are never given to it."""

    def __init__(self, form: Format = "json", to: TextIO | None = None) -> None:
        renderer: Any = structlog.processors.JSONRenderer(default=str)
        if form == "text":
            renderer = structlog.processors.KeyValueRenderer(key_order=["time", "level", "event"])
        self._lines = structlog.wrap_logger(
            structlog.WriteLogger(to or sys.stderr),
            processors=[
                structlog.processors.add_log_level,
                structlog.processors.TimeStamper(fmt="iso", utc=True, key="time"),
                renderer,
            ],
            wrapper_class=structlog.BoundLogger,
            cache_logger_on_first_use=True,
        )

    def info(self, what: str, /, **values: Any) -> None:
        self._lines.info(what, **values)

    def warning(self, what: str, /, **values: Any) -> None:
        self._lines.warning(what, **values)

    def error(self, what: str, /, **values: Any) -> None:
        self._lines.error(what, **values)
