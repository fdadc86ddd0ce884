"""JSON documents as whoever asked for them gets them."""

import json
from typing import Any


def as_received(document: object) -> Any:
    return json.loads(json.dumps(document))
