"""JSON documents as whoever asked for them gets them."""

import json
from collections.abc import Mapping
from typing import Any

from forebay.show.web.server import Source


def as_received(document: object) -> Any:
    return json.loads(json.dumps(document))


def read_page(source: Source, path: str, query: Mapping[str, str] | None = None) -> Any:
    """What the page gets at this path."""
    answer = source.answer(path, query or {})
    assert answer is not None
    return as_received(answer)
