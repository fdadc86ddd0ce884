"""The parameters of I/O nodes that a council may set, and their values."""

from forebay.act.forward.net.wire import LONGEST
from forebay.decide.order.queue_layout import AGGREGATE, QUANTUM, WINDOW
from forebay.decide.registry import given_options
from forebay.model.errors import BadInput

RANGES = {"window": (0, 1_000_000_000), "aggregate": (0, LONGEST), "quantum": (1, 1 << 20)}
"""In nanoseconds, bytes and messages."""
SHORTEST_WINDOW = 10_000
DEFAULT_WINDOWS = ("0 ms", "0.125 ms", "0.25 ms", "0.5 ms", "1 ms", "2 ms", "4 ms", "8 ms")
"""What a council chooses from by default: no windows, and the values of the paper."""
PARAMETERS = (*RANGES, "scheduler")
QUEUE_FIELDS = {"window": WINDOW, "aggregate": AGGREGATE, "quantum": QUANTUM}
"""The index of each parameter in the queue's array."""


def check_parameter(parameter: object, value: object) -> int | str:
    """Return the value; raises BadInput unless the parameter can have it.

    >>> check_parameter("window", 500_000)
    500000
    """
    if parameter == "scheduler" and isinstance(value, str):
        for name, option in given_options("order", value).items():
            if name in RANGES:
                check_parameter(name, option)
        return value
    if not isinstance(parameter, str) or parameter not in RANGES:
        raise BadInput("decision", f"unknown parameter {parameter!r}; use one of: {', '.join(PARAMETERS)}")
    low, high = RANGES[parameter]
    if type(value) is not int or not low <= value <= high:
        raise BadInput("decision", f"{parameter} must be from {low} to {high}, not {value!r}")
    if parameter == "window" and 0 < value < SHORTEST_WINDOW:
        raise BadInput("decision", f"window must be 0 or at least {SHORTEST_WINDOW}, not {value}")
    return value
