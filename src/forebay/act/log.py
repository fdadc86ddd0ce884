"""The log: one line per event, as JSON for programs or as text for people. Only this module imports structlog."""

import sys
from collections.abc import Callable
from typing import Literal, TextIO

import structlog

Format = Literal["json", "text"]


class Log:
    """Writes lines with a time, a level, an event and named values. Never log a secret."""

    def __init__(self, form: Format = "json", to: TextIO | None = None) -> None:
        text = structlog.processors.KeyValueRenderer(key_order=["time", "level", "event"])
        json = structlog.processors.JSONRenderer(default=str)
        stamp = structlog.processors.TimeStamper(fmt="iso", utc=True, key="time")
        lines = structlog.wrap_logger(
            structlog.WriteLogger(to or sys.stderr),
            processors=[structlog.processors.add_log_level, stamp, text if form == "text" else json],
            wrapper_class=structlog.BoundLogger,
            cache_logger_on_first_use=True,
        )
        self.info: Callable[..., None] = lines.info
        self.warning: Callable[..., None] = lines.warning
        self.error: Callable[..., None] = lines.error
