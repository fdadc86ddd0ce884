"""Small pictures as inline SVG. They have no text and stretch to the width of the page, so that they fit on a phone;
labels stand beside them as HTML."""

from collections.abc import Iterable, Sequence

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from forebay.model.arrays import Floats

READ, WRITE = "read", "write"
"""Classes of the style sheet."""
OPERATIONS = ((READ, "reads"), (WRITE, "writes"), ("meta", "metadata"))
"""With their names."""
LEVELS = 7
"""Colours of a heat map."""
_FAINTEST = 1e-4  # of the largest value


def draw_bar(share: float, kind: str) -> Markup:
    """A bar that fills this share of its cell."""
    return draw_parts([(share, kind)])


def draw_parts(parts: Iterable[tuple[float, str]]) -> Markup:
    """Parts of a whole beside each other, as shares with their kinds."""
    at, rectangles = 0.0, []
    for share, kind in parts:
        width = min(max(100 * share, 0.0), 100.0 - at)
        if width > 0:
            rectangles.append(f'<rect class="{kind}" x="{at:.4g}" width="{max(width, 0.3):.4g}" height="1"/>')
        at += width
    return _picture("bar", 100, 1, "".join(rectangles))


def draw_columns(values: Sequence[float], kinds: Sequence[str], label: str, names: Sequence[str] = ()) -> Markup:
    """A column for each value, with 0 at the bottom; `names` are shown under a pointer."""
    most = max(values, default=0.0) or 1.0
    gap = 0.2 if len(values) <= 60 else 0.0
    columns = []
    for place, (value, kind) in enumerate(zip(values, kinds, strict=True)):
        height = 100 * value / most
        title = f"<title>{Markup.escape(names[place])}</title>" if names else ""
        shape = (
            f'class="{kind}" x="{place + gap / 2:g}" y="{100 - height:.4g}" width="{1 - gap:g}" height="{height:.4g}"'
        )
        columns.append(f"<rect {shape}>{title}</rect>" if title else f"<rect {shape}/>")
    return _picture("columns", len(values), 100, "".join(columns), label)


def draw_steps(values: Floats, kind: str, label: str) -> Markup:
    """The area below a line of steps."""
    heights = 100 * (1 - values / max(values.max(initial=0.0), 1e-300))
    path, before = ["M0 100"], None
    for place, height in enumerate(heights.tolist()):
        if before is None or abs(height - before) > 0.05:
            path.append(f"H{place}V{height:.3g}")
            before = height
    return _picture("steps", values.size, 100, f'<path class="{kind}" d="{"".join(path)}H{values.size}V100Z"/>', label)


def draw_heat(rates: Floats, label: str) -> tuple[Markup, tuple[float, float]]:
    """A cell for each row and time, darker for more; and the rates of the faintest and of the darkest colour."""
    most = float(rates.max())
    least = max(float(rates[rates > 0].min()), _FAINTEST * most)
    span = np.log(most / least) or 1.0
    levels = np.zeros(rates.shape, dtype=np.int64)
    used = rates > 0
    levels[used] = 1 + np.clip((LEVELS * np.log(rates[used] / least) / span).astype(int), 0, LEVELS - 1)
    paths = []
    for level in range(1, LEVELS + 1):
        if cells := "".join(_cells(levels == level)):
            paths.append(f'<path class="heat-{level}" d="{cells}"/>')
    rows, columns = rates.shape
    return _picture("heat", columns, rows, "".join(paths), label, height=min(max(8 * rows, 40), 288)), (least, most)


def _cells(chosen: NDArray[np.bool_]) -> Iterable[str]:
    """Rectangles that cover the chosen cells, one for each run of them in a row."""
    for row, cells in enumerate(chosen):
        edges = np.flatnonzero(np.diff(np.concatenate(([0], cells.astype(np.int8), [0]))))
        for begin, end in edges.reshape(-1, 2).tolist():
            yield f"M{begin} {row}h{end - begin}v1H{begin}z"


def draw_spans(spans: Sequence[tuple[float, float] | None], duration: float) -> Markup:
    """When reads and when writes went on, in two lanes."""
    lanes = []
    for lane, (span, kind) in enumerate(zip(spans, (READ, WRITE), strict=True)):
        if span is not None:
            begin, end = (100 * min(max(time / duration, 0.0), 1.0) for time in span)
            shape = f'x="{min(begin, 99.5):.4g}" y="{lane}" width="{max(end - begin, 0.5):.4g}" height="0.8"'
            lanes.append(f'<rect class="{kind}" {shape}/>')
    return _picture("spans", 100, 2, "".join(lanes))


def _picture(kind: str, width: int, rows: int, shapes: str, label: str = "", height: int = 0) -> Markup:
    role = f'role="img" aria-label="{Markup.escape(label)}"' if label else 'aria-hidden="true"'
    fixed = f' height="{height}"' if height else ""
    frame = f'class="{kind}" viewBox="0 0 {width} {rows}" preserveAspectRatio="none"{fixed}'
    return Markup(f"<svg {frame} {role}>{shapes}</svg>")
