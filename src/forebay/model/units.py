"""Forebay computes in bytes, seconds and bytes per second; only this module reads other units.

Decimal and binary prefixes differ (GB is 1e9, GiB is 2**30), and so do bits and bytes (Gbit, GB).
"""

import math
import re

_PREFIXES = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "p": 10**15} | {
    "ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40, "pi": 2**50
}  # fmt: skip
_SECONDS = {"": 1.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "min": 60.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_QUANTITY = re.compile(r"^\s*([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)\s*([A-Za-z/]*)\s*$")


def parse_size(text: str | float) -> float:
    """Bytes. A bare number is bytes already.

    >>> parse_size("4 MiB")
    4194304.0
    >>> parse_size("1.5GB")
    1500000000.0
    """
    number, unit = _split(text)
    return number * _bytes(unit, text)


def parse_bandwidth(text: str | float) -> float:
    """Bytes per second. A bare number is bytes per second already.

    >>> parse_bandwidth("10 Gbit/s")
    1250000000.0
    """
    number, unit = _split(text)
    if unit and not unit.endswith("/s"):
        raise ValueError(f"{text!r} is not a bandwidth; write it like '1.5 GB/s' or '10 Gbit/s'")
    return number * _bytes(unit.removesuffix("/s"), text)


def parse_duration(text: str | float) -> float:
    """Seconds. A bare number is seconds already.

    >>> parse_duration("1.5 h")
    5400.0
    """
    number, unit = _split(text)
    if unit not in _SECONDS:
        raise ValueError(f"{text!r} is not a duration; units are {', '.join(u for u in _SECONDS if u)}")
    return number * _SECONDS[unit]


def require_unit(value: object) -> str:
    """`value` itself, which must be text with a unit: a bare number is ambiguous.

    >>> require_unit("200 GB")
    '200 GB'
    """
    if not isinstance(value, str) or not _split(value)[1]:
        raise ValueError(f"needs a unit, like '200 GB', not {value!r}")
    return value


def format_size(size: float) -> str:
    """
    >>> format_size(2_500_000_000)
    '2.50 GB'
    """
    return _add_prefix(size) + "B"


def format_binary(size: int) -> str:
    """
    >>> format_binary(4 << 20), format_binary(65536), format_binary(1000)
    ('4 MiB', '64 KiB', '1000 B')
    """
    for unit, name in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if size >= unit and size % unit == 0:
            return f"{size // unit} {name}"
    return f"{size} B"


def format_bandwidth(bandwidth: float) -> str:
    """
    >>> format_bandwidth(2_500_000_000)
    '2.50 GB/s'
    """
    return _add_prefix(bandwidth) + "B/s"


def format_duration(seconds: float) -> str:
    """In the largest unit that shows the value exactly in four digits, so that users can copy it; else rounded.

    >>> [format_duration(seconds) for seconds in (2_592_000, 5400, 90, 3700, 0.5, 0, 12_345.678)]
    ['30 d', '1.5 h', '1.5 min', '3700 s', '0.5 s', '0 s', '3.43 h']
    """
    if not math.isfinite(seconds):
        return f"{seconds} s"
    units = [unit for unit in ("d", "h", "min", "s") if abs(seconds) >= _SECONDS[unit]] or ["s"]
    for unit in units:
        number = seconds / _SECONDS[unit]
        if math.isclose(float(f"{number:.4g}"), number, rel_tol=1e-12):
            return f"{number:.4g} {unit}"
    return f"{seconds / _SECONDS[units[0]]:.3g} {units[0]}"


def plural(count: int, word: str) -> str:
    """
    >>> plural(1, "run"), plural(1200, "run"), plural(2, "process")
    ('1 run', '1,200 runs', '2 processes')
    """
    ending = "" if count == 1 else "es" if word.endswith("s") else "s"
    return f"{count:,} {word}{ending}"


def _split(text: str | float) -> tuple[float, str]:
    if not isinstance(text, str):
        return float(text), ""
    match = _QUANTITY.match(text)
    if match is None:
        raise ValueError(f"{text!r} is not a number with a unit, like '4 MiB' or '1.5 h'")
    return float(match[1]), match[2]


def _bytes(unit: str, text: str | float) -> float:
    """The bytes in one `unit`: a prefix, then `bit` or `B`; no unit is bytes."""
    if not unit:
        return 1.0
    for suffix, factor in (("bit", 0.125), ("B", 1.0)):
        scale = _PREFIXES.get(unit.removesuffix(suffix).lower()) if unit.endswith(suffix) else None
        if scale:
            return scale * factor
    raise ValueError(f"{text!r} has no unit of bytes; write it like '4 MiB', '1.5 GB' or '10 Gbit'")


def _add_prefix(value: float) -> str:
    if value == 0 or not math.isfinite(value):
        return f"{value:g} "
    step = 0
    while step < 5 and abs(value) >= 999.995 * 1000**step:
        step += 1
    return f"{value / 1000**step:.{0 if step == 0 else 2}f} {('', 'k', 'M', 'G', 'T', 'P')[step]}"
