"""The figures of a study and the picture of one simulation, as PNG and PDF files."""

from forebay.show.figures.sheet import Drawn
from forebay.show.figures.simulation import draw_simulation
from forebay.show.figures.study import draw_study

__all__ = ["Drawn", "draw_simulation", "draw_study"]
