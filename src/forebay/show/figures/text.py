"""Words on figures: names that any font and any parser take, and the labels that recur."""

from __future__ import annotations

from functools import cache

from matplotlib.font_manager import findfont, get_font

FONT = "DejaVu Sans"  # comes with matplotlib, so that a figure is the same on every machine

LOAD = r"I/O load on the targets, I/O-load($\pi_{\mathrm{sys}}$)"
SLOWDOWN = "mean I/O slowdown (times)"
RHO_IO = r"slowdown from the allocation, $\rho_{\mathrm{io}}$ (times)"
RHO_CON = r"slowdown from congestion, $\rho_{\mathrm{con}}$ (times)"
IDLE = "machine idle time (% of node time)"


def printable(name: str, longest: int = 48) -> str:
    """`name` as matplotlib text: nothing read as a formula, no glyph missing, not too long.

    >>> printable("a$b")
    'a\\\\$b'
    """
    shown = "".join(c if c.isprintable() and _has_glyph(c) else "?" for c in name)
    if len(shown) > longest:
        half = (longest - 1) // 2
        shown = f"{shown[:half]}…{shown[-half:]}"
    # A legend leaves out what starts with an underscore.
    return (" " + shown if shown.startswith("_") else shown).replace("$", r"\$")


@cache
def _has_glyph(character: str) -> bool:
    return bool(get_font(findfont(FONT)).get_char_index(ord(character)))
