"""The look of each policy: a colour, marker and line that are the same in every figure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from scipy.special import stdtrit

from forebay.history.toml import load_toml
from forebay.model.arrays import Floats
from forebay.show.figures.sheet import Style, printable
from forebay.show.rows import finite_values


@dataclass(frozen=True, slots=True)
class Band:
    """A line and the area around it."""

    x: Floats
    middle: Floats
    low: Floats
    high: Floats

    def at_least(self, least: float) -> Band:
        """Raise all values below `least` to it."""
        return Band(self.x, *(np.maximum(part, least) for part in (self.middle, self.low, self.high)))


def mean_of_rows(rows: Floats) -> Band:
    """Return the mean of each column with its 95 % confidence interval, over columns 1, 2, 3 and so on."""
    middle = rows.mean(axis=0)
    error = rows.std(axis=0, ddof=1) / np.sqrt(len(rows)) if len(rows) > 1 else np.zeros_like(middle)
    reach = error * (stdtrit(len(rows) - 1, 0.975) if len(rows) > 1 else 0.0)
    return Band(np.arange(1, middle.size + 1, dtype=float), middle, middle - reach, middle + reach)


def regression(x: Floats, y: Floats, degree: int) -> Band:
    """Fit a polynomial to the points, with the 95 % confidence interval of its mean."""
    known = np.isfinite(x) & np.isfinite(y)
    x, y = x[known], y[known]
    if not x.size:
        return Band(x, y, y, y)
    span = float(np.ptp(x)) or 1.0
    degree = min(degree, np.unique(x).size - 1, max(1, x.size // 4))
    design = np.vander((x - x.min()) / span, degree + 1)
    at = np.linspace(x.min(), x.max(), 61) if degree else x.mean(keepdims=True)
    wanted = np.vander((at - x.min()) / span, degree + 1)
    inverse = np.linalg.pinv(design.T @ design)
    weights = inverse @ design.T @ y
    free = x.size - degree - 1
    variance = float(((y - design @ weights) ** 2).sum()) / free if free else 0.0
    error = np.sqrt(variance * np.einsum("ij,jk,ik->i", wanted, inverse, wanted).clip(0))
    reach = error * (stdtrit(free, 0.975) if free else 0.0)
    middle = wanted @ weights
    return Band(at, middle, middle - reach, middle + reach)


Dashes = str | tuple[int, tuple[float, ...]]

INK = "#333333"  # for everything that is not a policy
FAINT = "#9DB4C0"


@dataclass(frozen=True, slots=True)
class Look:
    """The colour, marker and line of a policy; a higher `front` is drawn over a lower one."""

    colour: str
    marker: str
    dashes: Dashes = "-"
    width: float = 1.3
    front: int = 3

    def style(self) -> Style:
        """Return the arguments for `Axes.plot`."""
        return {
            "color": self.colour,
            "marker": self.marker,
            "linestyle": self.dashes,
            "linewidth": self.width,
            "markersize": 3.2 + self.width,
            "markeredgewidth": 1.0 if self.marker in "x+" else 0.5,
            "markeredgecolor": self.colour if self.marker in "x+" else "white",
            "zorder": self.front,
        }


def _read_looks() -> dict[str, dict[str, Look]]:
    def look(colour: str, marker: str, dashes: Sequence[float] = (), *width_and_front: float) -> Look:
        return Look(colour, marker, (0, tuple(dashes)) if dashes else "-", *width_and_front)  # type: ignore[arg-type]

    tables = load_toml(Path(__file__).with_suffix(".toml"))
    return {kind: {name: look(*values) for name, values in table.items()} for kind, table in tables.items()}


LOOKS = _read_looks()
"""Looks by kind of policy, and by name."""
_SPARE = tuple(LOOKS["spare"].values())
_SPARE_DASHES: tuple[Dashes, ...] = ("-", "--", "-.", ":")


def looks_of(names: Iterable[str], kind: str) -> dict[str, Look]:
    """Return a look for every name of a kind; unknown names get spare looks in their order.

    >>> looks_of(["mine", "forebay"], "allocators")["mine"].colour
    '#882255'
    """
    looks, unknown = {}, 0
    for name in names:
        if name not in LOOKS[kind]:
            again, place = divmod(unknown, len(_SPARE))
            dashes = _SPARE_DASHES[(again - 1) % len(_SPARE_DASHES)] if again else _SPARE[place].dashes
            looks[name] = replace(_SPARE[place], dashes=dashes)
            unknown += 1
        else:
            looks[name] = LOOKS[kind][name]
    return looks


def draw_band(axes: Axes, band: Band, look: Look, *, markers: bool = True) -> None:
    """Draw a line through the middle of the band, and the area between its low and high."""
    style = look.style()
    if not markers and band.x.size > 1:
        style["marker"] = "none"
    axes.plot(band.x, band.middle, markevery=max(1, band.x.size // 20), **style)
    if band.x.size == 1:
        axes.vlines(band.x, band.low, band.high, color=look.colour, linewidth=look.width, zorder=look.front - 1)
    else:
        axes.fill_between(
            band.x, band.low, band.high, color=look.colour, alpha=0.13, linewidth=0, zorder=look.front - 2
        )


def key(name: str, look: Look, *, line: bool = True) -> Line2D:
    """Return the legend entry of a policy, with a line or with a marker only."""
    style = look.style() | {"markersize": 5.2}
    return Line2D([], [], label=printable(name), **style | ({} if line else {"linestyle": "none"}))


def annotate(axes: Axes, text: str, at: tuple[float, float], points: tuple[float, float], **how: Any) -> None:
    """Write a small text at an offset of `points` from a place."""
    style: Style = {"textcoords": "offset points", "color": INK, "fontsize": 6.5}
    axes.annotate(text, at, points, **style | how)


def centre_groups(axes: Axes, count: int, least: int) -> None:
    """Centre groups at 0, 1, 2 and so on in an x axis with room for `least` of them, without grid lines."""
    middle, half = (count - 1) / 2, max(count, least) / 2 + 0.1
    axes.set_xlim(middle - half, middle + half)
    axes.grid(axis="x", visible=False)


BOXES = (
    "Boxes hold the middle half of the sets; whiskers reach from the 10th to the 90th percentile; "
    "a line marks the median, a marker the mean."
)


def boxes(axes: Axes, samples: Mapping[str, Floats], looks: Mapping[str, Look]) -> None:
    """Draw a box for each name that has samples, in the look of its policy."""
    for position, (name, values) in enumerate(samples.items()):
        values = finite_values(values)
        if values.size:
            _draw_box(axes, position, values, looks[name])
    axes.set_xticks([])
    centre_groups(axes, len(samples), 3)


# Drawn by hand because `Axes.boxplot` imports pyplot, which looks for a screen.
def _draw_box(axes: Axes, position: int, values: Floats, look: Look) -> None:
    p10, p25, p50, p75, p90 = np.percentile(values, (10, 25, 50, 75, 90)).tolist()
    axes.vlines([position] * 2, [p10, p75], [p25, p90], color=look.colour, linewidth=look.width, zorder=2)
    axes.hlines([p10, p90], position - 0.14, position + 0.14, color=look.colour, linewidth=look.width, zorder=2)
    axes.bar(position, p75 - p25, 0.56, p25, color=(look.colour, 0.4), edgecolor=look.colour, linewidth=0.8, zorder=2)
    axes.hlines(p50, position - 0.28, position + 0.28, color=INK, linewidth=1.2, zorder=4)
    axes.plot([position], [values.mean()], **look.style() | {"markersize": 5.5, "linestyle": "none", "zorder": 5})
