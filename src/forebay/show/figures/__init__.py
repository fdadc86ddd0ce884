"""The figures of a study and the pictures of single runs, as PNG and PDF files."""

from forebay.show.figures.sheet import Drawn
from forebay.show.figures.simulation import draw_simulation
from forebay.show.figures.storage_run import draw_storage_run
from forebay.show.figures.storage_sizes import draw_sizes
from forebay.show.figures.storage_study import draw_storage_study
from forebay.show.figures.study import draw_study

__all__ = ["Drawn", "draw_simulation", "draw_sizes", "draw_storage_run", "draw_storage_study", "draw_study"]
